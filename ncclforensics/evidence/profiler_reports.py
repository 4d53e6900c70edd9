"""Who is slow by the reports that profilers write for each rank.

Lightning's has means over all calls of a part of the step, torch's the time of all
kernels; counters, and tables with a row a rank, have totals of any parts. All ranks
take equally long in all: whoever loads or computes longer is in its backward, or in
NCCL's kernels, for a shorter time, where the others wait for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.steps import regular_forms
from ncclforensics.correlate.timing import logged_forms, logged_parts, logged_time
from ncclforensics.correlate.timing.own_time import NAMED
from ncclforensics.evidence import common, told_stragglers
from ncclforensics.evidence.told_stragglers import Told
from ncclforensics.model.step_parts import BACKWARD as BACKWARDS
from ncclforensics.model.step_parts import COMPUTE as COMPUTES
from ncclforensics.model.step_parts import DATA as LOADS
from ncclforensics.model.step_parts import OTHER, WHOLE, kinds, named
from ncclforensics.model.step_parts import WAITS as WAITS_FOR
from ncclforensics.model.words import lasted, percent

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

REPORTED, KERNELS = "timers.lightning.profile", "timers.torch.profile"
# the process is numbered on its node, which tells the rank of a job of one node
FILE = r"[-_](\d{1,4})\.txt$"
WORKS = (LOADS, COMPUTES, BACKWARDS)
RANKS, CALLS = 4, 16  # at least
APART = 3.0  # times as far above the next rank as the others are apart
WAITS = 0.5  # of what it works longer, the least that it waits less


def by_word(frames: Frames) -> Told | None:
    """Return whom any program reports as slow: a detector of stragglers, or these."""
    return told_stragglers.told(frames) or slowest(frames)


def slowest(frames: Frames) -> Told | None:
    """Return the rank, or the host, that works longer than all others; or None."""
    for of in (_by_lightning, _by_torch, _by_counters, _by_table):
        if (told := of(frames)) is not None:
            return told
    return None


def _by_lightning(frames: Frames) -> Told | None:
    lines = frames.message(REPORTED)
    if not {"action", "mean_s", "calls"} <= set(lines.columns):
        return None
    number = pl.col("source").str.extract(FILE).cast(pl.Int64)
    lines = lines.with_columns(rank=pl.coalesce("rank", number)).drop_nulls("rank")
    lines = lines.filter(pl.col("calls") >= CALLS)
    if lines.select("rank", "source").unique()["rank"].is_duplicated().any():
        return None
    # an action may hold others of its kind: `training_step` and `training_step.forward`
    action = pl.col("action").str.extract(r"([^.]+)$")
    used = (*WORKS, WHOLE)
    lines = (
        lines.with_columns(kind=kinds(named(action)))
        .filter(pl.col("kind").is_in(used))
        .sort("mean_s", "line", descending=True)
        .unique(["rank", "kind"], keep="first", maintain_order=True)
        .sort("source", "line")
    )
    parts = lines.pivot("kind", index="rank", values="mean_s")
    if not {*used} <= set(parts.columns):
        return None
    told = parts.drop_nulls(used).select(
        "rank",
        own=pl.col(LOADS) + pl.col(COMPUTES),
        reads=pl.col(LOADS),
        waits=BACKWARDS,
        whole=pl.col(LOADS) + pl.col(WHOLE),
    )
    seen = logged_time.FORWARD
    report = "the reports of Lightning's profiler"
    return _standing_out(frames, told, lines, report, "their backward", seen)


def _by_torch(frames: Frames) -> Told | None:
    lines = frames.message(KERNELS)
    if not {"kernels_us", "nccl_us"} <= set(lines.columns):
        return None
    lines = lines.drop_nulls(["rank", "nccl_us"])
    lines = lines.unique("rank", keep="last", maintain_order=True)
    own, waits = (pl.col(c) / 1e6 for c in ("kernels_us", "nccl_us"))
    told = lines.select(
        "rank", own=own, reads=pl.lit(0.0), waits=waits, whole=own + waits
    )
    report = "the reports of torch's profiler"
    return _standing_out(frames, told, lines, report, "NCCL's kernels")


def _by_counters(frames: Frames) -> Told | None:
    """Return the one by counters of Prometheus, of which a look or two are there."""
    lines = logged_forms.counters(frames).drop_nulls("rank")
    number, of = pl.col("number"), ("rank", "raw")
    grown = pl.when(pl.len().over(of) > 1).then((number.max() - number.min()).over(of))
    took = grown.otherwise(number)
    each = lines.with_columns(took=took).unique(of, keep="last")
    told = _totals(_with_kinds(each))
    last = lines.unique("rank", keep="last", maintain_order=True)
    text = pl.format("{}: {} s so far", "raw", "number")
    last = last.with_columns(text=text)
    return _standing_out(frames, told, last, "its counters", "their reductions")


def _by_table(frames: Frames) -> Told | None:
    """Return the one by a table with a row a rank, as of all that a profiler saw.

    It may be of one step alone, which may be long on any rank: that is not sure.
    """
    lines = regular_forms.numbers(frames).drop_nulls("rank")
    lines = lines.filter((pl.len() == 1).over("rank", "raw"))
    scale = pl.col("unit").replace_strict(logged_parts.SECONDS, default=1.0)
    lines = _with_kinds(lines.with_columns(took=pl.col("number") * scale))
    works = lines.filter(pl.col("kind").is_in(WORKS))
    most = works.sort("took", "line", descending=[True, False])
    most = most.unique("rank", keep="first", maintain_order=True)
    most = most.with_columns(text=pl.format("{}: {}", "raw", "number"))
    waits = lines.filter(pl.col("kind").is_in(WAITS_FOR))["raw"].unique().sort()
    report, there = "a table of the ranks", ", ".join(waits)
    told = _standing_out(frames, _totals(lines), most, report, there)
    return replace(told, sure=False) if told else None


def _with_kinds(lines: pl.DataFrame) -> pl.DataFrame:
    """Add `kind`, what the part that `raw` names is, without what is none."""
    names = lines.select("raw").unique()
    names = names.with_columns(kind=kinds(named(pl.col("raw")))).drop_nulls("kind")
    return lines.join(names, on="raw", maintain_order="left")


def _totals(lines: pl.DataFrame) -> pl.DataFrame:
    """Return `rank own reads waits whole`, the sums of `took`, by their `kind`.

    What is told as a whole is all; else what a rank does and waits.
    """
    took, kind = pl.col("took"), pl.col("kind")
    parts = {
        "own": WORKS,
        "reads": (LOADS,),
        "waits": WAITS_FOR,
        "rest": (OTHER,),
    }
    sums = (took.filter(kind.is_in(some)).sum().alias(c) for c, some in parts.items())
    said = took.filter(kind == WHOLE).max()
    whole = pl.coalesce("said", pl.col("own") + pl.col("waits") + pl.col("rest"))
    told = lines.group_by("rank").agg(*sums, said=said)
    return told.select("rank", "own", "reads", "waits", whole=whole)


def _standing_out(
    frames: Frames,
    told: pl.DataFrame,
    lines: pl.DataFrame,
    report: str,
    there: str,
    seen: float = 1.0,
) -> Told | None:
    """Return who works longer and waits less than all others: a rank, or all of a host.

    `told` has `rank own reads waits whole`, in seconds: `reads` is of its `own`. `seen`
    is the share of a rank's computing that its `own` tells. They are those above the
    widest gap between the ranks.
    """
    own, waits, reads = (
        pl.col(c) - pl.col(c).median() for c in ("own", "waits", "reads")
    )
    whole = pl.col("whole").median()
    ranks = told.filter(pl.col("whole") > 0).select(
        "rank",
        more=own / whole,
        less=-waits / whole,
        longer=own,
        reads=reads > own / 2,
    )
    if ranks.height < RANKS:
        return None
    ranks = ranks.sort("more", "rank", descending=[True, False])
    gaps = (ranks["more"] - ranks["more"].shift(-1)).head(ranks.height // 2)
    many = (gaps.arg_max() or 0) + 1
    slow, rest = ranks[:many], ranks[many:]["more"]
    who = tuple(slow["rank"].sort())
    hosts = common.hosts_of(frames, who)
    if many > 1 and (len(hosts) != 1 or who != common.ranks_on(frames, hosts)):
        return None
    spread = float(str(rest.max())) - float(str(rest.min()))
    more, less, longer = (
        float(str(slow[c].mean())) for c in ("more", "less", "longer")
    )
    loads = bool(slow["reads"].all())
    least = NAMED * (1.0 if loads else seen)
    gap = float(str(slow["more"].min())) - float(str(rest.max()))
    if more < least or gap < APART * spread or less < WAITS * more:
        return None
    one = many == 1
    what = (
        ("loads each batch" if one else "load each batch")
        if loads
        else ("computes" if one else "compute")
    )
    how = (
        f"by {report} {'it' if one else 'they'} {what} {lasted(longer)} longer than "
        f"the others, {percent(more)} of the time, and {'they' if one else 'those'} "
        f"wait for {'it' if one else 'them'} in {there}"
    )
    return Told(who, how, True, lines.filter(pl.col("rank").is_in(who)))
