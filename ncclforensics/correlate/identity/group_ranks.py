"""The global rank of a line that only tells a rank within a group.

The default group holds all ranks in order, and a dump lists the members of the others.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.model.frames import Frames

KEY = ["pg", "pg_desc"]


def as_global(frames: Frames) -> Frames:
    """Return `frames` with `rank` filled from `group_rank` where the group is known."""
    messages = dict(frames.messages)
    tables = dict(frames.tables)
    default = (pl.col("pg_desc") == "default_pg") | (pl.col("pg_id") == "0")
    listed = _listed(frames) if frames.has("groups") else frames["groups"]
    for held in (tables, messages):
        for name, frame in held.items():
            if "group_rank" not in frame.columns or not frame["rank"].null_count():
                continue
            if frame["group_rank"].null_count() == frame.height:
                continue
            of_all = pl.when(default.fill_null(False)).then("group_rank")
            held[name] = frame.with_columns(pl.coalesce("rank", of_all).alias("rank"))
            if listed.height and (held is messages or name in ("events", "positions")):
                held[name] = _filled(held[name], listed)
    return Frames(tables, messages)


def _listed(frames: Frames) -> pl.DataFrame:
    """Return KEY, `group_rank` and `_member` of the groups that dumps list.

    A name that means different members on different ranks says nothing.
    """
    known = frames["groups"].drop_nulls(["pg", "members"]).select(*KEY, "members")
    alike = known.unique().filter(pl.len().over(KEY) == 1)
    return alike.select(
        *KEY,
        pl.col("members").alias("_member"),
        pl.int_ranges(pl.col("members").list.len()).alias("group_rank"),
    ).explode("_member", "group_rank")


def _filled(frame: pl.DataFrame, listed: pl.DataFrame) -> pl.DataFrame:
    key = [*KEY, "group_rank"]
    joined = frame.join(
        listed, on=key, how="left", nulls_equal=True, maintain_order="left"
    )
    rank = pl.coalesce("rank", "_member").alias("rank")
    return joined.with_columns(rank).drop("_member")
