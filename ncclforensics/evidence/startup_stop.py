"""The only host whose logs stop early in a start-up that no rank finished.

A host that has begun and prints nothing more, not even its topology, waits for its own
driver or fabric. All ranks meet before any prints its topology, so from then on the
network between hosts does not hold any of them; before that, with two hosts, it may.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs import job
from ncclforensics.correlate.traces import communicators
from ncclforensics.correlate.traces.communicators import PROCESS
from ncclforensics.evidence import primary_exits
from ncclforensics.model.tables import FAILING

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

# if one of two hosts stops before all have met, either may be at fault
FEW_HOSTS = 2


@dataclass(frozen=True, slots=True)
class FirstStop:
    """The host that stopped, its last lines, and later lines of the others.

    `last` and `later` have the columns of `events`; `others` counts the other hosts,
    `size` is the communicator's.
    """

    host: str
    last: pl.DataFrame
    later: pl.DataFrame
    others: int
    size: int


def first_stop(frames: Frames) -> FirstStop | None:
    """Return the host that stopped first; None if another explanation fits as well."""
    known = communicators.inits(frames)
    nccl = frames["events"].filter(pl.col("message").str.starts_with("nccl."))
    # an error that NCCL itself reports explains more, and ends the others' logs as well
    if (
        known.is_empty()
        or (known["phase"] == "COMPLETE").any()
        or nccl["role"].is_in(FAILING).any()
        or not job.signs_of_failure(frames)
        or primary_exits.of_own(frames).height
    ):
        return None
    size = int(known["nranks"].max())  # type: ignore[arg-type]
    began = known.filter(pl.col("nranks") == size)
    began = began.drop_nulls(PROCESS).unique(PROCESS, keep="first", maintain_order=True)
    return _before_topology(frames, nccl, began, size) or _at_start(
        frames, nccl, began, size
    )


def _before_topology(
    frames: Frames, nccl: pl.DataFrame, began: pl.DataFrame, size: int
) -> FirstStop | None:
    """Find the only host without topology, if all ranks of all others have one."""
    lines = nccl.drop_nulls(PROCESS)
    printed = frames.message(*job.TOPOLOGY).join(began, on=PROCESS, how="semi")
    there = printed.select(PROCESS).unique()
    left = lines.join(there, on=PROCESS, how="anti", maintain_order="left")
    with_it = there.group_by("host").len()
    mine = left.select(PROCESS).n_unique()
    # the missing ranks are those of one host if each host has as many
    each = with_it["len"].unique().to_list()
    if left["host"].n_unique() != 1 or each != [size - there.height] or mine > each[0]:
        return None
    last = left.unique(PROCESS, keep="last", maintain_order=True)
    return _told(frames, last, printed, with_it.height, size)


def _at_start(
    frames: Frames, nccl: pl.DataFrame, began: pl.DataFrame, size: int
) -> FirstStop | None:
    """Find the host that printed START and nothing more, while all others went on."""
    ends = began.select(*PROCESS, pl.col("line").alias("_start"))
    later = nccl.join(ends, on=PROCESS).filter(pl.col("line") > pl.col("_start"))
    went_on = began.join(later, on=PROCESS, how="semi")
    hosts = began.group_by("host", maintain_order=True).agg(pl.len().alias("_ranks"))
    silent = hosts.join(went_on, on="host", how="anti")
    if (
        silent.height != 1
        or hosts.height <= FEW_HOSTS
        or began.height != size
        or went_on.height + silent["_ranks"][0] != size
    ):
        return None
    last = began.join(silent, on="host", how="semi", maintain_order="left")
    return _told(frames, last, later, hosts.height - 1, size)


def _told(
    frames: Frames, last: pl.DataFrame, later: pl.DataFrame, others: int, size: int
) -> FirstStop | None:
    """Return the stop; None if a truncated log or a shared stream may hide lines."""
    cut = frames["sources"].filter("cut")["source"]
    shared = later["source"].unique()
    if last["source"].is_in(pl.concat([cut, shared]).implode()).any():
        return None
    columns = frames["events"].columns
    return FirstStop(
        str(last["host"][0]), last.select(columns), later.select(columns), others, size
    )
