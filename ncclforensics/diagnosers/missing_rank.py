"""A rank never made the call that its peers wait in.

What it means
    Every member of a process group has to make each collective. One rank did not come:
    it sits in other code (a checkpoint, a data loader, a lock), left its loop, or died.
    Its peers wait until a timeout and then report an error each; it reports none.

How we know
    Peers wait in SeqNum N of a group, and this rank's last call there is older; it
    waits in no group itself, so the others hang on it, directly or through ranks that
    wait in other groups. From Flight Recorder dumps, from `last enqueued work` of the
    watchdogs, or because a line names it: monitoredBarrier, the desync report, a store
    barrier's `missing_ranks`, a communicator that all but one rank began to build.

What to do
    Look at that rank's log and its stack (`py-spy dump --pid PID` while it hangs) at
    the call site that the report names. Keep dumps for the next time with
    TORCH_FR_BUFFER_SIZE=2000, and raise the timeout only where the rank is known to be
    slow for a reason.

Looks like
    A rank that waits in another group is an echo: it came late because it waits itself.
    A rank whose dump was lost is unseen, and nobody can say that it was absent.
    A rank that died is `crashed-rank`, which explains its absence.

References
    torch.distributed Flight Recorder tutorial; torch.distributed.monitored_barrier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.diagnosers import common
from ncclforensics.diagnosers.named_missing import named
from ncclforensics.findings import Cite, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.findings import Statement
    from ncclforensics.tables import Frames

FAMILY = "desync"
NEEDS = ("standings", *("c10d.", "nccl.init."))
MISSING = "no Flight Recorder dump, and no line that says how far a rank came"
NEXT_TIME = "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1"
EXPLAINS = ("timeout-masking", "crashed-rank")

REMEDY = (
    "read that rank's own log, and its stack while it hangs: py-spy dump --pid PID",
    "export TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1",
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the roots of the wait graph that are absent, one finding per call."""
    found = False
    absent = frames["roots"].filter(pl.col("why") == "absent")
    for (call_id,), ranks in absent.group_by("call", maintain_order=True):
        call = frames["calls"].row(int(str(call_id)), named=True)
        found = True
        yield _finding(frames, call, ranks)
    if not found:
        yield from named(frames)


def _finding(frames: Frames, call: dict[str, object], roots: pl.DataFrame) -> Finding:
    ranks = common.numbers(roots["rank"])
    failing = common.collective(frames, call)
    waiting = [int(rank) for rank in call["waiting"] or ()]  # type: ignore[attr-defined]
    blocked = max(common.numbers(roots["blocked"]))
    own = frames["standings"].filter(
        pl.col("rank").is_in(ranks) & (pl.col("group") == call["group"])
    )
    waits = frames["standings"].filter(
        pl.col("rank").is_in(waiting)
        & (pl.col("group") == call["group"])
        & (pl.col("waits_in") == call["seq"])
    )
    others = blocked - len(waiting)
    spread = f"; {others:,} more wait behind them in other groups" if others > 0 else ""
    last = common.numbers(own["enqueued"])
    reached = (
        f"its last call there is SeqNum={last[-1]}" if last else "it made none there"
    )
    return Finding(
        slug="missing-rank",
        confidence="certain" if failing.seq is not None else "likely",
        headline=f"{common.plural('rank', ranks)} never joined "
        f"{common.call_words(failing)}",
        evidence=(*_cites(waits, "waits in"), *_cites(own, "came as far as")),
        explanation=f"{len(waiting):,} of {len(call['members'] or ()):,} members wait in "  # type: ignore[arg-type]
        f"{common.call_words(failing)}{spread}. {common.plural('rank', ranks).capitalize()}"
        f" did not make that call ({reached}) and waits for nobody, so the others "
        "hang on it.",
        remedy=REMEDY,
        ranks=ranks,
        hosts=common.hosts_of(frames, ranks),
        devices=common.devices_of(frames, ranks),
        collective=failing,
        first_seen=common.first_seen(waits),
    )


def _cites(standings: pl.DataFrame, says: str) -> tuple[Cite, ...]:
    """Cite where the standing of a rank was read."""
    return tuple(
        Cite(
            str(row["source"]),
            row["line"],
            f"rank {row['rank']} {says} "
            f"{row['op'] or 'a call'} SeqNum={row['waits_in'] or row['enqueued']}",
        )
        for row in standings.drop_nulls("source").head(3).iter_rows(named=True)
    )
