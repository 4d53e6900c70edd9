"""Parameters got no gradient on a rank, so DDP's last reduction never ended.

What it means
    DistributedDataParallel waits for the gradient of each parameter. In the last step
    some parameters took no part in the loss, usually because of a branch in the forward
    pass. Their reduction never began, and the next step cannot begin.

How we know
    `Expected to have finished reduction in the prior iteration`, with the indices and,
    under TORCH_DISTRIBUTED_DEBUG, the names of the parameters on that rank. `Expected
    to mark a variable ready only once` is the reverse: a parameter that was used after
    its turn.

What to do
    Let every parameter take part in the loss on every rank, or pass
    `find_unused_parameters=True`. With activation checkpointing use
    `use_reentrant=False`, and `static_graph=True` where the graph never changes.

Looks like
    `missing-rank`: peers of a rank that takes another branch only see that they wait.

References
    torch DistributedDataParallel, find_unused_parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.identity import world
from ncclforensics.evidence import common
from ncclforensics.model.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAMILY = "runtime"
NEEDS = ("events",)
MISSING = "no log of a rank"
NEXT_TIME = "export TORCH_DISTRIBUTED_DEBUG=INFO, which adds the parameters' names"
EXPLAINS = ("crashed-rank", "missing-rank", "timeout-masking", "unmatched-p2p")
SPREADS = True

TWICE = "c10d.ddp.ready_twice"
RAISED = (
    *("c10d.ddp.unused_parameters", "launchers.lightning.unused_parameters"),
    TWICE,
)
NAMES = "c10d.ddp.unused_names"
INDICES = "c10d.ddp.unused_indices"

REMEDY = (
    "DistributedDataParallel(model, find_unused_parameters=True)",
    "export TORCH_DISTRIBUTED_DEBUG=DETAIL   # names the parameters at the next try",
    "torch.utils.checkpoint.checkpoint(…, use_reentrant=False)   # if you checkpoint",
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the ranks that report unused parameters, and the parameters."""
    raised = frames.message(*RAISED)
    told = frames.message(NAMES, INDICES)
    lines = pl.concat([raised, told], how="diagonal_relaxed")
    if lines.is_empty():
        return
    ranks = common.numbers(lines["rank"])
    if not ranks and "group_rank" in told.columns:
        ranks = common.numbers(told["group_rank"])
    which = _which(told)
    twice = told.is_empty() and (raised["message"] == TWICE).all()
    what = (
        "a parameter was reduced twice in one step"
        if twice
        else f"{which or 'some parameters'} got no gradient"
    )
    who = f" on {common.ranks(ranks)}" if ranks else ""
    if world.is_everyone(frames, ranks):
        # the model is the same on every rank: none of them is the culprit
        who, ranks = f" on all {len(ranks)} ranks", ()
    hosts = common.hosts_of(frames, ranks)
    yield Finding(
        slug="unused-parameters",
        confidence="certain",
        headline=f"{what}{who}"[:200],
        evidence=common.cites(
            pl.concat([f.select("text", "source", "line") for f in (told, raised)])
        ),
        explanation=f"DDP could not finish the gradients of the last step: {what}{who}."
        + (" The other ranks wait in the next reduction." if ranks else ""),
        remedy=REMEDY,
        ranks=ranks,
        hosts=hosts,
        devices=common.devices_of(frames, ranks),
        first_seen=common.first_seen(lines),
    )


def _which(told: pl.DataFrame) -> str:
    """Return the parameters' names, or else their indices; "" if neither is known."""
    if "names" in told.columns:
        names = told["names"].drop_nulls().str.split(", ").explode()
        return common.some(list(dict.fromkeys(names.to_list())))
    if "indices" in told.columns:
        numbers = told["indices"].drop_nulls().str.split(" ").explode().cast(pl.Int64)
        return common.ranks(common.numbers(numbers), "parameter")
    return ""
