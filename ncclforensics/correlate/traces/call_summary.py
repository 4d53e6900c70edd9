"""The few calls of a dump that show how far its rank came.

A ring buffer holds thousands of calls that finished long ago. Only the first, the last
and the extreme ones among them matter for a hang. So the rest is left out before dumps
are compared: a lookup in an outline gives what all calls would give.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames, remembered
from ncclforensics.model.tables import done

EXTREME = tuple(c for c in tables.OWN if c not in ("stack", "line"))


@remembered
def dumps(frames: Frames) -> pl.DataFrame:
    """Return the rows of `sources` that are Flight Recorder dumps, of any kind."""
    is_dump = pl.col("kind").str.starts_with("flight_recorder")
    return frames["sources"].filter(is_dump)


def outlined(frames: Frames) -> Frames:
    """Add `outline`, made of the `entries` and `templates` of any number of dumps."""
    if not frames.has("entries"):
        return frames
    return frames.adding(outline=_outline(frames))


def outline(frames: Frames) -> pl.DataFrame:
    """Return the outline of all calls; rows of `collectives` are kept in full."""
    others = frames.tables.get("collectives")
    made = frames["outline"]
    if made.is_empty() and others is None:
        made = outlined(frames)["outline"]
    if others is None or others.is_empty():
        return made
    return pl.concat([made, tables.conform("outline", others.with_columns(times=1))])


def emptied(frames: Frames) -> pl.Series:
    """Return the ranks whose dump has no entries, but counts open calls.

    Such a rank waits in one of them; which one is lost.
    """
    if dumps(frames).is_empty() or frames["positions"].is_empty():
        return frames["positions"]["rank"].clear()
    open_ = frames["positions"].filter(
        pl.col("source").is_in(dumps(frames)["source"].implode())
        & (pl.col("last_enqueued") > pl.col("last_completed"))
        & ~pl.col("rank").is_in(outline(frames)["rank"].drop_nulls().implode())
    )
    return open_["rank"].drop_nulls().unique().sort()


def _outline(frames: Frames) -> pl.DataFrame:
    templates = frames["templates"].with_columns(done().alias("done"))
    entries = frames["entries"].with_row_index("row")
    over = templates.filter("done").select("template")
    number = pl.col("row")
    ends = (
        entries.join(over, on="template", how="semi")
        .group_by("template")
        .agg(
            pl.concat_list(
                number.first(),
                number.last(),
                *(number.get(pl.col(c).arg_min()) for c in EXTREME),
                *(number.get(pl.col(c).arg_max()) for c in EXTREME),
            )
            .list.drop_nulls()
            .list.unique()
            .alias("row"),
            pl.len().alias("all"),
            number.last().alias("last"),
        )
    )
    kept = ends.explode("row").with_columns(
        pl.when(pl.col("row") == pl.col("last"))
        .then(pl.col("all") - pl.len().over("template") + 1)
        .otherwise(1)
        .alias("times")
    )
    open_ = entries.join(over, on="template", how="anti").select(
        "template", "row", pl.lit(1, pl.UInt32).alias("times")
    )
    rows = pl.concat(
        [kept.select("template", "row", pl.col("times").cast(pl.UInt32)), open_]
    ).sort("row")
    found = entries[rows["row"]].hstack([rows["times"]])
    joined = found.join(
        templates.drop("line"), on="template", how="left", maintain_order="left"
    )
    return tables.conform("outline", joined.select(*tables.SCHEMAS["outline"]))
