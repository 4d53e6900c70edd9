"""What a rank did between two dumps of its process.

It moved if it made a call, if an open call completed or started on its GPU, or if a
`pg_status` count rose. A call that the later dump leaves out has completed if that dump
holds active calls only. If nothing changed, the rank is at a standstill, provided that
enough time passed. The time comes from the files' names or modification times, or from
the calls that others made in the meantime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.timing.dump_series import CLOCK, COUNTS, counted
from ncclforensics.correlate.timing.duplicate_files import LEAST_MS
from ncclforensics.model import tables

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames


def moved(pairs: pl.DataFrame, made: pl.DataFrame, frames: Frames) -> pl.DataFrame:
    """Return a row of `looks` for each pair of dumps, in the order of `pairs`.

    `pairs` and `made` are as `dump_series.paired` and `dump_series.calls` return them.
    `moved` is null if too little time passed or a dump is truncated.
    """
    told = pairs
    for part in (
        _new(pairs, made),
        _changed(pairs, made),
        _counted(pairs, frames),
        _place(pairs, made),
    ):
        told = told.join(part, on="dump", how="left", maintain_order="left")
    told = told.with_columns(pl.col("finished", "began", "risen").fill_null(0))
    # calls missing at the end of a truncated earlier dump are not new
    new = pl.when(~pl.col("cut_a").fill_null(False)).then(
        pl.coalesce("by_id", "by_time")
    )
    told = told.with_columns(_apart(), new=new.fill_null(0))
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
    """Return `dump by_id by_time since`: calls that only the later dump can hold.

    `by_id` counts them by record id, `by_time` by time. `since` is the least time in
    which they were made, in ms.
    """
    later = made.join(pairs.select("dump", "newest_a", "last_id_a"), on="dump")
    is_new = pl.col("t") > pl.col("newest_a")
    since = pl.col("t").max() - pl.col("t").filter(is_new).min()
    return later.group_by("dump").agg(
        (pl.col("record_id").max() - pl.col("last_id_a").first())
        .clip(lower_bound=0)
        .alias("by_id"),
        is_new.sum().cast(pl.Int64).alias("by_time"),
        since.dt.total_milliseconds().alias("since"),
    )


def _changed(pairs: pl.DataFrame, made: pl.DataFrame) -> pl.DataFrame:
    """Return `dump finished began none`: what became of calls that were open.

    `none`: all of them are still there, and none has completed.
    """
    key = ["dump", "group", "seq", "p2p_seq", "record_id", "t"]
    earlier = made.filter(~pl.col("is_done")).join(
        pairs.select("dump", "dump_a"), left_on="dump", right_on="dump_a", suffix="_b"
    )
    earlier = earlier.select(*key[1:], "has_begun", dump="dump_b")
    found = made.select(*key, "is_done", "has_begun").join(
        earlier, on=key, nulls_equal=True
    )
    begins = pl.col("has_begun") & ~pl.col("has_begun_right")
    met = found.group_by("dump").agg(
        pl.col("is_done").sum().cast(pl.Int64).alias("ended"),
        begins.sum().cast(pl.Int64).alias("began"),
        pl.len().cast(pl.Int64).alias("met"),
    )
    before = earlier.group_by("dump").agg(open_before=pl.len().cast(pl.Int64))
    # only in these dumps does a missing call mean that it completed
    active = pairs.filter(
        (pl.col("open") == pl.col("height")) & ~pl.col("cut").fill_null(False)
    )
    says = pl.col("dump").is_in(active["dump"].implode())
    left_out = pl.when(says).then(pl.col("open_before") - pl.col("met"))
    return (
        before.join(met, on="dump", how="left")
        .with_columns(pl.col("ended", "began", "met").fill_null(0))
        .select(
            "dump",
            "began",
            none=(pl.col("ended") == 0) & (pl.col("met") == pl.col("open_before")),
            finished=pl.col("ended") + left_out.otherwise(0),
        )
    )


def _counted(pairs: pl.DataFrame, frames: Frames) -> pl.DataFrame:
    """Return `dump risen`: how many `pg_status` counts rose since the dump before."""
    both = counted(pairs, frames)
    risen = pl.sum_horizontal(
        (pl.col(c) > pl.col(f"{c}_right")).fill_null(False) for c in COUNTS
    )
    numbered = both.join(pairs.select("source", "dump"), on="source")
    return numbered.group_by("dump").agg(risen.sum().cast(pl.Int64).alias("risen"))


def _place(pairs: pl.DataFrame, made: pl.DataFrame) -> pl.DataFrame:
    """Return `dump call line is_open`: the first open call, else the newest call.

    Open calls after the last completed one come first: messages of a batch that ended
    long ago stay open in every dump.
    """
    later = made.join(pairs.select("dump"), on="dump", how="semi")
    ended = later.filter("is_done").group_by("dump").agg(last=pl.col("record_id").max())
    open_ = later.filter(~pl.col("is_done")).join(ended, on="dump", how="left")
    is_past = (pl.col("record_id") < pl.col("last")).fill_null(False)
    first = open_.sort(is_past, "record_id", "line").unique(
        "dump", keep="first", maintain_order=True
    )
    newest = later.filter(pl.col("line") == pl.col("line").max().over("dump"))
    own = pl.concat([first.drop("last"), newest]).unique(
        "dump", keep="first", maintain_order=True
    )
    number = pl.when("is_p2p").then(pl.coalesce("p2p_seq", "seq")).otherwise("seq")
    op = pl.col("op").cast(pl.String)
    call = pl.concat_str(op, pl.lit(" SeqNum="), number.cast(pl.String))
    return own.select(
        "dump", pl.coalesce(call, op).alias("call"), "line", is_open=~pl.col("is_done")
    )


def _apart() -> pl.Expr:
    """Return the time between two looks in ms; null if nothing shows it."""
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
    none = pl.when("none").then(pl.lit(", finished none"))
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
        .when(pl.col("cut_a").fill_null(False))
        .then(pl.lit("the other dump is cut"))
        .when("is_open")
        .then(pl.concat_str(pl.lit("in "), "call", pl.lit(" both times")))
        .when(pl.col("call").is_not_null())
        .then(pl.concat_str(pl.lit("made no call after "), "call"))
        .otherwise(pl.lit("no call in either dump"))
    )
