"""Batched P2P: the state of a batch's closing entry holds for all its messages.

`batch_isend_irecv` records an entry per message, none of which c10d ever marks
(pytorch#137969), and one named `coalesced` behind them that it does mark. They share
their numbers, of which a batch counts up one: that of messages, or in older torch that
of collectives, where the closing entry does not even say that it is point to point. A
dump of active calls leaves it out when the batch is over, and keeps its messages.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.correlate.traces.call_summary import outline, outlined
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames

HALVES = ("send", "recv")
BATCH = ("source", "rank", "pg", "pg_desc", "pg_id", "batch")
TOLD = ("state", "retired", "t_started", "t_completed")
SHARED = ("state", "retired", "is_p2p")  # of these, what templates hold
NUMBERS = ("seq", "p2p_seq")
NEEDED = ("is_p2p", "op", "record_id", *BATCH[:-1], *NUMBERS, *TOLD)


def with_ends(frames: Frames) -> Frames:
    """Give the messages of all frames their ends.

    What dumps hold in two parts is put together for the messages only; those that got
    another state are calls of another template then, and the outline is made anew.
    """
    eager = frames.tables.get("collectives")
    if eager is not None:
        frames = _with(frames, collectives=ended(eager))
    templates = frames["templates"]
    if not templates["op"].is_in(HALVES).any():
        return frames
    entries = frames["entries"].with_row_index("entry")
    talk = entries.join(
        templates.filter(_may_be_talk()), on="template", maintain_order="left"
    ).select("entry", "template", *NEEDED)
    others = outline(frames).filter(~_may_be_talk()).select(NEEDED)
    given = pl.concat([talk, others], how="diagonal")
    made = ended(given)
    if made is given:
        return frames
    told = made.drop_nulls("entry").with_columns(
        pl.struct("template", *SHARED).hash(seed=0).alias("new")
    )
    new = templates.drop(SHARED).join(
        told.select("template", "new", *SHARED).unique(), on="template"
    )
    times = ("t_started", "t_completed")
    changed = (
        entries.join(
            told.select("entry", "new", *(pl.col(c).alias(f"_{c}") for c in times)),
            on="entry",
            how="left",
            maintain_order="left",
        )
        .with_columns(
            pl.coalesce("new", "template").alias("template"),
            *(pl.coalesce(f"_{c}", c).alias(c) for c in times),
        )
        .select(*tables.SCHEMAS["entries"])
    )
    both = pl.concat(
        [templates, new.drop("template").rename({"new": "template"})], how="diagonal"
    )
    return outlined(_with(frames, entries=changed, templates=both))


def ended(collectives: pl.DataFrame) -> pl.DataFrame:
    """Give the messages of batches the state and times of the entry that closes them.

    That entry is point to point as they are. Takes and returns the frame `collectives`,
    in its order.
    """
    # both numbers only rise, so their sum is another one for each batch
    talk = (
        collectives.with_row_index("row")
        .filter(_may_be_talk() & pl.col("p2p_seq").is_not_null())
        .with_columns((pl.col("seq").fill_null(0) + pl.col("p2p_seq")).alias("batch"))
    )
    halves = talk.filter(pl.col("op").is_in(HALVES))
    closing = talk.filter(_closes()).join(
        halves, on=list(BATCH), how="semi", nulls_equal=True
    )
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
    over = pl.lit(None, pl.String)
    if not (collectives["state"] == "completed").any():
        told = told.join(_next(collectives), on=["source", "record_id"], how="left")
        over = pl.when(_is_left_out()).then(pl.lit("completed"))
    said = told.select(
        "row",
        pl.coalesce("_state", over).alias("_state"),
        *(f"_{c}" for c in TOLD[1:]),
    )
    closes = pl.col("row").is_in(closing["row"].implode())
    return (
        collectives.with_row_index("row")
        .join(said, on="row", how="left", maintain_order="left")
        .with_columns(
            *(pl.coalesce(f"_{c}", c).alias(c) for c in TOLD),
            pl.when(closes).then(pl.lit(True)).otherwise("is_p2p").alias("is_p2p"),
        )
        .select(collectives.columns)
    )


def _may_be_talk() -> pl.Expr:
    return pl.col("is_p2p").fill_null(False) | _closes()


def _closes() -> pl.Expr:
    """Whether a call closes a batch: of messages, or of collectives."""
    return (pl.col("op") == "coalesced").fill_null(False)


def _is_left_out() -> pl.Expr:
    """Whether the entry that closes a batch is not in the dump, as the batch is over.

    That is known where something follows the batch. The newest one is such a batch as
    well if behind an earlier one an entry is left out: so batches have one.
    """
    unclosed = pl.col("_state").is_null()
    newest = pl.col("record_id").max().over(BATCH)
    cut_off = unclosed & (pl.col("next") > pl.col("record_id") + 1)
    lost = pl.col("batch").filter(cut_off).min().over("source", "pg", "pg_id")
    return unclosed & ((newest < pl.col("last")) | (pl.col("batch") > lost))


def _next(collectives: pl.DataFrame) -> pl.DataFrame:
    """Return the record that follows each one in its dump: `source record_id next`."""
    made = collectives.select("source", "record_id").drop_nulls().unique()
    return made.sort("source", "record_id").with_columns(
        pl.col("record_id").shift(-1).over("source").alias("next")
    )


def _with(frames: Frames, **changed: pl.DataFrame) -> Frames:
    return Frames({**frames.tables, **changed}, frames.messages)
