"""Ranks that exited normally: their agent lists all others of its own as failed.

torchelastic's table holds every process of the node that ended with another code than
0, also those that the agent ended itself. So one that it leaves out exited normally. It
may be known by words of its own, or by its number, which lies between those listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import agent_processes, exit_records
from ncclforensics.model.tables import FAILING

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

SAW_FAIL = "torchelastic.failed"


def unlisted(frames: Frames) -> tuple[tuple[int, ...], frozenset[int]]:
    """Return the ranks that exited normally beside failed ones, and the failed ones.

    Nobody, where entries of a list may be lost. Where those that are left out are as
    many as those listed, an agent has to say that it saw these fail: it would say of
    the others that it ends them.
    """
    failed = _failed(frames)
    listed = exit_records.ranks_of(failed)
    failing = frames["events"].filter(pl.col("role").is_in(FAILING))
    noisy = exit_records.ranks_of(failing)
    known = exit_records.ranks_of(frames["ranks"]) | _between(frames)
    ranks = tuple(sorted(known - listed - noisy - agent_processes.lived(frames)))
    # an entry without a code has lost lines, and the next one may have lost them all
    lost = failed["rank"].null_count() or failed["code"].null_count()
    if lost or exit_records.is_torn(frames) or _is_cut(frames):
        return (), listed
    told = len(ranks) < len(listed) or _are_told(frames)
    whole = len(listed | {*ranks}) == len(known)
    return (ranks if told and whole and noisy else ()), listed


def only_host(frames: Frames) -> tuple[str, ...]:
    """Return the host of all that agents list as failed, if that is one."""
    hosts = _failed(frames)["host"].drop_nulls().unique()
    return tuple(hosts) if hosts.len() == 1 else ()


def _failed(frames: Frames) -> pl.DataFrame:
    """Return the ends that agents list, also those whose code is lost."""
    return frames["exits"].filter(pl.col("code").ne_missing(0))


def _are_told(frames: Frames) -> bool:
    """Whether each agent with a list says in lines of its own what it saw fail."""
    lists = frames.message(*exit_records.TABLES)["source"].unique()
    told = frames.message(SAW_FAIL)["source"].unique()
    return bool(lists.len()) and {*lists} <= {*told}


def _between(frames: Frames) -> set[int]:
    """Return the ranks whose numbers lie between those of one agent's list.

    Not of an agent that told a process to end which it does not list: that one heeded
    the signal and exited normally because of it.
    """
    listed = frames.message(*exit_records.TABLES).drop_nulls(["rank", "local_rank"])
    told = frames.message(*exit_records.TOLD_TO_END)
    if listed.is_empty():
        return set()
    pids = frames["exits"]["pid"].drop_nulls().unique()
    if "child" in told.columns and not told["child"].is_in(pids.implode()).all():
        return set()
    nodes = listed.group_by("source").agg(
        "rank", (pl.col("rank") - pl.col("local_rank")).unique().alias("first")
    )
    return {
        rank
        for ranks, first in nodes.select("rank", "first").iter_rows()
        if len(first) == 1
        for rank in range(first[0], max(ranks))
    }


def _is_cut(frames: Frames) -> bool:
    """Whether an agent's file has lost its end, and so perhaps the rest of its list."""
    agents = frames["events"].filter(pl.col("message").str.starts_with("torchelastic."))
    theirs = pl.col("source").is_in(agents["source"].unique().implode())
    return bool(frames["sources"].filter(theirs)["cut"].any())
