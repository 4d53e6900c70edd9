"""The parts of steps as training loops log them on each rank, one row a part.

Numbers without a unit are seconds, or milliseconds where the log as a whole took no
such time, or tells none and a part would be LONG.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.steps.regular_form import MOMENT
from ncclforensics.correlate.timing import logged_forms
from ncclforensics.model.frames import needing, remembered
from ncclforensics.model.step_parts import (
    DATA,
    OTHER,
    STEP,
    UNSAID,
    WHOLE,
    kinds,
    named,
)

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
MOMENTS = 1e10  # and one that is larger counts something else
LEAST = 3  # times of day in a record, the first of which begins it
MOSTLY = 0.5  # share of the steps
SEVERAL = 2  # parts
NEARLY = 0.8  # of a step are its parts
LONG = 60.0  # seconds
LONGER = 10.0  # times the time of its log, that steps in seconds cannot take
MICRO = "_microstep"  # DeepSpeed's, of each batch; its line of a step has plain names


@remembered
@needing(*logged_forms.SPOKEN, otherwise=None)
def parts(frames: Frames) -> pl.DataFrame | None:
    """Return `rank source line step again t raw name kind seconds host`, a row a part.

    A rank may print into several files: the one with most lines is taken. `again`
    numbers the lines of one step, as each epoch counts from 0. A line without a step
    is of the last one that its rank told, if all ranks tell some. Megatron loads its
    batch within forward-compute, which is told without it, if it is never shorter.
    """
    read = logged_forms.numbers(frames)
    if read.is_empty():
        return None
    told = _in_seconds(_with_kinds(_from_moments(read)))
    by_log = told.group_by("rank", "log").len()
    best = by_log.sort("rank", "len", "log", descending=[False, True, False])
    told = told.join(best.unique("rank", keep="first"), on=["rank", "log"], how="semi")
    is_plain = pl.col("name") == pl.col("plain")
    both_told = pl.col("name").n_unique().over("rank", "plain") > 1
    told = _with_whole(told.drop_nulls("kind").filter(is_plain | ~both_told))
    hosts = frames["ranks"].select("rank", "host").unique("rank", keep="first")
    name, seconds = pl.col("plain"), pl.col("seconds")
    batch = seconds.filter(name == "batch_generator").first().over("rank", "record")
    forward = name == "forward_compute"
    # of a rank that prints no number of a step the place of its line tells
    counts = pl.col("step").is_not_null().any().over("rank")
    all_count = pl.lit(bool(told.select(counts.all()).item()))
    holds = (~forward | (seconds >= batch)).fill_null(value=True).all()  # what it loads
    return (
        told.unique(["rank", "record", "plain"], keep="first", maintain_order=True)
        .with_columns(
            name="plain",
            seconds=pl.when(forward & holds)
            .then(seconds - batch.fill_null(0.0))
            .otherwise(seconds),
        )
        .sort("rank", "record", maintain_order=True)
        .with_columns(pl.when(all_count).then("step").forward_fill().over("rank"))
        .with_columns(pl.col("step").fill_null(-1))
        .with_columns(again=pl.int_range(pl.len()).over("rank", "step", "name"))
        .join(hosts, on="rank", how="left", maintain_order="left")
        .with_columns(pl.coalesce("host", "told_host").alias("host"))
        .drop("plain", "told_host", "record", "number", "unit", "log")
    )


def _from_moments(told: pl.DataFrame) -> pl.DataFrame:
    """Return numbers in which times of day are how long it took up to each of them.

    `t_begin=1790000000.25 t_batch=1790000000.31` ends the loading of a batch.
    """
    is_moment = pl.col("number").is_between(MOMENT, MOMENTS)
    of = ("rank", "log", "record")
    moments = told.filter(is_moment)
    several = moments.filter(pl.col("raw").n_unique().over(of) >= LEAST)
    if several.is_empty():
        return told
    took = several.with_columns(
        pl.col("raw").str.replace(r"(?i)_?(?:end|done|ready)$", ""),
        pl.col("number").diff().over(of),
        unit=pl.lit("s"),
    ).filter(pl.col("number") >= 0)
    loaded = pl.col("raw").str.contains(r"(?i)^(?:t_)?(?:batch|data|inputs?)$")
    took = took.with_columns(
        pl.when(loaded).then(pl.lit(DATA)).otherwise("raw").alias("raw")
    )
    return pl.concat([told.filter(~is_moment), took])


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
    # `clock/forward`, `clock/backward`: what else is below `clock` is a time as well
    known = ~pl.col("kind").is_in((WHOLE, UNSAID))
    below = pl.col("raw").str.extract(r"^(.+)[/.]")
    are_times = below.is_not_null() & (known.sum() >= SEVERAL).over(below)
    timed = pl.when(are_times).then(pl.col("name", "plain") + "_time")
    names = names.with_columns(timed.otherwise(pl.col("name", "plain")))
    return told.join(names, on="raw", how="left", maintain_order="left")


def _with_whole(told: pl.DataFrame) -> pl.DataFrame:
    """Call a part WHOLE that is as long as all else that is told of its step.

    `step` is the optimizer's part in some logs, and the whole step in others. A part
    whose name tells nothing is the sum of SEVERAL others, nearly.
    """
    kind, of = pl.col("kind"), ("rank", "log", "record")
    seconds, is_part = pl.col("seconds"), ~kind.is_in((WHOLE, OTHER))
    told = told.with_columns(
        others=seconds.filter(is_part).sum().over(of),
        many=is_part.sum().over(of),
        longest=seconds.filter(is_part).max().over(of),
    )  # one window is not read within another
    is_step = (kind == OTHER) & pl.col("plain").str.contains(STEP)
    is_all = (pl.col("others") > 0) & (seconds >= pl.col("others"))
    rest = pl.col("others") - seconds
    is_sum = (pl.col("many") > SEVERAL) & rest.is_between(NEARLY * seconds, seconds)
    # one that is as long as two others on some ranks is no sum
    told = told.with_columns(sums=is_sum.mean().over("plain", "rank"))
    is_whole = (is_step & (is_all.mean().over("plain") > MOSTLY)) | (
        (kind == UNSAID) & (pl.col("sums").min().over("plain") > MOSTLY)
    )
    # what is called a step and shorter than one of its parts is another part
    is_less = (kind == WHOLE) & (
        (seconds < pl.col("longest")).mean().over("plain") > MOSTLY
    )
    return told.with_columns(
        kind=pl.when(is_whole)
        .then(pl.lit(WHOLE))
        .when(is_less)
        .then(pl.lit(UNSAID))
        .otherwise("kind")
    ).drop("others", "many", "longest", "sums")


def _marked(told: pl.DataFrame) -> pl.DataFrame:
    """Return the times of logs that mark them as such, by a unit or `_time`; else all.

    A number beside several of them that is not marked counts something else.
    """
    is_marked = _is_marked()
    is_part = ~pl.col("kind").is_in((WHOLE, UNSAID))
    many = pl.col("name").filter(is_marked & is_part).n_unique().over("rank", "log")
    return told.filter(is_marked | (many < SEVERAL) | pl.col("kind").is_null())


def _is_marked() -> pl.Expr:
    """Whether numbers are marked as times, by a unit or by their name."""
    return pl.col("unit").is_not_null() | pl.col("name").str.ends_with("_time")


def _in_seconds(told: pl.DataFrame) -> pl.DataFrame:
    """Add `seconds` to parts, by their `unit`; null is milliseconds or seconds.

    The steps of a log take no longer than it took to write it. What has neither a known
    name nor a unit is a time if it makes up the time of the step, with all others.
    """
    scale = pl.col("unit").replace_strict(SECONDS, default=1.0)
    told = told.with_columns(seconds=pl.col("number") * scale)
    told = _marked(told.filter(pl.col("seconds") < MOMENT))
    seconds, own = pl.col("seconds"), ("rank", "log")
    is_bare = pl.col("unit").is_null()
    nameless = ~_is_marked() & (pl.col("kind") == UNSAID)
    bare = told.filter(is_bare & ~nameless & pl.col("kind").is_not_null())
    lines = bare.group_by(*own, "line").agg(seconds.max(), pl.col("t").first())
    took = (pl.col("t").max() - pl.col("t").min()).dt.total_milliseconds() / 1e3
    slow = lines.group_by(own).agg(
        is_ms=pl.when(took > 0)
        .then(seconds.sum() > LONGER * took)
        .otherwise(seconds.max() > LONG)
    )
    told = told.join(slow, on=own, how="left", maintain_order="left")
    is_ms = is_bare & pl.col("is_ms").fill_null(value=False)
    ms = pl.when(is_ms).then(SECONDS["ms"]).otherwise(1.0)
    told = told.with_columns(seconds * ms, nameless=nameless).drop("is_ms")
    of, is_whole = (*own, "record"), pl.col("kind") == WHOLE
    parts = seconds.filter(~is_whole).sum().over(of)
    rest = (seconds.filter(is_whole).max().over(of) - parts) / parts
    adds_up = (rest.abs() < 1 - NEARLY).mean().over(own) > MOSTLY
    return told.filter(~pl.col("nameless") | adds_up.fill_null(value=False)).drop(
        "nameless"
    )
