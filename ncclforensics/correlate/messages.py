"""Messages between two ranks: how many of each were made, and which were delivered.

The number of a P2P call is its rank's own, so the two sides of a message take its
place; a batch is over as a whole only, though single messages of it may be delivered.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.correlate.held import OTHER_SIDE
from ncclforensics.correlate.standings import count


def messages(
    collectives: pl.DataFrame, names: pl.DataFrame, members: pl.DataFrame
) -> pl.DataFrame:
    """Return how many halves of messages each rank posted.

    `rank group src dst op total finished posted` with global ranks; `posted` counts
    those that are not over.
    """
    ends = ("rank", "pg", "pg_desc", "pg_id", "src", "dst", "op")
    over = (pl.col("state") == "completed").fill_null(False)
    return (
        collectives.filter(pl.col("is_p2p").fill_null(False))
        .group_by(ends)
        .agg(
            count(collectives).cast(pl.Int64).alias("total"),
            count(collectives, over).cast(pl.Int64).alias("finished"),
        )
        .join(names, on=["rank", "pg", "pg_desc", "pg_id"], nulls_equal=True)
        .join(members, on="group", how="left")
        .with_columns(
            pl.col("members").list.get(pl.col("src"), null_on_oob=True).alias("src"),
            pl.col("members").list.get(pl.col("dst"), null_on_oob=True).alias("dst"),
            (pl.col("total") - pl.col("finished")).alias("posted"),
        )
        .select("rank", "group", "src", "dst", "op", "total", "finished", "posted")
    )


def undelivered(
    held: pl.DataFrame, told: pl.DataFrame, evidence: pl.DataFrame
) -> pl.DataFrame:
    """Leave out the messages of a batch that the other side has finished.

    They were delivered; the batch as a whole waits for its other messages.
    """
    whole = evidence.filter("whole")["rank"].implode()
    ends = ["rank", "group", "src", "dst", "op"]
    sent = pl.col("op") == "send"
    finished = told.select(*ends, "finished")
    batch = ["rank", "choice"]
    many = held.filter((pl.len().over(batch) > 1) & pl.col("op").is_in([*OTHER_SIDE]))
    over = (
        many.select(*batch, *ends[1:])
        .with_columns(
            pl.when(sent).then("dst").otherwise("src").alias("peer"),
            pl.when(sent).then(pl.lit("recv")).otherwise(pl.lit("send")).alias("half"),
        )
        .filter(pl.col("rank").is_in(whole) & pl.col("peer").is_in(whole))
        .join(finished, on=ends, how="inner")
        .join(
            finished.rename({"rank": "peer", "op": "half", "finished": "theirs"}),
            on=["peer", "group", "src", "dst", "half"],
            how="inner",
        )
        .filter(pl.col("theirs") > pl.col("finished"))
        .select(*batch, *ends[1:])
        .unique()
    )
    if over.is_empty():
        return held
    left = held.join(over, on=[*batch, *ends[1:]], how="anti", nulls_equal=True)
    # of a batch that was delivered as a whole, its rank's GPU has not seen the end
    gone = held.join(left.select(batch).unique(), on=batch, how="anti")
    return pl.concat([left, gone]).sort("rank", "choice", maintain_order=True)
