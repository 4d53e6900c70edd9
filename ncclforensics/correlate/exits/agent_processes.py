"""The processes of each agent: those it saw fail, and those it terminated.

torchelastic's table holds every process of a node that failed by itself, and its agent
tells the others to end. So both together are the ranks of the node, which are numbered
in turn; and who was told to end was alive until then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import exit_records
from ncclforensics.model.frames import remembered

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames


@dataclass(frozen=True, slots=True)
class Crew:
    """The processes of one agent, in the last attempt: their number, and their ranks.

    `ranks` are empty where nothing tells which these are; `lived` are those of them
    that the agent had to end.
    """

    source: str
    size: int
    ranks: frozenset[int] = frozenset()
    lived: frozenset[int] = frozenset()


@remembered
def crews(frames: Frames) -> tuple[Crew, ...]:
    """Return the crews of the agents that list failed processes, or end living ones.

    Of an agent whose file has lost its end nobody knows how many it had. Ranks that
    nothing places are those of the one crew of which nothing is placed, if they are as
    many.
    """
    last = frames["events"]["attempt"].max()
    listed = frames["exits"].filter(pl.col("reported_by") == "torchelastic")
    told = frames.message(*exit_records.TOLD_TO_END)
    if "child" not in told.columns or (last is not None and str(last) != "0"):
        return ()
    cut = {*frames["sources"].filter("cut")["source"]}
    found = []
    for source in sorted({*listed["source"], *told["source"]} - cut):
        mine = listed.filter(pl.col("source") == source)
        pids = {*mine["pid"].drop_nulls()}
        ended = {*told.filter(pl.col("source") == source)["child"].drop_nulls()}
        placed = mine.drop_nulls(["rank", "local_rank"])
        first = (placed["rank"] - placed["local_rank"]).unique()
        if first.len() > 1 or mine[["pid", "rank"]].null_count().sum_horizontal()[0]:
            return ()
        size = len(pids | ended)
        whole = frozenset(range(first[0], first[0] + size) if first.len() else ())
        named = frozenset(mine["rank"])
        # a number beyond means that others exited normally, and which ones is not told
        ranks = whole if named <= whole else named
        failed = frozenset(mine.filter(~pl.col("pid").is_in(list(ended)))["rank"])
        found.append(Crew(source, size, ranks, ranks - failed))
    return tuple(_rest(found))


def _rest(found: list[Crew]) -> list[Crew]:
    """Give the one crew without ranks those that no other crew has."""
    bare = [crew for crew in found if not crew.ranks]
    total = sum(crew.size for crew in found)
    left = frozenset(range(total)).difference(*(crew.ranks for crew in found))
    if len(bare) != 1 or len(found) == 1 or len(left) != bare[0].size:
        return found
    whole = Crew(bare[0].source, bare[0].size, left, left)
    return [whole if crew is bare[0] else crew for crew in found]


def ranks(frames: Frames) -> frozenset[int]:
    """Return the ranks that agents are known to have had."""
    return frozenset().union(*(crew.ranks for crew in crews(frames)))


def lived(frames: Frames) -> frozenset[int]:
    """Return the ranks that were alive until their agents ended them."""
    return frozenset().union(*(crew.lived for crew in crews(frames)))
