"""The parts of steps as training loops log them on each rank, one row a part.

A rank prints `name: value` pairs in a line of its own, Megatron lists all ranks below
the name of a part, or a line lists the numbers of all ranks. Numbers without a
unit are seconds, or milliseconds where the log as a whole took no such time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.frames import remembered
from ncclforensics.model.step_parts import kinds, named
from ncclforensics.model.tables import TIME, with_nulls

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

LINES, BLOCKS = "timers.step", "timers.megatron.ranks"
GATHERED = "timers.gathered"
_PAIR = (
    r"([A-Za-z][A-Za-z0-9_/.-]*(?: ?\((?:m?s|t)\))?)[\"']?"
    r"(?: {0,3}[:=] {0,3}| {1,12})(\d{1,9}(?:\.\d{1,9})?)(?: ?(ms|s)\b)?"
)
_LIST = r"([A-Za-z]\w*)(?: (m?s))? (?:by|per|across|of) ranks?[:=] ?\[([\d., ]+)\]"
_RANK = r"(?i)\b(?:world_|global_)?rank[\"']?\s{0,2}[:= ]\s{0,2}(\d{1,7})"
COUNTER = r"(?i)^(?:global_?)?(?:step|iter|iteration|it)$"
TOLD = ("rank", "source", "line", "record", "step", "t", "told_host")
KEPT = (*TOLD, "raw", "number", "unit")
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
MOMENT = 1e8  # seconds: a number as large is a time of day since 1970
LONGER = 10.0  # times the time of its log, that steps in seconds cannot take
MICRO = "_microstep"  # DeepSpeed's, of each batch; its line of a step has plain names


@remembered
def parts(frames: Frames) -> pl.DataFrame | None:
    """Return `rank source line step again raw name kind seconds host`, a row a part.

    A rank may print into several files: the one with most lines is taken. `again`
    numbers the lines of one step, as each epoch counts from 0. A line without a step
    is of the last one that its rank told. Megatron loads its batch within
    forward-compute, which is told without it, if it is never shorter.
    """
    forms = (_in_lines(frames), _in_blocks(frames), _in_lists(frames))
    both = [told for told in forms if told.height]
    if not both:
        return None
    told = _in_seconds(_with_kinds(pl.concat(both).drop_nulls(["rank", "number"])))
    by_source = told.group_by("rank", "source").len()
    best = by_source.sort("rank", "len", "source", descending=[False, True, False])
    told = told.join(
        best.unique("rank", keep="first"), on=["rank", "source"], how="semi"
    )
    is_plain = pl.col("name") == pl.col("plain")
    both_told = pl.col("name").n_unique().over("rank", "plain") > 1
    told = told.drop_nulls("kind").filter(is_plain | ~both_told)
    hosts = frames["ranks"].select("rank", "host").unique("rank", keep="first")
    name, seconds = pl.col("plain"), pl.col("seconds")
    read = seconds.filter(name == "batch_generator").first().over("rank", "record")
    forward = name == "forward_compute"
    holds = (~forward | (seconds >= read)).fill_null(value=True).all()  # what it loads
    return (
        told.unique(["rank", "record", "plain"], keep="first", maintain_order=True)
        .with_columns(
            name="plain",
            seconds=pl.when(forward & holds)
            .then(seconds - read.fill_null(0.0))
            .otherwise(seconds),
        )
        .sort("rank", "record", maintain_order=True)
        .with_columns(pl.col("step").forward_fill().over("rank").fill_null(-1))
        .with_columns(again=pl.int_range(pl.len()).over("rank", "step", "name"))
        .join(hosts, on="rank", how="left", maintain_order="left")
        .with_columns(pl.coalesce("host", "told_host").alias("host"))
        .drop("plain", "told_host", "record", "t", "number", "unit")
    )


def _with_kinds(told: pl.DataFrame) -> pl.DataFrame:
    """Add `name`, `plain`, without MICRO, and `kind`, which is null of no part.

    A log has millions of numbers, and a few names.
    """
    names = (
        told.select("raw")
        .unique()
        .with_columns(name=named(pl.col("raw")))
        .with_columns(plain=pl.col("name").str.strip_suffix(MICRO))
        .with_columns(kind=kinds(pl.col("plain")))
    )
    return told.join(names, on="raw", how="left", maintain_order="left")


def _in_seconds(told: pl.DataFrame) -> pl.DataFrame:
    """Add `seconds` to parts, by their `unit`; null is milliseconds or seconds.

    The steps of a log take no longer than it took to write it.
    """
    scale = pl.col("unit").replace_strict(SECONDS, default=1.0)
    told = told.with_columns(seconds=pl.col("number") * scale)
    told = told.filter(pl.col("seconds") < MOMENT)
    seconds, own = pl.col("seconds"), ("rank", "source")
    bare = told.filter(pl.col("unit").is_null() & pl.col("kind").is_not_null())
    lines = bare.group_by(*own, "line").agg(seconds.max(), pl.col("t").first())
    took = (pl.col("t").max() - pl.col("t").min()).dt.total_milliseconds() / 1e3
    slow = lines.group_by(own).agg(
        is_ms=(seconds.sum() > LONGER * took).fill_null(value=False) & (took > 0)
    )
    told = told.join(slow, on=own, how="left", maintain_order="left")
    is_ms = pl.col("unit").is_null() & pl.col("is_ms").fill_null(value=False)
    ms = pl.when(is_ms).then(SECONDS["ms"]).otherwise(1.0)
    return told.with_columns(seconds * ms).drop("is_ms")


def _in_lines(frames: Frames) -> pl.DataFrame:
    """Return KEPT of the lines that a rank prints itself."""
    lines = frames.message(LINES)
    if "text" not in lines.columns:
        return pl.DataFrame(schema=dict.fromkeys(KEPT))
    lines = with_nulls(lines, {"step": pl.Int64(), "host": pl.String(), "t": TIME})
    text = pl.col("text")
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
            pl.col("host").alias("told_host"),
            in_ms=text.str.contains("(ms)", literal=True),
            pair=text.str.extract_all(_PAIR),
        )
        .explode("pair")
        .drop_nulls("pair")
        .with_columns(
            raw=pair.field("1"), number=pair.field("2"), after=pair.field("3")
        )
        .filter(~_counts_steps())
        .with_columns(
            pl.col("number").cast(pl.Float64),
            unit=pl.coalesce(
                "after",
                pl.col("raw").str.extract(r"[_(](m?s)\)?$"),
                pl.when("in_ms").then(pl.lit("ms")),
            ),
        )
        .select(KEPT)
    )


def _counts_steps() -> pl.Expr:
    """Whether a pair is the number of the step: DeepSpeed's `step: 50.1` is a time."""
    is_step = pl.col("number").cast(pl.Int64, strict=False) == pl.col("step")
    return (pl.col("raw").str.contains(COUNTER) & is_step).fill_null(False)


def _in_blocks(frames: Frames) -> pl.DataFrame:
    """Return KEPT of Megatron's lists of ranks; the line of a list is its step."""
    lists = frames.message(BLOCKS)
    if "timer" not in lists.columns:
        return pl.DataFrame(schema=dict.fromkeys(KEPT))
    return lists.select(
        pl.col("of_rank").alias("rank"),
        "source",
        pl.col("line") + pl.col("below"),
        *(pl.col("line").alias(c) for c in ("record", "step")),
        t=pl.lit(None, TIME),
        told_host=pl.lit(None, pl.String),
        raw="timer",
        number=pl.col("took_us").cast(pl.Float64),
        unit=pl.lit("us"),
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
        .with_columns(raw=part.field("1"), unit=part.field("2"), number=part.field("3"))
        .with_columns(pl.col("number").str.extract_all(r"[\d.]+"))
        .with_columns(rank=pl.int_ranges(pl.col("number").list.len()))
        .explode("number", "rank")
        .with_columns(
            pl.col("number").cast(pl.Float64, strict=False),
            unit=pl.when(in_ms).then(pl.lit("ms")).otherwise(pl.lit("s")),
        )
        .select(KEPT)
    )
