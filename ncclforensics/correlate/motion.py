"""What a rank did between two dumps of its process.

It moved if it made a call, or one that was open ended or began on its GPU, or if what
`pg_status` counts has risen. A call that the later dump leaves out has ended where that
dump holds active calls only. Where nothing has changed the rank stands, if enough time
has passed: that is told by the files' names or times, or by the calls that others made
in the meantime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics import tables
from ncclforensics.correlate.retakes import CALL, CLOCK, COUNTS, LEAST_MS, counted

if TYPE_CHECKING:
    from ncclforensics.frames import Frames


def moved(pairs: pl.DataFrame, made: pl.DataFrame, frames: Frames) -> pl.DataFrame:
    """Return a row of `looks` for each pair of dumps, as `retakes` returns both."""
    told = pairs
    for part in (
        _new(pairs, made),
        _changed(pairs, made),
        _counted(pairs, frames),
        _place(made),
    ):
        told = told.join(part, on="source", how="left", maintain_order="left")
    told = told.with_columns(pl.col("finished", "began", "risen").fill_null(0))
    told = told.with_columns(_apart(), new=pl.coalesce("by_id", "by_time").fill_null(0))
    did = pl.any_horizontal(pl.col("new", "finished", "began", "risen") > 0)
    whole = ~pl.any_horizontal(pl.col("cut", "cut_a").fill_null(False))
    comparable = pl.all_horizontal(pl.col("height", "height_a").is_not_null()) | (
        pl.all_horizontal(pl.col("counts", "counts_a").is_not_null())
    )
    long_enough = pl.col("apart_ms") >= LEAST_MS
    stands = pl.when(long_enough & whole & comparable).then(False)
    taken = pl.col("modified") >= pl.col("newest") - CLOCK
    return tables.conform(
        "looks",
        told.select(
            "rank",
            pl.lit("dump").alias("kind"),
            pl.when(did).then(True).otherwise(stands).alias("moved"),
            _said().alias("what"),
            "apart_ms",
            pl.when(taken.fill_null(True))
            .then("modified")
            .otherwise("newest")
            .alias("t"),
            pl.col("source_a").alias("earlier_source"),
            "source",
            "line",
        ),
    )


def _new(pairs: pl.DataFrame, made: pl.DataFrame) -> pl.DataFrame:
    """Return `source by_id by_time since`: calls that only the later dump can hold.

    `since` is the least time in which they were made, in ms.
    """
    later = made.join(pairs.select("source", "newest_a", "last_id_a"), on="source")
    is_new = pl.col("t") > pl.col("newest_a")
    since = pl.col("t").max() - pl.col("t").filter(is_new).min()
    return later.group_by("source").agg(
        (pl.col("record_id").max() - pl.col("last_id_a").first())
        .clip(lower_bound=0)
        .alias("by_id"),
        is_new.sum().cast(pl.Int64).alias("by_time"),
        since.dt.total_milliseconds().alias("since"),
    )


def _changed(pairs: pl.DataFrame, made: pl.DataFrame) -> pl.DataFrame:
    """Return `source finished began open_a`: what became of calls that were open."""
    key = ["record_id", *CALL]
    earlier = (
        made.filter(~pl.col("is_done"))
        .rename({"source": "source_a"})
        .join(pairs.select("source", "source_a"), on="source_a")
    )
    # only these dumps say by leaving out a call that it ended
    active = pairs.filter(
        (pl.col("open") == pl.col("height")) & ~pl.col("cut").fill_null(False)
    )
    ended = (
        pl.when(pl.col("is_done_right").is_null())
        .then(pl.col("source").is_in(active["source"].implode()))
        .otherwise("is_done_right")
    )
    begins = ~pl.col("has_begun") & pl.col("has_begun_right")
    return (
        earlier.join(
            made.select("source", *key, "is_done", "has_begun"),
            on=["source", *key],
            how="left",
            nulls_equal=True,
        )
        .group_by("source")
        .agg(
            ended.sum().cast(pl.Int64).alias("finished"),
            begins.sum().cast(pl.Int64).alias("began"),
            pl.len().cast(pl.Int64).alias("open_before"),
        )
    )


def _counted(pairs: pl.DataFrame, frames: Frames) -> pl.DataFrame:
    """Return `source risen`: how many counts of `pg_status` are greater than before."""
    both = counted(pairs, frames)
    risen = pl.sum_horizontal(
        (pl.col(c) > pl.col(f"{c}_right")).fill_null(False) for c in COUNTS
    )
    return both.group_by("source").agg(risen.sum().cast(pl.Int64).alias("risen"))


def _place(made: pl.DataFrame) -> pl.DataFrame:
    """Return `source call line is_open`: the first call that is open, or the newest.

    Of the open ones those behind the last that ended come first: messages of a batch
    that is long over stay open in every dump.
    """
    number = pl.when("is_p2p").then(pl.coalesce("p2p_seq", "seq")).otherwise("seq")
    call = pl.concat_str("op", pl.lit(" SeqNum="), number.cast(pl.String))
    is_open = ~pl.col("is_done")
    behind = is_open & (
        pl.col("record_id") > pl.col("record_id").filter("is_done").max()
    ).fill_null(True)
    own = pl.struct(
        pl.coalesce(call, "op").alias("call"), "line", is_open.alias("is_open")
    )
    ordered = made.sort("record_id", "line")
    return (
        ordered.group_by("source")
        .agg(
            pl.coalesce(
                own.filter(behind).first(), own.filter(is_open).first(), own.last()
            ).alias("own")
        )
        .unnest("own")
    )


def _apart() -> pl.Expr:
    """Return the time between two looks in ms, as far as something tells it."""
    named = pl.col("stamp") - pl.col("stamp_a")
    files = (pl.col("modified") - pl.col("modified_a")).dt.total_milliseconds()
    same_folder = pl.col("folder") == pl.col("folder_a")
    together = pl.col("since").max().over("folder", "folder_a")
    least = pl.when(same_folder).then("since").otherwise(together)
    known = pl.max_horizontal(pl.when(files >= 0).then(files), least)
    stamped = pl.when(named > pl.duration()).then(named.dt.total_milliseconds())
    return pl.coalesce(stamped, known).alias("apart_ms")


def _said() -> pl.Expr:
    many = pl.col("new").cast(pl.String)
    ended = pl.col("finished")
    none = pl.when((ended == 0) & (pl.col("open_before") > 0)).then(
        pl.lit(", finished none")
    )
    calls_ = pl.when(pl.col("new") == 1).then(pl.lit(" more call"))
    return (
        pl.when(pl.col("new") > 0)
        .then(
            pl.concat_str(
                pl.lit("made "),
                many,
                calls_.otherwise(pl.lit(" more calls")),
                none.otherwise(pl.lit("")),
            )
        )
        .when(ended > 0)
        .then(
            pl.concat_str(
                pl.lit("finished "),
                ended.cast(pl.String),
                pl.when(ended == 1).then(pl.lit(" call")).otherwise(pl.lit(" calls")),
            )
        )
        .when(pl.col("began") > 0)
        .then(pl.concat_str(pl.lit("its GPU began "), "call"))
        .when(pl.col("risen") > 0)
        .then(pl.lit("counted more calls in pg_status"))
        .when("is_open")
        .then(pl.concat_str(pl.lit("in "), "call", pl.lit(" both times")))
        .when(pl.col("call").is_not_null())
        .then(pl.concat_str(pl.lit("made no call after "), "call"))
        .otherwise(pl.lit("no call in either dump"))
    )
