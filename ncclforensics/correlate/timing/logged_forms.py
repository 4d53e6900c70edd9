"""The numbers of steps as training loops log them on each rank, in seven forms.

A rank prints `name: value` pairs in a line of its own, Megatron lists all ranks below
the name of a part, a line lists the numbers of all ranks, a table has a row a rank or a
step, counters grow from look to look, or a rank marks where it is in its step
(`logged_marks`). Where none of these is there, lines that are alike but for their
numbers tell (`regular_forms`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.identity.stated import HOST, LABELLED_RANK
from ncclforensics.correlate.timing import logged_marks, regular_forms
from ncclforensics.model.tables import TIME, with_nulls

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

LINES, BLOCKS = "timers.step", "timers.megatron.ranks"
GATHERED, TABLE = "timers.gathered", "timers.table"
METRICS = "timers.metrics"
SPOKEN = (
    *(LINES, BLOCKS, GATHERED, TABLE, METRICS, logged_marks.MARKS),
    regular_forms.LINES,
)
BARE = ""  # the unit of a time without one
OF_TABLES = {
    **dict.fromkeys(("of_step", "took_us"), pl.Int64()),
    **dict.fromkeys(("on", "unit"), pl.String()),
    "took": pl.Float64(),
}
# a number, or a timedelta of Python: `0:00:00.012345`
_PAIR = (
    r"([^\s\d:=|,;(){}\[\]\"'<>][^\s:=|,;(){}\[\]\"'<>]*(?: ?\((?:[mu]?s|t)\))?)[\"']?"
    r"(?: {0,3}[:=] {0,3}[\"']?| {1,12})(?:(0{1,2}):(\d\d):)?"
    r"(\d{1,19}(?:\.\d{1,9})?(?:e[+-]?\d{1,3})?)(?: ?([mu]?s)\b)?(-\d\d)?"
)
_PER_STEP = r"\b(\d{1,9}(?:\.\d{1,9})?) ?(m?s)/(it|iter|step|batch)\b"
# the unit of all that a record holds: `"spans_us": {"forward": 67955, …}`
_OF_ALL = r"[\"'][a-z_]*_([mu]?s)[\"'] ?: ?\{"
_LIST = (
    r"([A-Za-z]\w*)(?: (m?s))? (?:by|per|across|of) ranks?[:=] ?"
    r"(?:\[([\d., ]+)\]|((?:\d+[:=][\d.]+,? ?)+))"
)
# a record of one part: its name beside how long it took
_NAMED = (
    r"(?i)\b(?:name|span|phase|stage|section|part|op|timer|region|event)[\"']?"
    r" ?[:=] ?[\"']?([a-z][\w./-]*)"
)
_TOOK = (
    r"(?i)^(?:dur(?:ation)?|elapsed|took|time|latency|value|wall)"
    r"(?:_?(?:[mu]?s|secs?))?$"
)
_PHASE = r"[{,](?:phase|stage|part|op|section|span|name|timer|event)=\"([^\"]+)\""
_RANK = r"(?i)(?:\b(?:world_|global_)?rank[\"']?\s{0,2}[:= ]?\s{0,2}|\[rk?)(\d{1,7})\b"
# a column of a header: `2026-11-20,12:00:11 | gpu0003 | INFO | …`
_HOST = r"^[\d-]{8,10}[,T ][\d:.,]+ \| {1,2}([A-Za-z][\w.-]*\d[\w.-]*) \| [A-Z]+ \| "
RATE = r"(?i)(?:/|_per_)(?:s|sec|seconds?|min|minute|hour|h|day)$"  # `img/s`, no time
COUNTER = r"(?i)^(?:global_?)?(?:step|iter|iteration|it)$"
TOLD = ("rank", "source", "line", "record", "step", "t", "told_host")
KEPT = (*TOLD, "raw", "number", "unit")


def numbers(frames: Frames) -> pl.DataFrame:
    """Return KEPT of all forms: a row for each `number` that a rank has for a part.

    `raw` is the part's name as printed, `unit` "s", "ms", "us", or null if none stands
    there. `record` is the line that tells all parts of a step.
    """
    forms = (
        _in_lines(frames),
        _in_lists(frames),
        _in_tables(frames),
        _in_metrics(frames),
        logged_marks.parts(frames).select(KEPT),
    )
    told = pl.concat([form.drop_nulls(["rank", "number"]) for form in forms])
    return told if told.height else regular_forms.numbers(frames).select(KEPT)


def _in_lines(frames: Frames) -> pl.DataFrame:
    """Return KEPT of the lines that a rank prints itself."""
    lines = frames.message(LINES)
    if "text" not in lines.columns:
        return pl.DataFrame(schema=dict.fromkeys(KEPT))
    lines = with_nulls(lines, {"step": pl.Int64(), "host": pl.String(), "t": TIME})
    # what stands behind its number: `252.08 ms/it`
    text = pl.col("text").str.replace_all(_PER_STEP, "${3}_time: ${1} ${2}")
    stated = text.str.extract(_RANK).cast(pl.Int64, strict=False)
    # `[Rank 3]` of a line that is about no group; below an agent, a task is a node
    own = pl.when(pl.col("pg").is_null()).then("group_rank")
    agents = any(name.startswith("torchelastic.") for name in frames.messages)
    task = pl.when(pl.col("local_rank").is_null() & pl.lit(not agents)).then("task")
    pair = pl.col("pair").str.extract_groups(_PAIR).struct
    return (
        lines.select(
            pl.coalesce(stated, "rank", own, task).alias("rank"),
            *("source", "line", "step", "t"),
            pl.col("line").alias("record"),
            pl.coalesce("host", text.str.extract(HOST), text.str.extract(_HOST)).alias(
                "told_host"
            ),
            of_all=pl.coalesce(
                text.str.extract(_OF_ALL), text.str.extract(r"\((ms)\)")
            ),
            named=text.str.extract(_NAMED),
            pair=text.str.extract_all(_PAIR),
        )
        .explode("pair")
        .drop_nulls("pair")
        .with_columns(
            raw=pair.field("1"),
            hours=pair.field("2").cast(pl.Float64),
            minutes=pair.field("3").cast(pl.Float64),
            number=pair.field("4"),
            after=pair.field("5"),
            is_date=pair.field("6").is_not_null(),
        )
        .filter(
            ~pl.col("is_date") & ~_counts_steps() & ~pl.col("raw").str.contains(RATE)
        )
        .with_columns(
            pl.col("number").cast(pl.Float64)
            + (3600 * pl.col("hours") + 60 * pl.col("minutes")).fill_null(0.0),
            unit=pl.coalesce(
                "after",
                pl.when(pl.col("hours").is_not_null()).then(pl.lit("s")),
                pl.col("raw").str.extract(r"[_(]([mu]?s)\)?$"),
                pl.col("raw").str.extract(r"tim(?:e|ing|er)_([mu]?s)/"),
                "of_all",
            ),
        )
        .with_columns(
            raw=pl.when(pl.col("raw").str.contains(_TOOK))
            .then(pl.coalesce("named", "raw"))
            .otherwise("raw")
        )
        .select(KEPT)
    )


def _counts_steps() -> pl.Expr:
    """Whether a pair is the number of the step: DeepSpeed's `step: 50.1` is a time."""
    is_step = pl.col("number").cast(pl.Int64, strict=False) == pl.col("step")
    return (pl.col("raw").str.contains(COUNTER) & is_step).fill_null(False)


def _in_tables(frames: Frames) -> pl.DataFrame:
    """Return KEPT of tables and of Megatron's lists of ranks.

    What has a row a rank is of one step, whose number is that of its first line.
    """
    rows = frames.message(BLOCKS, TABLE)
    if "timer" not in rows.columns:
        return pl.DataFrame(schema=dict.fromkeys(KEPT))
    rows = with_nulls(rows, OF_TABLES)
    line = pl.col("line") + pl.col("below")
    of_rank = pl.col("of_rank").is_not_null() & pl.col("of_step").is_null()
    in_us = pl.when(pl.col("took_us").is_not_null()).then(pl.lit("us"))
    return rows.drop_nulls("timer").select(
        pl.coalesce("of_rank", "rank").alias("rank"),
        "source",
        line.alias("line"),
        record=pl.when(of_rank).then("line").otherwise(line),
        step=pl.when(of_rank).then("line").otherwise("of_step"),
        t=pl.lit(None, TIME),
        told_host="on",
        raw="timer",
        number=pl.coalesce("took", pl.col("took_us").cast(pl.Float64)),
        unit=pl.coalesce("unit", in_us, pl.lit(BARE)),
    )


def _in_metrics(frames: Frames) -> pl.DataFrame:
    """Return KEPT of counters of seconds, as Prometheus reads them: what each grew by.

    A look at all counters stands for a step.
    """
    lines = frames.message(METRICS)
    if "seconds" not in lines.columns:
        return pl.DataFrame(schema=dict.fromkeys(KEPT))
    lines = with_nulls(lines, {"host": pl.String(), "t": TIME})
    text = pl.col("text")
    series = ("rank", "source", "raw")
    told = lines.select(
        pl.coalesce(text.str.extract(LABELLED_RANK).cast(pl.Int64), "rank").alias(
            "rank"
        ),
        *("source", "line", "t"),
        told_host="host",
        raw=pl.coalesce(
            text.str.extract(_PHASE), text.str.extract(r"^([a-z_]+?)_seconds")
        ),
        unit=pl.lit("s"),
        number=pl.col("seconds"),
    ).sort("source", "line")
    looks = pl.int_range(pl.len()).over(series)
    return (
        told.with_columns(
            step=looks, record=looks, number=pl.col("number").diff().over(series)
        )
        .filter(pl.col("number") >= 0)
        .select(KEPT)
    )


def _in_lists(frames: Frames) -> pl.DataFrame:
    """Return KEPT of lists that hold a number for each rank, in the order of ranks."""
    lines = frames.message(GATHERED)
    if "text" not in lines.columns:
        return pl.DataFrame(schema=dict.fromkeys(KEPT))
    lines = with_nulls(lines, {"step": pl.Int64()})
    part = pl.col("part").str.extract_groups(_LIST).struct
    in_ms = (pl.col("unit") == "ms") | pl.col("raw").str.ends_with("_ms")
    return (
        lines.select(
            *("source", "line", "step"),
            pl.col("line").alias("record"),
            t=pl.lit(None, TIME),
            told_host=pl.lit(None, pl.String),
            part=pl.col("text").str.extract_all(_LIST),
        )
        .explode("part")
        .with_columns(
            raw=part.field("1"),
            unit=part.field("2"),
            # `0:577.9 1:580.0` numbers them itself
            number=pl.coalesce(
                part.field("3"), part.field("4").str.replace_all(r"\d+[:=]", "")
            ).str.extract_all(r"[\d.]+"),
            rank=part.field("4").str.extract_all(r"\d+[:=]"),
        )
        .with_columns(
            rank=pl.coalesce(
                pl.col("rank").list.eval(
                    pl.element().str.strip_chars(":=").cast(pl.Int64)
                ),
                pl.int_ranges(pl.col("number").list.len()),
            )
        )
        .explode("number", "rank")
        .with_columns(
            pl.col("number").cast(pl.Float64, strict=False),
            unit=pl.when(in_ms).then(pl.lit("ms")).otherwise(pl.lit("s")),
        )
        .select(KEPT)
    )
