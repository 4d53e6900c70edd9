"""For whom the others wait, and which lines of hosts are about those ranks.

A fault of a host or of its storage matters to a job through the rank that it holds up.
What happened on another host did not stop this job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs import job
from ncclforensics.evidence import common, reported_missing
from ncclforensics.model.frames import remembered
from ncclforensics.theory import standstill
from ncclforensics.theory.weigh import weighed

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

SLUGS = ("missing-rank", "straggler", "gil-deadlock", "crashed-rank", "node-lost")


@remembered
def ranks(frames: Frames) -> tuple[int, ...]:
    """Return the ranks that others wait for, by their calls or as log lines name them.

    Of several ends, those that one verdict names.
    """
    told = weighed(frames).together(*SLUGS)
    found = {rank for end in told for rank in end.story.ranks}
    if not found:
        named = reported_missing.named(frames)
        found = {rank for finding in named for rank in finding.ranks}
    return tuple(sorted(found))


def nobody(frames: Frames) -> bool:
    """Whether ranks left evidence and no sign of failure: the job took no harm."""
    harmed = job.signs_of_failure(frames) or hangs(frames)
    return bool(frames["ranks"].height) and not harmed


def hangs(frames: Frames) -> bool:
    """Whether somebody waits in a job that is proved to stand still.

    A job that was looked at while it hangs has printed no line of a failure yet.
    """
    stands = standstill.standing(frames).answer == "yes"
    return bool(frames["calls"].height) and stands


def about(frames: Frames, lines: pl.DataFrame, whom: tuple[int, ...]) -> pl.DataFrame:
    """Return the lines (with `rank host`) about the ranks `whom`, or about their hosts.

    All lines, if `whom` is empty. If the evidence knows only one host, lines without a
    rank are about all ranks.
    """
    if not whom or lines.is_empty():
        return lines
    mine = lines.filter(pl.col("rank").is_in(list(whom)))
    if mine.height:
        return mine
    # a pid of another namespace than the ranks' own shows no rank
    nameless = lines.filter(pl.col("rank").is_null())
    known = pl.concat([frames["ranks"]["host"], nameless["host"]])
    if known.drop_nulls().n_unique() <= 1:
        return nameless
    short = pl.col("host").str.extract(r"^([^.]+)")
    hosts = [host.partition(".")[0] for host in common.hosts_of(frames, whom)]
    return nameless.filter(short.is_in(hosts))
