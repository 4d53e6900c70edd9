"""The worker processes of each agent: those it saw fail, and those it terminated.

torchelastic's failure table lists every process of a node that failed on its own; the
agent terminates the others. Together they are all ranks of the node, numbered
consecutively. A process that the agent terminated was alive until then.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import exit_records
from ncclforensics.model import tables
from ncclforensics.model.frames import remembered

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames


@dataclass(frozen=True, slots=True)
class Crew:
    """The worker processes of an agent in the last attempt: how many, and which ranks.

    Or those of several agents that write to one console.

    `ranks` is empty if nothing shows which ranks they are. `lived` holds those that the
    agent terminated.
    """

    source: str
    size: int
    ranks: frozenset[int] = frozenset()
    lived: frozenset[int] = frozenset()


@remembered
def crews(frames: Frames) -> tuple[Crew, ...]:
    """Return the crew of each agent that lists failed processes or ends live ones.

    An agent whose file is truncated is skipped: its number of processes is unknown. If
    one crew has no known ranks, it gets the ranks that the other crews leave over,
    provided their number equals its size. Returns () if no line names a terminated
    child, if the last attempt is not 0, or if a table lacks a pid or rank.
    """
    told = exit_records.told_to_end(frames)
    last = frames["events"]["attempt"].max()
    if told.is_empty() or (last is not None and str(last) != "0"):
        return ()
    cut = frames["sources"].filter("cut")["source"].implode()
    listed, told = (
        rows.filter(~pl.col("source").is_in(cut)) for rows in (_listed(frames), told)
    )
    # the line of a first failure tells a pid whose rank the table tells below
    rank, pid = pl.col("rank"), pl.col("pid")
    below = rank.is_not_null().any().over("source", "pid")
    listed = listed.filter(rank.is_not_null() | (pid.is_not_null() & ~below))
    if listed.select((rank.is_null() | pid.is_null()).any()).item():
        return ()
    # agents that share a console have the ranks from the first one of the first
    first = (rank - pl.col("local_rank")).min().alias("first")
    failed = listed.group_by("source").agg("rank", "pid", first)
    signalled = told.group_by("source").agg(pl.col("child").drop_nulls())
    both = failed.join(signalled, on="source", how="full", coalesce=True)
    lists = pl.col("rank", "pid", "child").fill_null([])
    both = both.with_columns(lists).sort("source")
    found = []
    for source, of, pids, start, ended in both.iter_rows():
        size = len({*pids, *ended})
        whole = frozenset(() if start is None else range(start, start + size))
        named = frozenset(of)
        # a rank beyond the range means that others exited normally; which ones is
        # unknown
        ranks = whole if named <= whole else named
        own = {r for r, p in zip(of, pids, strict=True) if p not in ended}
        found.append((Crew(source, size, ranks, ranks - own), named))
    return tuple(_rest(_fitting(found)))


def _listed(frames: Frames) -> pl.DataFrame:
    return frames["exits"].filter(pl.col("reported_by") == "torchelastic")


def _fitting(found: list[tuple[Crew, frozenset[int]]]) -> list[Crew]:
    """Return crews; only with the ranks that they name if their sizes contradict them.

    Agents with equally many processes start at a multiple of that number. Where one
    does not, process numbers of the table and of the signals are not of one attempt.
    """
    crews_ = [crew for crew, _ in found]
    sizes = {crew.size for crew in crews_ if crew.ranks}
    fits = not any(min(crew.ranks) % crew.size for crew in crews_ if crew.ranks)
    if len(sizes) != 1 or fits:
        return crews_
    return [
        Crew(crew.source, len(named), named, crew.lived & named)
        for crew, named in found
    ]


def left_out(frames: Frames) -> pl.DataFrame:
    """Return `rank host pid source line` of the ranks that tables of agents leave out.

    Only of an agent that ended one process which its table does not list, where one of
    its ranks is missing there.
    """
    known_crews = crews(frames)
    if not known_crews:
        return tables.empty("ranks")
    listed, told = _listed(frames), exit_records.told_to_end(frames)
    hosts = pl.col("host").drop_nulls().unique()
    tables_ = {
        source: rest
        for source, *rest in listed.group_by("source").agg("rank", hosts).iter_rows()
    }
    pids = listed.drop_nulls("pid").select("source", child="pid")
    ended = told.drop_nulls("child").join(
        pids, on=["source", "child"], how="anti", maintain_order="left"
    )
    alone = ended.filter(pl.col("child").n_unique().over("source") == 1)
    lines = alone.unique("source", keep="first").rows_by_key("source", named=True)
    found = []
    for crew in known_crews:
        named, on = tables_.get(crew.source, [[], []])
        rank = crew.ranks.difference(named)
        if len(rank) == len(on) == 1 and crew.source in lines:
            (line,) = lines[crew.source]
            who = {"rank": min(rank), "host": on[0], "pid": line["child"]}
            found.append(who | {"source": crew.source, "line": line["line"]})
    return tables.rows("ranks", found)


def _rest(found: list[Crew]) -> list[Crew]:
    """Give the only crew without ranks those that no other crew has."""
    bare = [crew for crew in found if not crew.ranks]
    total = sum(crew.size for crew in found)
    left = frozenset(range(total)).difference(*(crew.ranks for crew in found))
    if len(bare) != 1 or len(found) == 1 or len(left) != bare[0].size:
        return found
    whole = Crew(bare[0].source, bare[0].size, left, left)
    return [whole if crew is bare[0] else crew for crew in found]


def ranks(frames: Frames) -> frozenset[int]:
    """Return the ranks that agents are known to have run."""
    return frozenset().union(*(crew.ranks for crew in crews(frames)))


def unmoved(frames: Frames) -> frozenset[int]:
    """Return the ranks that only SIGKILL ended, where SIGTERM ended others.

    An agent sends it half a minute later. The default action of SIGTERM ends a process
    in whatever call it waits; one that is stopped, or blocked in the kernel, stays.
    """
    told = exit_records.told_to_end(frames)["child"]
    if told.is_empty():
        return frozenset()
    ends = frames["exits"].filter(pl.col("pid").is_in(told.implode()))
    killed = exit_records.ranks_of(ends.filter(pl.col("code") == -signal.SIGKILL))
    ended = exit_records.ranks_of(ends.filter(pl.col("code") == -signal.SIGTERM))
    return killed if ended and len(killed) == 1 else frozenset()


def lived(frames: Frames) -> frozenset[int]:
    """Return the ranks that were alive until an agent or srun terminated them."""
    torn = exit_records.torn_down(frames)
    by_srun = torn.filter(pl.col("code").is_in(exit_records.SENT_BY_SRUN))
    by_agents = (crew.lived for crew in crews(frames))
    return exit_records.ranks_of(by_srun).union(*by_agents)
