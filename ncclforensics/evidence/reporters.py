"""Who reports a failure: the hosts and ranks whose own lines tell of it.

A line's prefix tells its host (`host:pid:tid`, Ray's `ip=`, a pod), also where the line
names no peer. Who reports is often a victim, so nobody is accused by it.
"""

from __future__ import annotations

from textwrap import shorten
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.identity.host_names import NOWHERE
from ncclforensics.correlate.runs import job, unknown_failures
from ncclforensics.evidence import common
from ncclforensics.model.folding import count
from ncclforensics.model.tables import FAILING

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

QUOTED = 120  # characters of a line
UNSURE = pl.duration(seconds=2)  # clocks of two hosts, and stamps in whole seconds


def hosts(frames: Frames) -> tuple[str, ...]:
    """Return the hosts whose lines report a failure first, sorted.

    All that report one, where not every such line has a time.
    """
    return common.strings(_first(_lines(frames))["host"])


def words(frames: Frames) -> str:
    """Say who reports the failure, and who first; "" if no line tells its host."""
    told = _lines(frames)
    first = _first(told)
    named = common.strings(first["host"])
    if not named:
        return ""
    ranks = common.numbers(first["rank"])
    whole = bool(ranks) and first["rank"].null_count() == 0
    who = common.named(named)
    who = f"{common.ranks(ranks)} on {who}" if whole else who
    one = len(ranks if whole else named) == 1
    later = told["host"].n_unique() - len(named)
    after = f" first, {count(later, 'host')} after it" if later else " a failure"
    report, victim = ("reports", "victim") if one else ("report", "victims")
    return f"{who} {report}{after}, and may be its {victim}"


def quoted(frames: Frames) -> str:
    """Quote the first line that tells of a failure, with whose it is; "" if none does.

    By the clock where all have a time, else as files and lines follow.
    """
    told = frames["events"].filter(pl.col("role").is_in(FAILING))
    if told.is_empty():
        return ""
    by_clock = [] if told["t"].null_count() else ["t"]
    first = told.sort(*by_clock, "source", "line", maintain_order=True).head(1)
    who = common.speakers(frames, first.select("rank", "source", "line"))
    whose = f", of {who}" if who != common.NOBODY else ""
    where = common.on(common.hosts(first["host"]))
    source, line, text = first.select("source", "line", "text").row(0)
    said = shorten(text or "", QUOTED, placeholder="\u2026")
    return f"first sign of a failure{whose}{where}: '{said}' ({source}:{line})"


def _lines(frames: Frames) -> pl.DataFrame:
    """Return the failing lines of `events` that tell their host, known ones first.

    NCCL's warnings of any other kind come last.
    """
    if not frames["events"]["host"].count():
        return frames["events"].clear()
    message = pl.col("message")
    failing = pl.col("role").is_in(FAILING) & ~message.str.contains(job.MACHINE)
    warned = (message == "nccl.warn") & (pl.col("level") == "WARN")
    events = frames["events"].filter(~pl.col("host").str.contains(NOWHERE))
    unknown = unknown_failures.lines(frames).select("source", "line")
    for told in (
        events.filter(failing),
        events.join(unknown, on=["source", "line"], how="semi"),
    ):
        if told.height:
            return told
    return events.filter(warned)


def _first(told: pl.DataFrame) -> pl.DataFrame:
    """Return the earliest lines of some; all, where not every line has a time."""
    if told["t"].null_count():
        return told
    return told.filter(pl.col("t") <= pl.col("t").min() + UNSURE)
