"""How much of each step a rank takes itself, as training loops log it on each rank.

The steps of all ranks take equally long, as they meet in each. What a rank takes to
load a batch, or to compute before it meets others, is its own: who is slow takes longer
there, in the same steps, and waits less than its peers where the log tells how long it
waits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.identity.world import MEGATRON
from ncclforensics.correlate.timing.logged_parts import parts
from ncclforensics.correlate.timing.own_time import MOST_SLICES, OwnTime
from ncclforensics.model.frames import remembered
from ncclforensics.model.step_parts import (
    BACKWARD,
    COMPUTE,
    DATA,
    OTHER,
    PHASE,
    UNSAID,
    WAIT,
    WAITS,
    WHOLE,
    is_backward,
)

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

ITERATION = "launchers.megatron.iteration"
FORWARD = 1 / 3  # of the computing of a step: a backward takes two matrix products
OUT = 2.0  # times as far above the others as any is below
AGAINST = -0.5  # correlation, from which on less than half of a part is its own
LEAST = 4  # steps; whether so few tell anything is for the test of chance


@remembered
def logged_time(frames: Frames) -> OwnTime | None:
    """Return the own time of ranks by their logs; None without a history of several.

    Of its `calls`, which are steps, `op` is the part in which the rank took longest
    against its peers, `kind` what that is (`model.step_parts`), and `typical` what the
    peers took for it, as share of the step. In `slices`, `own_otherwise` is all of the
    step but for the waits, where these are told apart.
    """
    told = parts(frames)
    if told is None:
        return None
    enough = told.filter(pl.len().over("rank", "name") >= LEAST)
    told = _with_work(_with_waits(enough)).with_columns(is_own=_is_own())
    own = _met(told.filter("is_own"))
    waits = _waits(told, own)
    both = own.join(waits, on="meets", how="semi")
    # the lines of a step may be cut: the first and last may lack some of its parts
    own = both if 2 * both.height > own.height else own
    beside = pl.col("kind").is_in((WHOLE, OTHER, UNSAID, *WAITS)) | _is_all_backward()
    whole = _whole(frames, told.filter(pl.col("is_own") | beside), own)
    if whole.height < LEAST:
        return None
    hidden = _computes_backward(told) and not _computes_backward(own)
    found = _history(own, waits, whole)
    found = replace(found, calls=_in_stages(frames, found.calls))
    return replace(found, seen=FORWARD) if hidden else found


def _in_stages(frames: Frames, calls: pl.DataFrame) -> pl.DataFrame:
    """Return calls with the stage of their ranks as `same`, null where none is told.

    Megatron's ranks of a stage are a block.
    """
    told = frames.message(MEGATRON)
    known = {"world_size", "stages"} <= {*told.columns}
    sizes = told.select("world_size", "stages").drop_nulls().unique() if known else told
    if sizes.height != 1:
        return calls.with_columns(same=pl.lit(None, pl.Int64))
    world, stages = sizes.row(0)
    return calls.with_columns(same=pl.col("rank") // max(world // stages, 1))


def _with_waits(told: pl.DataFrame) -> pl.DataFrame:
    """Call a part WAIT that is shorter where its rank works longer, whatever its name.

    All ranks leave a step together: who works longer than its peers waits less. What is
    called a load is compared with what the rank computes. The other way round, a part
    is work that is longer where its rank waits less, be it in a backward.
    """
    kind = pl.col("kind")
    load = _against(told, kind == DATA, kind == COMPUTE)
    works = kind.is_in((DATA, COMPUTE, PHASE))
    waits = load + _against(told, kind == UNSAID, works)
    told = _called(told, WAIT, waits)
    holds = kind.is_in((BACKWARD, *WAITS))
    told = _called(told, COMPUTE, _against(told, kind == UNSAID, holds))
    return _called(told, WAIT, _opposed(told))


def _opposed(told: pl.DataFrame) -> list[str]:
    """Return the names of parts that one rank waits in less than all others.

    Such a part is shorter where another of which nothing is told is longer.
    """
    unsaid = told.filter(pl.col("kind") == UNSAID)
    found = []
    for name in unsaid["name"].unique().sort():
        own = pl.col("name") == name
        seconds = unsaid.filter(own).group_by("rank").agg(pl.col("seconds").mean())
        below, above = seconds.select(
            pl.col("seconds").median() - pl.col("seconds").min(),
            above=pl.col("seconds").max() - pl.col("seconds").median(),
        ).row(0)
        if below > OUT * above and _against(unsaid, own, ~own):
            found.append(name)
    return found


def _called(told: pl.DataFrame, kind: str, names: list[str]) -> pl.DataFrame:
    """Return the parts with some `names` as those of a kind."""
    named = pl.when(pl.col("name").is_in(names)).then(pl.lit(kind))
    return told.with_columns(named.otherwise("kind").alias("kind"))


def _against(told: pl.DataFrame, vague: pl.Expr, known: pl.Expr) -> list[str]:
    """Return the names of `vague` parts that are shorter where `known` ones are longer.

    Compared with the other ranks, in the same steps.
    """
    step = ("step", "again")
    rest = told.filter(known).group_by("rank", *step).agg(rest=pl.col("seconds").sum())
    apart = [
        pl.col(c) - pl.col(c).median().over(*step, "name") for c in ("seconds", "rest")
    ]
    return (
        told.filter(vague)
        .join(rest, on=["rank", *step])
        .select("name", *apart)
        .group_by("name")
        .agg(pl.corr("seconds", "rest").alias("together"))
        .filter(pl.col("together") < AGAINST)["name"]
        .sort()
        .to_list()
    )


def _with_work(told: pl.DataFrame) -> pl.DataFrame:
    """Add `stands_out`: whether one rank spends more time at a part than all others.

    Such a rank is slow there: one that worked less than all others would wait more, but
    would do so alone of all. Only where nothing else tells what work is.
    """
    known = pl.col("kind").is_in((COMPUTE, BACKWARD, PHASE, *WAITS)).any()
    if told.select(known).item():
        return told.with_columns(stands_out=pl.lit(value=False))
    means = told.group_by("name", "rank").agg(pl.col("seconds").mean())
    apart = pl.col("seconds") - pl.col("seconds").median().over("name")
    out = (
        means.with_columns(apart)
        .group_by("name")
        .agg(stands_out=pl.col("seconds").max() > OUT * -pl.col("seconds").min())
    )
    told = told.join(out, on="name", how="left", maintain_order="left")
    vague = pl.col("kind").is_in((UNSAID, OTHER))
    return told.with_columns(pl.col("stands_out") & vague)


def _is_own() -> pl.Expr:
    """Whether parts are work of the rank alone.

    A backward is, where its reductions are told apart; a part of it tells more than
    all. A phase has the parts of a pipeline's step, and the waits between, if these are
    told.
    """
    kind, of = pl.col("kind"), "rank"
    apart = kind.is_in(WAITS).any().over(of) & ~_tells_inner()
    around = kind.is_in((COMPUTE, BACKWARD)).any().over(of)
    return (
        kind.is_in((DATA, COMPUTE))
        | (kind.is_in((BACKWARD, UNSAID, OTHER)) & apart)
        | (kind.is_in((UNSAID, OTHER)) & pl.col("stands_out"))
        | ((kind == PHASE) & ~around)
    )


def _is_all_backward() -> pl.Expr:
    """Whether parts are a backward, of which no other part tells some again."""
    return (pl.col("kind") == BACKWARD) & ~_tells_inner()


def _tells_inner() -> pl.Expr:
    """Whether a rank tells the computing of its backward as a part of its own."""
    inner = (pl.col("kind") == COMPUTE) & is_backward(pl.col("name"))
    return inner.any().over("rank")


def _computes_backward(told: pl.DataFrame) -> bool:
    is_compute = pl.col("kind").is_in((COMPUTE, BACKWARD, PHASE))
    return bool(told.select((is_compute & is_backward(pl.col("name"))).any()).item())


def _met(own: pl.DataFrame) -> pl.DataFrame:
    """Return the parts that all ranks tell of a step, with its number as `meets`."""
    ranks, step = own["rank"].n_unique(), ("step", "again")
    return own.filter(
        (pl.len().over(*step, "name") == ranks) & (pl.lit(ranks) > 1)
    ).with_columns(meets=pl.struct(step).rank("dense").cast(pl.Int64) - 1)


def _waits(told: pl.DataFrame, own: pl.DataFrame) -> pl.DataFrame:
    """Return `rank meets waits kinds`: seconds of waits, where all ranks tell them."""
    steps = own.select("step", "again", "meets").unique()
    waits = told.filter(pl.col("kind").is_in(WAITS)).join(steps, on=["step", "again"])
    each = waits.group_by("rank", "meets").agg(
        waits=pl.col("seconds").sum(), kinds=pl.col("kind").unique()
    )
    return each.filter(pl.len().over("meets") == own["rank"].n_unique())


def _history(met: pl.DataFrame, waits: pl.DataFrame, whole: pl.DataFrame) -> OwnTime:
    """Return the parts `met` of steps, which took `whole`, as a history."""
    many = whole.height
    usual = pl.col("seconds").median().over("meets", "name")
    hosts = pl.coalesce("host", pl.format("rank {}", "rank")).rank("dense") - 1
    calls = (
        met.with_columns(above=pl.col("seconds") - usual, usual=usual)
        .join(whole, on="meets")
        .sort("meets", "rank", "above", "name", descending=[False, False, True, False])
        .group_by("meets", "rank", maintain_order=True)
        .agg(
            pl.col("seconds").sum().alias("own"),
            pl.col("kind").first(),
            pl.col("raw").first().alias("op"),
            (pl.col("usual") / pl.col("whole")).first().alias("typical"),
            pl.col("source", "line", "host", "whole").first(),
        )
        .join(waits, on=["rank", "meets"], how="left", maintain_order="left")
    )
    # a rank that tells no waits is not compared with those that do
    all_tell = not calls["waits"].null_count()
    own, took, waited = (pl.col(c) for c in ("own", "whole", "waits"))
    # parts that fill the step without its waits hold these: no time passes twice
    if all_tell and calls.select((2 * (own - took) + waited).sum() > 0).item():
        calls = calls.with_columns(own=own - waited)
    calls = (
        calls.with_columns(
            slice=pl.col("meets").rank("dense").cast(pl.Int64) - 1,
            late=pl.col("own") - pl.col("own").median().over("meets"),
        )
        .with_columns(pl.col("slice") * min(many, MOST_SLICES) // many)
        .with_columns(
            clock=hosts,
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
    rest = took - waited if all_tell else own
    seconds = float(calls.unique("meets")["whole"].sum())
    length = seconds / calls["slice"].n_unique()
    slices = calls.group_by("rank", "slice").agg(
        own=own.sum() / length, own_otherwise=rest.sum() / length
    )
    return OwnTime(
        slices.sort("rank", "slice"),
        calls.drop("waits", "kinds"),
        seconds,
        timed=True,
        logged=True,
        waits=frozenset(waits["kinds"].explode()) if all_tell else frozenset(),
    )


def _whole(frames: Frames, told: pl.DataFrame, met: pl.DataFrame) -> pl.DataFrame:
    """Return `meets whole`: the seconds of each step.

    As the lines tell, or Megatron's line before a list; else all parts together, if
    what a rank computes is one of them; else the time from line to line.
    """
    at = met.select("meets", "step", "again").unique()
    beside = told.join(at, on=["step", "again"])
    kind, seconds = pl.col("kind"), pl.col("seconds")
    works = kind.is_in((COMPUTE, BACKWARD, PHASE, *WAITS))
    by_rank = beside.group_by("meets", "rank").agg(
        seconds.filter(kind == WHOLE).max().alias("said"),
        pl.when((works | pl.col("stands_out")).any())
        .then(seconds.filter(kind != WHOLE).sum())
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
    whole = whole.join(_between_lines(met), on="meets", how="left")
    whole = whole.select("meets", whole=pl.coalesce("said", "sum", "between"))
    return whole.filter(pl.col("whole") > 0)


def _between_lines(met: pl.DataFrame) -> pl.DataFrame:
    """Return `meets between`: seconds a step, by the times of a rank's lines."""
    lines = met.unique(["rank", "meets"]).sort("rank", "meets")
    passed, steps = (pl.col(c).diff().over("rank") for c in ("t", "step"))
    seconds = passed.dt.total_microseconds() / 1e6 / pl.when(steps > 0).then(steps)
    each = lines.select("meets", between=seconds).drop_nulls()
    told = each.group_by("meets").agg(pl.col("between").median())
    usual = pl.lit(told["between"].median(), pl.Float64)  # of what has no line before
    every = lines.select("meets").unique().join(told, on="meets", how="left")
    return every.with_columns(pl.coalesce("between", usual))
