"""Ranks that exited normally: their agent lists every other rank of its node as failed.

torchelastic's failure table holds every process of the node that exited with a code
other than 0, including those the agent terminated. So a rank that the table leaves out
exited normally. Such a rank is known from its own log lines, or from its number, which
lies between listed ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import agent_processes, exit_records
from ncclforensics.model.frames import needing
from ncclforensics.model.tables import FAILING

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

SAW_FAIL = "torchelastic.failed"


@needing("exits", *exit_records.TABLES, otherwise=((), frozenset()))
def unlisted(frames: Frames) -> tuple[tuple[int, ...], frozenset[int]]:
    """Return the sorted ranks that exited normally, and the ranks listed as failed.

    The first part is empty if table entries may be lost, if no rank logged a failure,
    or if a known rank is in neither part. If at least as many ranks are left out as are
    listed, each agent must also have logged that it saw the listed ones fail: of the
    others it would log that it terminates them.
    """
    failed = _failed(frames)
    listed = exit_records.ranks_of(failed)
    failing = frames["events"].filter(pl.col("role").is_in(FAILING))
    noisy = exit_records.ranks_of(failing)
    known = exit_records.ranks_of(frames["ranks"]) | _between(frames)
    known -= _on_other_hosts(frames, failed)
    ranks = tuple(sorted(known - listed - noisy - agent_processes.lived(frames)))
    # an entry without a code lost lines; the entry after it may be lost entirely
    lost = failed["rank"].null_count() or failed["code"].null_count()
    if lost or exit_records.is_torn(frames) or _is_cut(frames):
        return (), listed
    told = len(ranks) < len(listed) or _are_told(frames)
    whole = len(listed | {*ranks}) == len(known)
    return (ranks if told and whole and noisy else ()), listed


def _on_other_hosts(frames: Frames, failed: pl.DataFrame) -> frozenset[int]:
    """Return the ranks on hosts of which no agent lists anything; it may be gone."""
    listing = failed["host"].drop_nulls().unique()
    placed = frames["ranks"].drop_nulls("host")
    elsewhere = ~pl.col("host").is_in(listing.implode())
    return exit_records.ranks_of(placed.filter(elsewhere & pl.lit(listing.len() > 0)))


def only_host(frames: Frames) -> tuple[str, ...]:
    """Return the host of all failures that agents list, as a 1-tuple, or ().

    It is () if they list none or failures on several hosts.
    """
    hosts = _failed(frames)["host"].drop_nulls().unique()
    return tuple(hosts) if hosts.len() == 1 else ()


@needing("exits", otherwise=frozenset())
def in_peace(frames: Frames) -> frozenset[int]:
    """Return the ranks that exited with code 0, which nobody asked them to.

    A process that waits in a call does not: what its dump shows as unfinished was over
    when it exited. Ranks that report a failure are not among them.
    """
    ends = exit_records.ended(frames).filter(pl.col("code") == 0)
    if ends.is_empty():
        return frozenset()
    own = exit_records.ranks_of(ends.filter(~exit_records.is_by_agent(frames, ends)))
    failing = frames["events"].filter(pl.col("role").is_in(FAILING))
    torn = exit_records.ranks_of(exit_records.torn_down(frames))
    return own - exit_records.ranks_of(failing) - torn


def _failed(frames: Frames) -> pl.DataFrame:
    """Return the exits that agents list with a nonzero code or a lost one."""
    return frames["exits"].filter(pl.col("code").ne_missing(0))


def _are_told(frames: Frames) -> bool:
    """Whether each agent with a table also logs which processes it saw fail."""
    lists = frames.message(*exit_records.TABLES)["source"].unique()
    told = frames.message(SAW_FAIL)["source"].unique()
    return bool(lists.len()) and {*lists} <= {*told}


def _between(frames: Frames) -> set[int]:
    """Return the ranks from a node's first one up to the highest that its agent lists.

    Empty if an agent told a process to end that it does not list: that process obeyed
    the signal and exited normally because of it.
    """
    listed = frames.message(*exit_records.TABLES).drop_nulls(["rank", "local_rank"])
    told = exit_records.told_to_end(frames)["child"]
    if listed.is_empty():
        return set()
    pids = frames["exits"]["pid"].drop_nulls().unique()
    if not told.is_in(pids.implode()).all():
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
    """Whether an agent's file is truncated, so its table may lack entries."""
    agents = frames["events"].filter(pl.col("message").str.starts_with("torchelastic."))
    theirs = pl.col("source").is_in(agents["source"].unique().implode())
    return bool(frames["sources"].filter(theirs)["cut"].any())
