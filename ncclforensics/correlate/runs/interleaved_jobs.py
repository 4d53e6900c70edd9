"""Two jobs interleaved in one log: both print under the same rank numbers.

If two jobs write to one file, or their files were merged line by line, both have a rank
0. It shows if a rank is on two hosts, if one agent saw it exit in two ways, if it makes
one call in two ways, if communicators of all ranks on the same GPUs share no process
and their lines alternate, or if a rank's clock jumps back and forth. Two jobs one after
the other in a file are no such case: their lines are not interleaved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.traces import communicators
from ncclforensics.model.frames import needing

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

PROCESS = ["host", "pid"]
FEWEST = 3  # times of a clock that can go back twice
APART = pl.duration(minutes=10)  # longer than lines stay in any buffer


def told(frames: Frames) -> str:
    """Return what shows that two jobs are interleaved; empty if nothing does.

    `frames` are correlated: the rank that printed a line is filled in.
    """
    return (
        _on_two_hosts(frames)
        or _ended_twice(frames)
        or _called_twice(frames)
        or _in_turns(frames)
        or _to_and_fro(frames)
    )


@needing("events", "exits", otherwise="")
def _on_two_hosts(frames: Frames) -> str:
    """Find a rank on two hosts, by the host names that NCCL or agents print.

    A host name from another program may be an alias.
    """
    events = frames["events"]
    exits = frames["exits"].filter(pl.col("reported_by") == "torchelastic")
    nccl = events.filter(pl.col("message").str.starts_with("nccl."))
    printed = (nccl.drop_nulls(PROCESS)["host"], exits["host"].drop_nulls())
    told = [names.unique() for names in printed if names.n_unique() > 1]
    if not told:
        return ""
    parts = [
        part.select("rank", "host", "attempt")
        for part in (events, exits, frames["sources"])
    ]
    claims = pl.concat(parts).drop_nulls(["rank", "host"])
    if claims.is_empty():
        return ""
    attempt = pl.col("attempt")
    current = attempt.is_null() | (attempt == attempt.max().over("rank"))
    for names in told:
        known = claims.filter(current & pl.col("host").is_in(names.implode()))
        of = known.group_by("rank").agg(pl.col("host").unique().sort())
        twice = of.filter(pl.col("host").list.len() > 1).sort("rank")
        for rank, hosts in twice.head(1).iter_rows():
            return f"rank {rank} is on {' and on '.join(hosts[:2])}"
    return ""


@needing("exits", otherwise="")
def _ended_twice(frames: Frames) -> str:
    """Find a rank with two exit codes in one agent's log, or a pid with two ranks.

    Only within one attempt: a restarted rank exits again.
    """
    exits = frames["exits"].filter(pl.col("reported_by") == "torchelastic")
    if exits.is_empty():
        return ""
    known = exits.drop_nulls(["rank", "code", "source"])
    told = known.group_by("source", "attempt", "rank").agg(
        pl.col("code").unique().sort()
    )
    ends = told.filter(pl.col("code").list.len() > 1).sort("source", "rank")
    for rank, codes in ends.select("rank", "code").head(1).iter_rows():
        return f"rank {rank} ended with exit codes {' and '.join(map(str, codes))}"
    process = ["source", "attempt", "host", "pid"]
    of = (
        known.drop_nulls(["host", "pid"])
        .group_by(process)
        .agg(pl.col("rank").unique().sort())
    )
    shared = of.filter(pl.col("rank").list.len() > 1).sort("source", "pid")
    for pid, ranks in shared.select("pid", "rank").head(1).iter_rows():
        return f"process {pid} is rank {' and rank '.join(map(str, ranks))}"
    return ""


def _called_twice(frames: Frames) -> str:
    """Find a rank with differing fingerprints of one call, its own or its peers'."""
    lines = frames.message("c10d.fingerprint")
    if not {"is_peer", "dtype"} <= set(lines.columns):
        return ""
    call = ["attempt", "pg", "seq", "group_rank"]
    told = lines.filter(pl.col("op_reliable").fill_null(True))
    told = told.drop_nulls(["seq", "group_rank", "op", "shape", "dtype"])
    made = told.group_by(call).agg(pl.struct("op", "shape", "dtype").n_unique())
    for rank, seq in (
        made.filter(pl.col("op") > 1)
        .sort("group_rank", "seq")
        .select("group_rank", "seq")
        .head(1)
        .iter_rows()
    ):
        return f"rank {rank} made call {seq} twice, in different ways"
    return ""


def _in_turns(frames: Frames) -> str:
    """Find communicators of all ranks whose processes' lines are interleaved."""
    strange = communicators.strangers(frames)
    if strange.is_empty():
        return ""
    known = communicators.inits(frames).drop_nulls(["key", "pid"])
    of = known.join(strange.select("key"), on="key").select("key", *PROCESS).unique()
    spans = (
        frames["events"]
        .join(of, on=PROCESS)
        .group_by("source", "key")
        .agg(pl.col("line").min().alias("first"), pl.col("line").max().alias("last"))
    )
    crossed = spans.join(spans, on="source", suffix="_other").filter(
        (pl.col("key") < pl.col("key_other"))
        & (pl.col("first") < pl.col("last_other"))
        & (pl.col("first_other") < pl.col("last"))
    )
    if crossed.is_empty():
        return ""
    return f"{strange.height} communicators of all ranks alternate in one file"


@needing("events", otherwise="")
def _to_and_fro(frames: Frames) -> str:
    """Find a rank whose clock goes back twice in one file.

    It goes back once if a file was appended to itself. Each clock is checked
    separately: torch's and NCCL's belong to their process; a launcher's may be in
    another time zone.
    """
    events = frames["events"]
    if max(events[clock].count() for clock in ("yearless", "t")) < FEWEST:
        return ""
    events = events.drop_nulls(["source", "rank"]).sort("line")
    key = ["source", "rank"]
    of_nccl = events.filter(pl.col("message").str.starts_with("nccl."))
    for lines, clock in ((events, "yearless"), (of_nccl, "t")):
        if lines[clock].count() < FEWEST:
            continue
        back = pl.col(clock).diff().over(key) < -APART
        often = lines.drop_nulls(clock).filter(back).group_by(key).len()
        for rank in often.filter(pl.col("len") > 1).sort(key)["rank"].head(1):
            return f"the clock of rank {rank} jumps back and forth"
    return ""
