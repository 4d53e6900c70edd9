"""Which dumps of a rank are of one process, in the order they were taken.

A call keeps its time in every dump of its process. Two dumps share no call if the ring
buffer wrapped in between, or if only active calls were dumped. They are of one process
if its groups are the same and its record ids and times continue at the pace of its
calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.timing import look_times
from ncclforensics.correlate.timing.duplicate_files import places
from ncclforensics.model.tables import TIME, begun, done

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

# factor by which the call rate between two looks may differ from that in either
PACE = 10
# if no pace is known: a second look at a hang is taken within the hour
LONGEST = pl.duration(hours=1)
# a file server's clock may be behind a host's
CLOCK = pl.duration(seconds=1)
OWN = ["dump", "group", "op", "is_p2p", "seq", "p2p_seq", "record_id", "t", "line"]
NO_CALLS = {
    **dict.fromkeys(("seq", "p2p_seq", "record_id", "line"), pl.Int64()),
    **dict.fromkeys(("is_p2p", "is_done", "has_begun"), pl.Boolean()),
    "dump": pl.UInt32(),
    "group": pl.UInt64(),
    "op": pl.Categorical(),
    "t": TIME,
}
COUNTS = ("last_enqueued", "last_started", "last_completed")


def calls(frames: Frames, dumps: pl.DataFrame) -> pl.DataFrame:
    """Return the calls of `dumps`: columns OWN, `is_done` and `has_begun`.

    `dump` numbers the rows of `dumps`. Millions of calls are not turned into text: a
    text column stays one hash or category per template.
    """
    numbered = dumps.select("source").with_row_index("dump")
    label = [
        pl.col("pg_id").hash(seed=0).alias("group"),
        pl.col("op").cast(pl.Categorical()),
        done().alias("is_done"),
        begun().alias("has_begun"),
    ]
    columns = [*OWN, "is_done", "has_begun"]
    parts = []
    if frames.has("entries"):
        few = frames["templates"].drop("line").join(numbered, on="source")
        # each call has start times of its own, so the template's are dropped
        few = few.with_columns(t_started=pl.lit(None, TIME)).with_columns(label)
        few = few.drop("t_started", "source")
        made = frames["entries"].lazy().join(few.lazy(), on="template")
        started = pl.col("has_begun") | pl.col("t_started").is_not_null()
        parts.append(made.with_columns(has_begun=started).select(columns))
    if (eager := frames.tables.get("collectives")) is not None:
        whole = eager.join(numbered, on="source").with_columns(label)
        parts.append(whole.lazy().select(columns))
    return pl.concat(parts).collect() if parts else pl.DataFrame(schema=NO_CALLS)


def described(frames: Frames, dumps: pl.DataFrame, made: pl.DataFrame) -> pl.DataFrame:
    """Return `dumps` (`source rank`) with the columns that order them, sorted.

    If a dump of a rank has no calls, all dumps of that rank are ordered by `pg_status`
    counts, file time and file name.
    """
    of_calls = made.group_by("dump").agg(
        pl.col("record_id").min().alias("first_id"),
        pl.col("record_id").max().alias("last_id"),
        pl.col("t").min().alias("oldest"),
        pl.col("t").max().alias("newest"),
        (~pl.col("is_done")).sum().cast(pl.Int64).alias("open"),
        pl.len().cast(pl.Int64).alias("height"),
    )
    kinds = [
        frame.select("source", "backend").drop_nulls().unique()
        for frame in (frames["templates"], frames.tables.get("collectives"))
        if frame is not None
    ]
    backends = (
        pl.concat(kinds)
        .group_by("source")
        .agg(pl.col("backend").unique().sort().alias("backends"))
    )
    counted = frames["positions"].join(dumps, on="source", how="semi")
    counts = counted.group_by("source").agg(
        pl.sum_horizontal(pl.col(c).sum() for c in COUNTS).alias("counts")
    )
    names = places(dumps["source"])
    files = frames["sources"].select("source", "modified", "sha256", "cut")
    told = dumps.with_row_index("dump").join(of_calls, on="dump", how="left")
    looks = look_times.taken(frames)
    for more in (backends, counts, names, files.unique("source"), looks):
        told = told.join(more, on="source", how="left")
    told = told.with_columns(pl.coalesce("taken", "stamp").alias("stamp"))
    blank = pl.col("height").is_null().any().over("rank")
    order = [
        pl.when(~blank).then(c) for c in ("newest", "last_id", pl.col("open") * -1)
    ]
    return told.sort("rank", *order, "counts", "taken", "modified", "place", "source")


def paired(told: pl.DataFrame, made: pl.DataFrame, frames: Frames) -> pl.DataFrame:
    """Return each dump with the previous one (`…_a`) of its rank and process.

    `told` is as `described` returns it; its order is kept.
    """
    before = [pl.col(c).shift(1).over("rank").alias(f"{c}_a") for c in told.columns]
    pairs = told.with_columns(before).drop_nulls("source_a")
    for more in (
        _shared(pairs, made),
        _groups_agree(pairs, frames),
        _fell(pairs, frames),
    ):
        pairs = pairs.join(more, on="source", how="left", maintain_order="left")
    equal = (pl.col("sha256") == pl.col("sha256_a")).fill_null(False)
    sure = equal | pl.col("shares").fill_null(False)
    agree = pl.col("agree").fill_null(True) & ~pl.col("fell").fill_null(False)
    known = pairs.with_columns(sure=sure | (agree & _goes_on()).fill_null(False))
    looked = known.filter("sure").select("folder", "folder_a").unique()
    blank = pl.any_horizontal(pl.col("height", "height_a").is_null())
    beside = known.join(
        looked.with_columns(beside=True),
        on=["folder", "folder_a"],
        how="left",
        maintain_order="left",
    )
    is_look = pl.col("sure") | (blank & agree & pl.col("beside").fill_null(False))
    return beside.filter(is_look).drop("shares", "agree", "fell", "beside", "sure")


def _shared(pairs: pl.DataFrame, made: pl.DataFrame) -> pl.DataFrame:
    """Return `source shares` of the dumps that hold a call of the previous one.

    If they share a call, they share the newest of the earlier dump, or one that is open
    there, or, if the later dump is truncated, its oldest.
    """
    key = ["dump", "group", "seq", "t"]
    t = pl.col("t")
    ends = (t == t.max().over("dump")) | (t == t.min().over("dump"))
    few = made.filter(t.is_not_null() & (ends | ~pl.col("is_done"))).select(key)
    ids = pairs.select(pair="dump", later="dump", earlier="dump_a")
    found = []
    for own, other in (("later", "earlier"), ("earlier", "later")):
        asked = few.join(ids, left_on="dump", right_on=own)
        asked = asked.select("pair", pl.col(other).alias("dump"), *key[1:])
        met = made.select(key).join(asked, on=key, nulls_equal=True)
        found.append(met.select(pl.col("pair").alias("dump")))
    shares = pl.concat(found).unique().with_columns(shares=True)
    return pairs.select("dump", "source").join(shares, on="dump").drop("dump")


def _groups_agree(pairs: pl.DataFrame, frames: Frames) -> pl.DataFrame:
    """Return `source agree`: whether group ids mean the same group in both dumps."""
    named = (
        frames["groups"].drop_nulls("pg_id").select("source", "pg_id", "pg", "pg_desc")
    )
    both = (
        named.join(pairs.select("source", "source_a"), on="source")
        .join(named, left_on=["source_a", "pg_id"], right_on=["source", "pg_id"])
        .with_columns(
            pl.col("pg").eq_missing(pl.col("pg_right"))
            & pl.col("pg_desc").eq_missing(pl.col("pg_desc_right"))
        )
    )
    return both.group_by("source").agg(pl.col("pg").all().alias("agree"))


def counted(pairs: pl.DataFrame, frames: Frames) -> pl.DataFrame:
    """Return `source pg_id` and COUNTS of each group, and the previous dump's.

    Those of the previous dump are `…_right`.
    """
    told = frames["positions"].drop_nulls("pg_id").select("source", "pg_id", *COUNTS)
    return told.join(pairs.select("source", "source_a"), on="source").join(
        told, left_on=["source_a", "pg_id"], right_on=["source", "pg_id"]
    )


def _fell(pairs: pl.DataFrame, frames: Frames) -> pl.DataFrame:
    """Return `source fell`: whether any count was higher in the previous dump."""
    less = pl.any_horizontal(pl.col(c) < pl.col(f"{c}_right") for c in COUNTS)
    return counted(pairs, frames).group_by("source").agg(less.any().alias("fell"))


def _goes_on() -> pl.Expr:
    """Whether record ids and times of a dump continue those of the previous one.

    A job may pause for a while, as for a checkpoint; it does not go much faster.
    """
    after = (pl.col("first_id") > pl.col("last_id_a")) & (
        pl.col("oldest") > pl.col("newest_a")
    )
    gap = pl.col("oldest") - pl.col("newest_a")
    between = (pl.col("first_id") - pl.col("last_id_a")) / _ns(gap)
    own, before = _pace(""), _pace("_a")
    slow, fast = pl.min_horizontal(own, before), pl.max_horizontal(own, before)
    is_slower = (between <= fast * PACE).fill_null(value=True)
    keeps_on = (between >= slow / PACE).fill_null(value=False) | (gap <= LONGEST)
    recorder = pl.col("backends").list.set_intersection("backends_a").list.len() > 0
    return after & recorder & is_slower & keeps_on


def _pace(suffix: str) -> pl.Expr:
    """Return records per nanosecond; null where only active calls were dumped."""
    ids = pl.col(f"last_id{suffix}") - pl.col(f"first_id{suffix}")
    pace = ids / _ns(pl.col(f"newest{suffix}") - pl.col(f"oldest{suffix}"))
    in_full = pl.col(f"open{suffix}") < pl.col(f"height{suffix}")
    return pl.when(in_full & (ids > 0) & pace.is_finite()).then(pace)


def _ns(span: pl.Expr) -> pl.Expr:
    return span.dt.total_nanoseconds()
