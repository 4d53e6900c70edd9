"""Ranks that waited, or may have waited, in calls that no dump records.

Gloo's Flight Recorder records no messages and no monitored barrier, and marks a call
that failed as done. So a rank of a Gloo job that seems to wait nowhere may have waited
there, unless its own output shows otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.correlate.exits import uncollected
from ncclforensics.correlate.traces import (
    call_sites,
    call_summary,
    code_places,
    process_stacks,
)
from ncclforensics.evidence import common
from ncclforensics.model.tables import FAILING

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

TIMEOUTS = ("c10d.gloo.timeout", "c10d.watchdog.timeout")
MESSAGE = "python.frame.message"


def timed_out(frames: Frames) -> list[int]:
    """Return the ranks whose lines report a timeout of a call of their own.

    And those whose stacks show that they wait in a message.
    """
    looks = call_sites.looked(frames)
    messages = looks.filter(pl.col("op").str.contains(code_places.MESSAGES))["rank"]
    return list(
        common.numbers(pl.concat([frames.message(*TIMEOUTS)["rank"], messages]))
    )


def unmet(frames: Frames, waiters: list[int]) -> pl.DataFrame:
    """Return `rank half peer` of waiters whose peer waits in a message as well.

    Of a send and its receive neither would wait, so the peer is in another message: by
    its own timeout in the other half, and not in one with this rank.
    """
    looks = process_stacks.looks(frames).drop_nulls(["rank", "peer"])
    named = looks.select("rank", "peer", half=pl.col("op")).unique()
    named = named.filter(pl.col("half").is_in(["send", "recv"]))
    lines = frames.message(*TIMEOUTS)
    if "call" not in lines.columns:
        return named.clear()
    own = lines.select(pl.col("rank").alias("peer"), "call").drop_nulls().unique("peer")
    both = named.join(own, on="peer").filter(
        pl.col("rank").is_in(waiters)
        & pl.col("peer").is_in(waiters)
        & (pl.col("call") != pl.col("half"))
    )
    return both.join(
        named.select(peer="rank", rank="peer"), on=["rank", "peer"], how="anti"
    )


def waited(frames: Frames) -> list[int]:
    """Return the ranks that timed out, or may have in calls Gloo does not record."""
    known = timed_out(frames)
    if not is_gloo(frames):
        return known
    return [
        *known,
        *uncollected.unheard(frames),
        *common.numbers(frames.message(MESSAGE)["rank"]),
        *_wordless(frames),
    ]


def is_gloo(frames: Frames, call: dict[str, Any] | None = None) -> bool:
    """Whether a job, or the group of a call, uses Gloo.

    A job with groups of both backends counts as waiting in those of NCCL.
    """
    made = call_summary.outline(frames)
    if call is not None:
        here = (pl.col(c).eq_missing(pl.lit(call[c])) for c in ("pg", "pg_desc"))
        made = made.filter(*here)
    backends = {*made["backend"].drop_nulls().unique()}
    lines = any(message.startswith("c10d.gloo.") for message in frames.messages)
    return "nccl" not in backends and (lines or "gloo" in backends)


def _wordless(frames: Frames) -> list[int]:
    """Return the ranks that failed by themselves, and whose error text is lost."""
    raised = frames.message("python.traceback")
    if "exception" not in raised.columns:
        raised = raised.with_columns(pl.lit(None, pl.String).alias("exception"))
    silent = raised.filter(pl.col("exception").is_null())["rank"]
    lines = frames["events"].filter(
        pl.col("role").is_in(FAILING) & (pl.col("message") != "python.traceback")
    )
    spoke = pl.concat(
        [lines["rank"], raised.filter(pl.col("exception").is_not_null())["rank"]]
    ).drop_nulls()
    exits = frames["exits"].filter(
        (pl.col("code") > 0) & ~pl.col("rank").is_in(spoke.implode())
    )
    return [*common.numbers(silent), *common.numbers(exits["rank"])]


def together(frames: Frames) -> list[int]:
    """Return the absent ranks of Gloo without lines whose last call is the same.

    Of two such ranks, either may have waited for the other there.
    """
    if not is_gloo(frames):
        return []
    heard = frames["events"]["rank"].drop_nulls().unique()
    absent = frames["roots"].filter(
        (pl.col("why") == "absent") & ~pl.col("rank").is_in(heard.implode())
    )
    last = (
        call_summary.outline(frames)
        .filter(pl.col("rank").is_in(absent["rank"].implode()))
        .sort("rank", "record_id")
        .unique("rank", keep="last", maintain_order=True)
    )
    alike = last.filter(pl.len().over("pg", "pg_desc", "seq") > 1)
    return list(common.numbers(alike["rank"]))
