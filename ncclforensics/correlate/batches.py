"""Messages sent in a batch end with it: what its closing entry says is true of them.

`batch_isend_irecv` records an entry per message, none of which c10d ever marks
(pytorch#137969), and one named `coalesced` behind them that it does mark. They share
the number of the group's messages, which counts a batch once. A dump of active calls
leaves the closing entry out when the batch is over, and keeps its messages.
"""

from __future__ import annotations

import polars as pl

HALVES = ("send", "recv")
BATCH = ("source", "rank", "pg", "pg_desc", "pg_id", "p2p_seq")
TOLD = ("state", "retired", "t_started", "t_completed")


def ended(collectives: pl.DataFrame) -> pl.DataFrame:
    """Give the messages of batches the state and times of the entry that closes them.

    Takes and returns the frame `collectives`, in its order.
    """
    talk = collectives.with_row_index("row").filter(
        pl.col("is_p2p") & pl.col("p2p_seq").is_not_null()
    )
    halves = talk.filter(pl.col("op").is_in(HALVES))
    closing = talk.filter(pl.col("op").str.ends_with("coalesced"))
    shared = halves.filter(pl.len().over(BATCH) > 1)
    kinds = pl.concat([closing["pg_desc"], shared["pg_desc"]]).unique()
    if halves.is_empty() or kinds.is_empty():
        return collectives
    newest = collectives.group_by("source").agg(pl.col("record_id").max().alias("last"))
    told = (
        halves.filter(pl.col("pg_desc").is_in(kinds.implode()))
        .select("row", "record_id", *BATCH)
        .join(
            closing.select(*BATCH, *(pl.col(c).alias(f"_{c}") for c in TOLD)).unique(
                BATCH, keep="last"
            ),
            on=list(BATCH),
            how="left",
            nulls_equal=True,
        )
        .join(newest, on="source", how="left")
    )
    left_out = not (collectives["state"] == "completed").any()
    gone = pl.col("_state").is_null() & (pl.col("record_id") < pl.col("last"))
    over = pl.when(gone & pl.lit(left_out)).then(pl.lit("completed"))
    said = told.select(
        "row",
        pl.coalesce("_state", over).alias("_state"),
        *(f"_{c}" for c in TOLD[1:]),
    )
    return (
        collectives.with_row_index("row")
        .join(said, on="row", how="left", maintain_order="left")
        .with_columns(pl.coalesce(f"_{c}", c).alias(c) for c in TOLD)
        .select(collectives.columns)
    )
