"""How much of each step a rank takes itself, as training loops log it on each rank.

The steps of all ranks take equally long, as they meet in each. What a rank takes to
load a batch, or to compute before it meets others, is its own: who is slow takes longer
there, in the same steps. Parts in which ranks wait for others (backward, optimizer,
communication) tell nothing. A unit matters only where a line mixes several.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.timing.own_time import MOST_SLICES, OwnTime
from ncclforensics.model.frames import remembered
from ncclforensics.model.tables import with_nulls

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

LINES, BLOCKS = "timers.step", "timers.megatron.ranks"
ITERATION = "launchers.megatron.iteration"
LEAST = 4  # steps; whether so few tell anything is for the test of chance
_PAIR = (
    r"([A-Za-z][A-Za-z_/.-]*(?: ?\((?:m?s|t)\))?)[\"']?"
    r"(?: {0,3}[:=] {0,3}| {1,12})(\d{1,9}(?:\.\d{1,9})?)(?: ?(ms|s)\b)?"
)
_RANK = r"(?i)\brank[\"']?\s{0,2}[:= ]\s{0,2}(\d{1,7})"
# names in lower case, with `_` between words; `_ms` and `_s` are read as `_time`
DATA = (
    r"^(?:time_(?:metrics_)?)?data(?:_?load(?:er|ing)?)?(?:_?(?:time|wait))?$"
    r"|^batch_generator$"
)
COMPUTE = (
    r"^(?:time_)?(?:fwd|forward|compute|fwd_bwd|forward_backward)"
    r"(?:_(?:microstep|compute|time))?$"
    r"|^backward_compute$"  # Megatron's, which reduces gradients apart from it
)
PHASE = r"^(?:time_)?(?:fwd_bwd|forward_backward)"
WHOLE = (
    r"^(?:time|total)$|^(?:train_)?(?:step|iter|iteration|batch|total|elapsed)_?time$"
    r"|^time_(?:metrics_)?(?:total|step|iter|iteration|end_to_end)(?:_time)?$"
)
# what a step has besides; `bwd_inner` and such are in others
OTHER = r"^(?:time_)?(?:bwd|backward|step|optimizer)(?:_microstep)?$"
COUNTER = r"(?i)^(?:global_?)?(?:step|iter|iteration|it)$"
KEPT = ("rank", "source", "line", "step", "raw", "name", "seconds")


@remembered
def logged_time(frames: Frames) -> OwnTime | None:
    """Return the own time of ranks by their logs; None without a history of several.

    Of its `calls`, which are steps, `op` is the part in which the rank took longest
    against its peers, `kind` its name as known here, and `typical` what the peers took
    for it, as share of the step.
    """
    told = _parts(frames)
    if told is None:
        return None
    name = pl.col("name")
    # around the parts of a pipeline's step, if these are told, and the waits between
    phase, part = name.str.contains(PHASE), name.str.contains(COMPUTE)
    around = phase & (part & ~phase).any().over("rank", "line")
    own = told.filter(name.str.contains(f"{DATA}|{COMPUTE}") & ~around)
    known = own.filter(pl.len().over("rank", "name") >= LEAST)
    ranks = known["rank"].n_unique()
    step = ("step", "again")
    met = known.filter(
        (pl.len().over(*step, "name") == ranks) & (pl.lit(ranks) > 1)
    ).with_columns(meets=pl.struct(step).rank("dense").cast(pl.Int64) - 1)
    whole = _whole(frames, told, met)
    if whole.height < LEAST:
        return None
    return _history(met, whole, whole.height)


def _history(met: pl.DataFrame, whole: pl.DataFrame, many: int) -> OwnTime:
    """Return the parts `met` of `many` steps, which took `whole`, as a history."""
    usual = pl.col("seconds").median().over("meets", "name")
    hosts = pl.coalesce("host", pl.format("rank {}", "rank")).rank("dense") - 1
    calls = (
        met.with_columns(above=pl.col("seconds") - usual, usual=usual)
        .join(whole, on="meets")
        .sort("meets", "rank", "above", "name", descending=[False, False, True, False])
        .group_by("meets", "rank", maintain_order=True)
        .agg(
            pl.col("seconds").sum().alias("own"),
            pl.col("name").first().alias("kind"),
            pl.col("raw").first().alias("op"),
            (pl.col("usual") / pl.col("whole")).first().alias("typical"),
            pl.col("source", "line", "host", "whole").first(),
        )
        .with_columns(
            slice=pl.col("meets").rank("dense").cast(pl.Int64) - 1,
            late=pl.col("own") - pl.col("own").median().over("meets"),
        )
        .with_columns(pl.col("slice") * min(many, MOST_SLICES) // many)
        .with_columns(
            clock=hosts,
            same=pl.lit(0),
            place="meets",
            blocks=pl.lit(True),
            counts=pl.lit(True),
            is_p2p=pl.lit(False),
            **{
                c: pl.lit(None, pl.String)
                for c in ("group", "pg", "pg_desc", "backend")
            },
            **{c: pl.lit(None, pl.Int64) for c in ("src", "dst", "record_id", "stack")},
        )
    )
    share = (pl.col("own").sum() / pl.col("whole").sum()).alias("own")
    slices = calls.group_by("rank", "slice").agg(share, share.alias("own_sending"))
    seconds = float(calls.unique("meets")["whole"].sum())
    return OwnTime(
        slices.sort("rank", "slice"), calls, seconds, timed=True, logged=True
    )


def _parts(frames: Frames) -> pl.DataFrame | None:
    """Return KEPT, `host` and `again`, a row a part of a step.

    A rank may print into several files: the one with most lines is taken. `again`
    numbers the lines of one step, as each epoch counts from 0. Megatron loads its batch
    within forward-compute, which is told without it.
    """
    parts = [told for told in (_in_lines(frames), _in_blocks(frames)) if told.height]
    if not parts:
        return None
    told = pl.concat(parts).drop_nulls(["rank", "seconds"])
    by_source = told.group_by("rank", "source").len()
    best = by_source.sort("rank", "len", "source", descending=[False, True, False])
    told = told.join(
        best.unique("rank", keep="first"), on=["rank", "source"], how="semi"
    )
    hosts = frames["ranks"].select("rank", "host").unique("rank", keep="first")
    name, seconds = pl.col("name"), pl.col("seconds")
    read = seconds.filter(name == "batch_generator").first().over("rank", "line")
    return (
        told.unique(["rank", "line", "name"], keep="first", maintain_order=True)
        .with_columns(
            seconds=pl.when(name == "forward_compute")
            .then((seconds - read.fill_null(0.0)).clip(0))
            .otherwise(seconds)
        )
        .sort("rank", "line", maintain_order=True)
        .with_columns(
            again=pl.int_range(pl.len()).over("rank", "step", "name"),
            step=pl.col("step").fill_null(-1),
        )
        .join(hosts, on="rank", how="left", maintain_order="left")
    )


def _in_lines(frames: Frames) -> pl.DataFrame:
    """Return KEPT of the lines that a rank prints itself."""
    lines = frames.message(LINES)
    if "text" not in lines.columns:
        return pl.DataFrame(schema=dict.fromkeys(KEPT))
    lines = with_nulls(lines, {"step": pl.Int64()})
    text = pl.col("text")
    stated = text.str.extract(_RANK).cast(pl.Int64, strict=False)
    # `[Rank 3]` of a line that is about no group; below an agent, a task is a node
    own = pl.when(pl.col("pg").is_null()).then("group_rank")
    agents = any(name.startswith("torchelastic.") for name in frames.messages)
    task = pl.when(pl.col("local_rank").is_null() & pl.lit(not agents)).then("task")
    pair = pl.col("pair").str.extract_groups(_PAIR).struct
    unit = pl.coalesce(
        pl.col("after"),
        pl.col("raw").str.extract(r"[_(](m?s)\)?$"),
        pl.when("in_ms").then(pl.lit("ms")),
    )
    return (
        lines.select(
            pl.coalesce(stated, "rank", own, task).alias("rank"),
            *("source", "line", "step"),
            text.str.contains("(ms)", literal=True).alias("in_ms"),
            pair=text.str.extract_all(_PAIR),
        )
        .explode("pair")
        .drop_nulls("pair")
        .with_columns(
            raw=pair.field("1"), seconds=pair.field("2"), after=pair.field("3")
        )
        .filter(~_counts_steps())
        .with_columns(
            _named(pl.col("raw").str.replace(r"_m?s$| ?\((?:m?s|t)\)$", "_time")).alias(
                "name"
            ),
            seconds=pl.col("seconds").cast(pl.Float64)
            * pl.when(unit == "ms").then(1e-3).otherwise(1.0),
        )
        .select(KEPT)
    )


def _counts_steps() -> pl.Expr:
    """Whether a pair is the number of the step: DeepSpeed's `step: 50.1` is a time."""
    number = pl.col("seconds").cast(pl.Int64, strict=False) == pl.col("step")
    return (pl.col("raw").str.contains(COUNTER) & number).fill_null(False)


def _in_blocks(frames: Frames) -> pl.DataFrame:
    """Return KEPT of Megatron's lists of ranks; the line of a list is its step."""
    lists = frames.message(BLOCKS)
    if "timer" not in lists.columns:
        return pl.DataFrame(schema=dict.fromkeys(KEPT))
    return lists.select(
        pl.col("of_rank").alias("rank"),
        *("source", "line"),
        pl.col("line").alias("step"),
        pl.col("timer").alias("raw"),
        _named(pl.col("timer")).alias("name"),
        (pl.col("took_us") / 1e6).alias("seconds"),
    )


def _named(name: pl.Expr) -> pl.Expr:
    return name.str.to_lowercase().str.replace_all(r"[^a-z]+", "_").str.strip_chars("_")


def _whole(frames: Frames, told: pl.DataFrame, met: pl.DataFrame) -> pl.DataFrame:
    """Return `meets whole`: the seconds of each step.

    As the lines tell, or Megatron's line before a list; else all parts together.
    """
    at = met.select("meets", "step", "again").unique()
    beside = told.join(at, on=["step", "again"])
    name, seconds = pl.col("name"), pl.col("seconds")
    by_rank = beside.group_by("meets", "rank").agg(
        seconds.filter(name.str.contains(WHOLE)).max().alias("said"),
        seconds.filter(name.str.contains(f"{DATA}|{COMPUTE}|{OTHER}"))
        .sum()
        .alias("sum"),
    )
    whole = by_rank.group_by("meets").agg(pl.col("said").median(), pl.col("sum").max())
    lines = frames.message(ITERATION)
    if "step_ms" in lines.columns:
        ends = lines.select("source", "line", took=pl.col("step_ms") / 1e3)
        first = met.unique("meets", keep="first").select("meets", "source", "line")
        before = first.sort("line").join_asof(
            ends.sort("line"), on="line", by="source", check_sortedness=False
        )
        whole = whole.join(before.select("meets", "took"), on="meets", how="left")
        whole = whole.with_columns(pl.coalesce("said", "took").alias("said"))
    whole = whole.select("meets", whole=pl.coalesce("said", "sum"))
    return whole.filter(pl.col("whole") > 0)
