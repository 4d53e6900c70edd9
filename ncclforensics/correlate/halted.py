"""Ranks that wait on their GPU as all others do, and whose host stands still as well.

Where a call does not end, hosts go on to the place of the program at which they wait
for it. A host that stopped short of the calls that its peers made meanwhile is held by
something else: such a rank is absent from them, though its GPU waits for another one.
Some ranks wait at places where others do not, to log or to save: so it has to have gone
on from there as quickly as its peers whenever it was there before.
"""

from __future__ import annotations

import polars as pl

from ncclforensics import tables
from ncclforensics.correlate.standings import signature
from ncclforensics.tables import done

FEW = 2  # hosts that stand still beside the roots
PEERS = 4  # with which one is compared
SLOWER = 5  # times as long as its peers take from one call to the next
CALL = ("group", "seq")


def halted(
    stuck: pl.DataFrame,
    roots: pl.DataFrame,
    outline: pl.DataFrame,
    collectives: pl.LazyFrame,
    members: pl.DataFrame,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the calls that hosts stopped short of, and such ranks as `roots`.

    `outline` is that of all `collectives`, with `group`; calls are numbered on from
    `stuck`.
    """
    none = tables.empty("calls"), tables.empty("roots")
    gone = roots.filter(pl.col("why") == "absent")
    through = stuck.filter(
        pl.col("absent").list.set_intersection(gone["rank"].to_list()).list.len() > 0
    )
    waiting = through["waiting"].explode().drop_nulls().unique()
    if gone.is_empty() or waiting.is_empty():
        return none
    open_ = outline.filter(
        pl.col("rank").is_in(waiting.implode())
        & ~done()
        & ~pl.col("is_p2p").fill_null(False)
    ).sort("rank", "record_id")
    made = open_.with_columns(
        pl.col(c).shift(-1).over("rank").alias(f"next_{c}") for c in CALL
    )
    newest = outline.group_by("rank").agg(pl.col("record_id").max().alias("newest"))
    went_on = pl.col("next_seq").is_not_null()
    last = (
        made.filter(~went_on)
        .join(newest, on="rank")
        .filter(pl.col("record_id") == pl.col("newest"))
        .select("rank", *CALL)
    )
    peers = (
        made.filter(went_on)
        .group_by(CALL)
        .agg(pl.col("rank").alias("peers"), pl.col("next_group", "next_seq").first())
    )
    short = last.join(peers, on=list(CALL)).filter(
        pl.len().over(CALL) < pl.col("peers").list.len()
    )
    if not 0 < short.height <= FEW:
        return none
    ranks = [r for r in short["rank"] if _is_held(short, r, collectives)]
    return _told(short.filter(pl.col("rank").is_in(ranks)), stuck, open_, members)


def _is_held(short: pl.DataFrame, rank: int, collectives: pl.LazyFrame) -> bool:
    """Whether a rank used to go on from its last call as quickly as its peers."""
    peers = short.filter(pl.col("rank") == rank)["peers"].explode().head(PEERS)
    gap = (pl.col("t").shift(-1) - pl.col("t")).over("rank").dt.total_nanoseconds()
    what = pl.struct("pg_desc", signature())
    is_own = pl.col("rank") == rank
    made = (
        collectives.filter(is_own | pl.col("rank").is_in(peers.implode()))
        .sort("rank", "record_id")
        .select(
            "rank",
            what.alias("what"),
            what.shift(-1).over("rank").alias("next"),
            gap.alias("gap"),
        )
        .collect()
    )
    here = made.filter(is_own)["what"].tail(1)
    same = made.filter(pl.col("what").is_in(here.implode()))
    then = same.filter(pl.col("rank") == peers[0])["next"].tail(1)
    both = same.filter(pl.col("next").is_in(then.implode()))
    slower = both.select(
        pl.col("gap").filter(is_own).max()
        > SLOWER * pl.col("gap").filter(~is_own).max()
    )
    return slower.item() is False


def _told(
    short: pl.DataFrame, stuck: pl.DataFrame, open_: pl.DataFrame, members: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    ahead = short.select("rank", *(pl.col(f"next_{c}").alias(c) for c in CALL))
    absent = ahead.group_by(CALL, maintain_order=True).agg(
        pl.col("rank").alias("absent")
    )
    about = ("pg", "pg_desc", "op", "stack", "source", "line")
    first = open_.group_by(CALL, maintain_order=True).agg(
        pl.col(about).first(), pl.col("t").min(), pl.col("rank").sort().alias("behind")
    )
    none = pl.lit([], pl.List(pl.Int64()))
    calls = (
        absent.join(first, on=list(CALL), maintain_order="left")
        .join(members, on="group", how="left", maintain_order="left")
        .with_columns(
            (pl.int_range(pl.len()) + stuck["call"].max() + 1).alias("call"),
            pl.lit(False).alias("is_p2p"),
            *(none.alias(c) for c in ("waiting", "done", "unseen", "unstarted")),
        )
    )
    found = calls.explode("absent").select(
        pl.col("absent").alias("rank"),
        pl.lit("absent").alias("why"),
        "call",
        pl.col("behind").list.len().cast(pl.Int64).alias("blocked"),
    )
    return tables.conform("calls", calls), tables.conform("roots", found)
