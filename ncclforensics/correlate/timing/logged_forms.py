"""The numbers of steps as training loops log them on each rank, in five forms.

Megatron lists all ranks below the name of a part, a line lists the numbers of all
ranks, or counters grow from look to look. Where none of these is there, a rank prints
lines or a table that are alike but for their numbers (`regular_forms`), or marks where
it is in its step (`logged_marks`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.identity.stated import LABELLED_RANK
from ncclforensics.correlate.steps import regular_forms
from ncclforensics.correlate.timing import logged_marks
from ncclforensics.model.step_parts import UNSAID, WHOLE, kinds, named
from ncclforensics.model.tables import TIME, with_nulls

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

BLOCKS = "timers.megatron.ranks"
GATHERED = "timers.gathered"
METRICS = "timers.metrics"
SPOKEN = (BLOCKS, GATHERED, METRICS, regular_forms.LINES)
_LIST = (
    r"([A-Za-z][\w+-]*)(?: (m?s))? (?:by|per|across|of) ranks?[:=] ?"
    r"(?:\[([\d., ]+)\]|((?:\d+[:=][\d.]+,? ?)+)|((?:[\d.]+,? )+[\d.]+))"
)
_PHASE = r"[{,](?:phase|stage|part|op|section|span|name|timer|event)=\"([^\"]+)\""
TOLD = ("rank", "source", "line", "record", "step", "t", "told_host")
KEPT = (*TOLD, "raw", "number", "unit")
COUNTED = {c: of for c, of in regular_forms.TOLD.items() if c not in ("record", "step")}


def numbers(frames: Frames) -> pl.DataFrame:
    """Return KEPT and `log` of all forms: a row for each `number` of a rank's part.

    `log` is as `regular_forms.numbers` tells it, `raw` is the part's name as printed,
    `unit` "s", "ms", "us", or null if none stands there. `record` is the line that
    tells all parts of a step.
    """
    blocks = pl.concat([of(frames) for of in (_in_lists, _in_blocks, _in_metrics)])
    blocks = blocks.drop_nulls(["rank", "number"])
    if blocks.height:
        return blocks.with_columns(log="source")
    lines = regular_forms.numbers(frames).drop_nulls(["rank", "number"])
    lines = lines.select(*KEPT, "log")
    if _tells_parts(lines):
        return lines
    marks = logged_marks.parts(frames).select(KEPT)
    return marks.with_columns(log="source") if marks.height else lines


def _tells_parts(lines: pl.DataFrame) -> bool:
    """Whether a number is a part of a step by its name, or a time by its unit."""
    names = lines.select("raw", timed=pl.col("unit").is_not_null()).unique()
    kind = kinds(named(pl.col("raw")))
    is_part = ~kind.is_in((WHOLE, UNSAID)) | ((kind == UNSAID) & pl.col("timed"))
    return bool(names.select(is_part.any()).item())


def _in_blocks(frames: Frames) -> pl.DataFrame:
    """Return KEPT of Megatron's lists of ranks below the name of a part.

    A list is of one step, whose number is that of its first line.
    """
    rows = frames.message(BLOCKS)
    if "timer" not in rows.columns:
        return pl.DataFrame(schema=dict.fromkeys(KEPT))
    return rows.drop_nulls("timer").select(
        pl.coalesce("of_rank", "rank").alias("rank"),
        "source",
        line=pl.col("line") + pl.col("below"),
        record="line",
        step="line",
        t=pl.lit(None, TIME),
        told_host=pl.lit(None, pl.String),
        raw="timer",
        number=pl.col("took_us").cast(pl.Float64),
        unit=pl.lit("us"),
    )


def _in_metrics(frames: Frames) -> pl.DataFrame:
    """Return KEPT of counters of seconds, as Prometheus reads them: what each grew by.

    A look at all counters stands for a step.
    """
    told, series = counters(frames), ("rank", "source", "raw")
    looks = pl.int_range(pl.len()).over(series)
    return (
        told.with_columns(
            step=looks, record=looks, number=pl.col("number").diff().over(series)
        )
        .filter(pl.col("number") >= 0)
        .select(KEPT)
    )


def counters(frames: Frames) -> pl.DataFrame:
    """Return KEPT, but for the step, of each look at a counter: the seconds so far."""
    lines = frames.message(METRICS)
    if "seconds" not in lines.columns:
        return pl.DataFrame(schema=COUNTED)
    lines = with_nulls(lines, {"host": pl.String(), "t": TIME})
    text = pl.col("text")
    return lines.select(
        pl.coalesce(text.str.extract(LABELLED_RANK).cast(pl.Int64), "rank").alias(
            "rank"
        ),
        *("source", "line", "t"),
        told_host="host",
        raw=pl.coalesce(
            text.str.extract(_PHASE), text.str.extract(r"^([a-z_]+?)_seconds")
        ),
        number=pl.col("seconds"),
        unit=pl.lit("s"),
    ).sort("source", "line")


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
                part.field("3"),
                part.field("4").str.replace_all(r"\d+[:=]", ""),
                part.field("5"),
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
