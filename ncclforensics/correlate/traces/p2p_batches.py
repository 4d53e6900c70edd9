"""Batched P2P: the state of a batch's closing entry applies to all its messages.

`batch_isend_irecv` records an entry per message, none of which c10d ever marks
(pytorch#137969), and one named `coalesced` after them that it does mark. They share
their numbers, of which a batch advances one: that of messages, or in older torch that
of collectives, where the closing entry is not even marked as P2P. A dump of active
calls leaves the closing entry out when the batch is over, and keeps its messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.traces.call_summary import outline, outlined
from ncclforensics.model import tables

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

HALVES = ("send", "recv")
BATCH = ("source", "rank", "pg", "pg_desc", "pg_id", "batch")
TOLD = ("state", "retired", "t_started", "t_completed")
SHARED = ("state", "retired", "is_p2p")  # the ones that templates hold
NUMBERS = ("seq", "p2p_seq")
NEEDED = ("is_p2p", "op", "record_id", *BATCH[:-1], *NUMBERS, *TOLD)


def with_ends(frames: Frames) -> Frames:
    """Return frames whose P2P messages have the state and times of their batch.

    Entries and templates are joined for the messages only. Messages whose state changes
    become calls of a new template, and the outline is rebuilt.
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
    """Return `collectives` with batch messages marked like their closing entry.

    The closing entry is marked as P2P, as they are. Row order is kept.
    """
    # both numbers only rise, so their sum is unique to a batch
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
    """Whether a call closes a batch, of messages or of collectives."""
    return (pl.col("op") == "coalesced").fill_null(False)


def _is_left_out() -> pl.Expr:
    """Whether a batch's closing entry is not in the dump because the batch is over.

    That is known if a record follows the batch. It holds for the newest batch as well
    if an entry is left out after an earlier one: so batches have one.
    """
    unclosed = pl.col("_state").is_null()
    newest = pl.col("record_id").max().over(BATCH)
    cut_off = unclosed & (pl.col("next") > pl.col("record_id") + 1)
    lost = pl.col("batch").filter(cut_off).min().over("source", "pg", "pg_id")
    return unclosed & ((newest < pl.col("last")) | (pl.col("batch") > lost))


def _next(collectives: pl.DataFrame) -> pl.DataFrame:
    """Return `source record_id next`: the record that follows each in its dump."""
    made = collectives.select("source", "record_id").drop_nulls().unique()
    return made.sort("source", "record_id").with_columns(
        pl.col("record_id").shift(-1).over("source").alias("next")
    )


def _with(frames: Frames, **changed: pl.DataFrame) -> Frames:
    return frames.adding(**changed)
