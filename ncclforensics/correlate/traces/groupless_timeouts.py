"""Watchdog lines without a group: which of them are of one group, by their numbers.

torch up to 2.4 prints `SeqNum=41` and no group, and `[Rank 3]` is the rank in it. A
group's calls end in order, and one that needs all members ends for none of them before
each has started it. So ranks of one group give up the same call or consecutive ones;
calls further apart are of two groups. The root of a broadcast need not wait for it, and
may be further ahead: then it is one group if two counters are not so close by chance.
Two timeouts of one rank are of two groups as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.traces.positions import since
from ncclforensics.correlate.traces.progress import ROOTED, UNLISTED
from ncclforensics.model.frames import needing, remembered
from ncclforensics.model.tables import SCHEMAS, without_rows

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

REACH = 1  # calls that two members of a group can be apart
BY_CHANCE = 1 << 8  # one in so many pairs of counters; as many bits as `CERTAIN`
PREFIX = "lines|"  # prefix of a group that is known by numbers only
NAME = ("pg", "pg_id", "pg_desc")
SCHEMA = {**SCHEMAS["positions"], "group": pl.String()}


@remembered
@needing("positions", otherwise=SCHEMA)
def timeouts(frames: Frames) -> pl.DataFrame:
    """Return the `positions` rows that gave up a call without a group, with `group`.

    Rows that can be of one group have the same `group`; `t` is when the rank began to
    wait. The other columns are unchanged.
    """
    nameless = pl.all_horizontal(pl.col(c).is_null() for c in NAME)
    given_up = frames["positions"].filter(nameless).drop_nulls(["rank", "timed_out"])
    if given_up.is_empty():
        return without_rows(SCHEMA)
    said = (
        given_up.sort("rank", "source", "line")
        .unique(["rank", "timed_out", "op"], keep="first", maintain_order=True)
        .sort("timed_out", "rank", maintain_order=True)
    )
    said = said.with_columns(since().alias("t"))
    names: list[str] = []
    first: int | None = None
    clashes = _clashes(said)
    least = ""
    for seq, op in said.select("timed_out", "op").iter_rows():
        near = first is not None and seq - first <= _reach(first, least)
        if first is None or not near or seq in clashes or first in clashes:
            first, least = seq, op or ""
        told = f"|{op}" if clashes.get(seq) == "op" else ""
        names.append(f"{PREFIX}{first}{told}{UNLISTED}")
    return said.with_columns(pl.Series("group", names, dtype=pl.String))


def _reach(seq: int, op: str) -> int:
    """Return how many calls further a member of the group of a call may be."""
    return max(REACH, seq // BY_CHANCE) if op.lower() in ROOTED else REACH


def grouped(frames: Frames) -> pl.DataFrame:
    """Return `positions` with `group`, from `timeouts` for rows without a name.

    It is null if a row names its group, or gave up no call.
    """
    told = timeouts(frames).select("rank", "timed_out", "op", "group")
    nameless = pl.all_horizontal(pl.col(c).is_null() for c in NAME)
    joined = frames["positions"].join(
        told,
        on=["rank", "timed_out", "op"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    return joined.with_columns(pl.when(nameless).then("group").alias("group"))


def _clashes(said: pl.DataFrame) -> dict[int, str]:
    """Return the numbers that cannot share a group with their neighbour, and why.

    "seq" if one rank gave up two numbers within REACH, "op" if it gave up two
    operations of one number.
    """
    ordered = said.sort("rank", "timed_out")
    before = pl.col("timed_out").shift().over("rank")
    apart = pl.col("timed_out") - before
    near = ordered.with_columns(apart.alias("apart")).filter(pl.col("apart") <= REACH)
    found: dict[int, str] = {}
    for seq, steps in near.select("timed_out", "apart").iter_rows():
        found[seq] = "op" if steps == 0 else found.get(seq, "seq")
    return found
