"""Progress between two observations other than dumps: stacks, RAS, watchdog lines.

Two equal stacks of one process prove less than two equal dumps: a loop passes the same
line again and again. They prove nothing unless py-spy saw the process idle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.timing import look_times
from ncclforensics.correlate.timing.duplicate_files import LEAST_MS, is_retaken, places
from ncclforensics.correlate.traces import call_summary, process_stacks, ras_members
from ncclforensics.model import tables

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

LOOK = ["source", "look"]
LINE = ["source", "line"]
PROCESS = ["rank", "host", "pid", "program"]
NUMBER = ["rank", "comm_id", "op"]
GROUP = ["rank", "attempt", "pg", "pg_id"]


def stacks(frames: Frames) -> pl.DataFrame:
    """Return the looks at each process that has several, the last one last.

    Columns: PROCESS, LOOK, `line`, `stack`, `t`, `is_active`, `what` (the innermost
    frame), and those of the file. A process without a rank or host is left out: its pid
    alone may be that of another host's process.
    """
    looked = process_stacks.looks(frames)
    if looked.is_empty():
        return pl.DataFrame()
    innermost = looked.sort("depth").unique(LOOK, keep="first")
    known = innermost.filter(
        pl.col("rank").is_not_null() | pl.col("host").is_not_null()
    )
    several = known.filter(pl.len().over(PROCESS) > 1)
    if several.is_empty():
        return pl.DataFrame()
    place = pl.concat_str(
        pl.col("file").str.extract(r"([^/]+)$"),
        pl.col("file_line").cast(pl.String),
        separator=":",
    )
    what = pl.concat_str(
        "function", pl.lit(" ("), pl.coalesce(place, "file"), pl.lit(")")
    )
    told = several.select(
        *PROCESS,
        *LOOK,
        "line",
        "stack",
        "t",
        "is_active",
        what.alias("what"),
    )
    return _of_files(frames, told).sort(*PROCESS, "t", "modified", "place", "line")


def spied(told: pl.DataFrame) -> pl.DataFrame:
    """Return `looks` rows for the result of `stacks`."""
    if told.is_empty():
        return tables.empty("looks")
    pairs = _paired(told, PROCESS)
    same = pl.col("stack") == pl.col("stack_a")
    said = pl.concat_str(pl.lit("in "), "what", pl.lit(" both times"))
    now = pl.concat_str(pl.lit("now in "), "what")
    return _rows(
        pairs.drop_nulls("rank"),
        "stack",
        pl.when(same & pl.col("is_active").fill_null(False))
        .then(None)
        .otherwise(~same),
        pl.when(same).then(said).otherwise(now),
    )


def reported(frames: Frames) -> pl.DataFrame:
    """Return `looks` rows for the ranks that two RAS reports count."""
    if ras_members.COUNTS not in frames.messages:
        return tables.empty("looks")
    counts = ras_members.reported(frames).filter(pl.col("kind") == "count")
    counts = counts.drop_nulls(["rank", "operation"]).unique([*NUMBER, *LINE])
    several = counts.filter(pl.len().over(NUMBER) > 1)
    if several.is_empty():
        return tables.empty("looks")
    told = several.select(*NUMBER, *LINE, "t", "operation")
    told = _of_files(frames, told).sort(*NUMBER, "t", "modified", "place", "line")
    pairs = _paired(told, NUMBER).with_columns(
        (pl.col("operation") - pl.col("operation_a")).alias("new")
    )
    # a rank moved if it did in any of its communicators
    most = pairs.sort("rank", "new", descending=[False, True]).unique(
        "rank", keep="first", maintain_order=True
    )
    op = pl.col("op").fill_null("call")
    did = pl.concat_str(
        pl.lit("launched "), pl.col("new").cast(pl.String), pl.lit(" more "), op
    )
    stood = pl.concat_str(
        pl.lit("launched "),
        pl.col("operation").cast(pl.String),
        pl.lit(" "),
        op,
        pl.lit(" both times"),
    )
    moved = pl.col("new") > 0
    return _rows(most, "ras", moved, pl.when(moved).then(did).otherwise(stood))


def logged(frames: Frames) -> pl.DataFrame:
    """Return `looks` rows for the ranks whose watchdog counts more calls later.

    A host enqueues calls that never start: if the number of completed calls is known,
    it has to rise too. A count that does not rise gives no row; its timeout shows that.
    """
    dumps = call_summary.dumps(frames)["source"]
    lines = frames["positions"].drop_nulls(["rank", "t", "last_enqueued"])
    lines = lines.filter(
        ~pl.col("source").is_in(dumps.implode()) & (pl.len().over(GROUP) > 1)
    )
    if lines.is_empty():
        return tables.empty("looks")
    pairs = _paired(
        lines.sort(*GROUP, "t", "line").with_columns(
            modified=pl.lit(None, tables.TIME), stamp=pl.lit(None, tables.TIME)
        ),
        GROUP,
    )
    new = pl.col("last_enqueued") - pl.col("last_enqueued_a")
    ended = pl.col("last_completed") - pl.col("last_completed_a")
    risen = pairs.filter((new > 0) & (ended > 0).fill_null(True))
    said = pl.concat_str(
        pl.lit("enqueued "), new.cast(pl.String), pl.lit(" more calls")
    )
    return _rows(
        risen.unique("rank", keep="last", maintain_order=True),
        "log",
        pl.lit(True),
        said,
    )


def _of_files(frames: Frames, told: pl.DataFrame) -> pl.DataFrame:
    files = frames["sources"].select("source", "modified", "sha256").unique("source")
    named = places(told["source"].unique(maintain_order=True))
    looks = look_times.taken(frames)
    for more in (files, named, looks):
        told = told.join(more, on="source", how="left", maintain_order="left")
    return told.with_columns(
        pl.coalesce("t", "taken").alias("t"),
        pl.coalesce("taken", "stamp").alias("stamp"),
    ).drop("taken")


def _paired(told: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """Return the last look of each `key` with the previous one (`…_a`).

    Files with the same bytes are two looks only if something shows them to be.
    """
    before = [pl.col(c).shift(1).over(key).alias(f"{c}_a") for c in told.columns]
    pairs = told.with_columns(before).drop_nulls("source_a")
    if "sha256" in told.columns:
        equal = (pl.col("sha256") == pl.col("sha256_a")).fill_null(False)
        equal &= pl.col("source") != pl.col("source_a")
        copies = [
            row["source"]
            for row in pairs.filter(equal).to_dicts()
            if not is_retaken({c: row[f"{c}_a"] for c in told.columns}, row)
        ]
        pairs = pairs.filter(~(equal & pl.col("source").is_in(copies)))
    return pairs.unique(key, keep="last", maintain_order=True)


def _rows(
    pairs: pl.DataFrame, kind: str, moved: pl.Expr, what: pl.Expr
) -> pl.DataFrame:
    """Return `looks` rows; no movement counts only if enough time has passed."""
    apart = pl.coalesce(
        pl.col("t") - pl.col("t_a"),
        pl.col("stamp") - pl.col("stamp_a"),
        pl.when(pl.col("source") != pl.col("source_a")).then(
            pl.col("modified") - pl.col("modified_a")
        ),
    ).dt.total_milliseconds()
    told = pairs.with_columns(
        pl.lit(kind).alias("kind"),
        moved.alias("moved"),
        what.alias("what"),
        pl.when(apart >= 0).then(apart).alias("apart_ms"),
        pl.coalesce("t", "modified").alias("t"),
        pl.col("source_a").alias("earlier_source"),
    )
    proves = pl.col("moved") | (pl.col("apart_ms") >= LEAST_MS)
    told = told.with_columns(pl.when(proves).then("moved").alias("moved"))
    return tables.conform("looks", told.select(*tables.SCHEMAS["looks"]))
