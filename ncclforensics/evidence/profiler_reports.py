"""Who is slow by the reports that profilers write for each rank.

Lightning's has means over all calls of a part of the step, torch's the time of all
kernels. All ranks take equally long in all: whoever loads or computes longer is in its
backward, or in NCCL's kernels, for a shorter time, where the others wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.timing import logged_forms, logged_time
from ncclforensics.correlate.timing.own_time import NAMED
from ncclforensics.evidence.told_stragglers import Told
from ncclforensics.model.step_parts import BACKWARD as BACKWARDS
from ncclforensics.model.step_parts import COMPUTE as COMPUTES
from ncclforensics.model.step_parts import DATA as LOADS
from ncclforensics.model.step_parts import WAITS as WAITS_FOR
from ncclforensics.model.step_parts import kinds, named
from ncclforensics.model.words import lasted, percent

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

REPORTED, KERNELS = "timers.lightning.profile", "timers.torch.profile"
DATA, FORWARD, BACKWARD = "train_dataloader_next", "training_step", "backward"
WHOLE = "run_training_batch"
# the process is numbered on its node, which tells the rank of a job of one node
FILE = r"-(\d{1,4})\.txt$"
RANKS, CALLS = 4, 16  # at least
APART = 3.0  # times as far above the next rank as the others are apart
WAITS = 0.5  # of what it works longer, the least that it waits less


def slowest(frames: Frames) -> Told | None:
    """Return the one rank that works longer than all others, or None."""
    return _by_lightning(frames) or _by_torch(frames) or _by_counters(frames)


def _by_lightning(frames: Frames) -> Told | None:
    lines = frames.message(REPORTED)
    if not {"action", "mean_s", "calls"} <= set(lines.columns):
        return None
    number = pl.col("source").str.extract(FILE).cast(pl.Int64)
    lines = lines.with_columns(rank=pl.coalesce("rank", number)).drop_nulls("rank")
    lines = lines.filter(pl.col("calls") >= CALLS)
    if lines.select(pl.struct("rank", "action").is_duplicated().any()).item():
        return None
    parts = lines.pivot("action", index="rank", values="mean_s")
    if not {DATA, FORWARD, BACKWARD, WHOLE} <= set(parts.columns):
        return None
    told = parts.drop_nulls().select(
        "rank",
        own=pl.col(DATA) + pl.col(FORWARD),
        reads=pl.col(DATA),
        waits=BACKWARD,
        whole=pl.col(DATA) + pl.col(WHOLE),
    )
    seen = logged_time.FORWARD
    return _standing_out(
        told, lines, "the reports of Lightning's profiler", "their backward", seen
    )


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
    return _standing_out(
        told, lines, "the reports of torch's profiler", "NCCL's kernels", 1.0
    )


def _by_counters(frames: Frames) -> Told | None:
    """Return the one by counters of Prometheus, of which a look or two are there."""
    lines = logged_forms.counters(frames).drop_nulls("rank")
    names = lines.select("raw").unique()
    names = names.with_columns(kind=kinds(named(pl.col("raw")))).drop_nulls("kind")
    number = pl.col("number")
    grown = pl.when(pl.len() > 1).then(number.max() - number.min())
    each = lines.group_by("rank", "raw").agg(grown.otherwise(number.max()).alias("s"))
    each = each.join(names, on="raw")
    told = each.group_by("rank").agg(
        *(
            pl.col("s").filter(pl.col("kind").is_in(some)).sum().alias(name)
            for name, some in (
                ("own", (LOADS, COMPUTES, BACKWARDS)),
                ("reads", (LOADS,)),
                ("waits", WAITS_FOR),
            )
        ),
        pl.col("s").sum().alias("whole"),
    )
    last = lines.unique("rank", keep="last", maintain_order=True)
    text = pl.format("{}: {} s so far", "raw", "number")
    return _standing_out(
        told, last.with_columns(text=text), "its counters", "their reductions", 1.0
    )


def _standing_out(
    told: pl.DataFrame, lines: pl.DataFrame, report: str, there: str, seen: float
) -> Told | None:
    """Return the rank that works longer and waits less than all others; or None.

    `told` has `rank own reads waits whole`, in seconds: `reads` is of its `own`. `seen`
    is the share of a rank's computing that its `own` tells.
    """
    own, waits, reads = (
        pl.col(c) - pl.col(c).median() for c in ("own", "waits", "reads")
    )
    whole = pl.col("whole").median()
    ranks = told.select(
        "rank",
        more=own / whole,
        less=-waits / whole,
        longer=own,
        reads=reads > own / 2,
    )
    if ranks.height < RANKS:
        return None
    ranks = ranks.sort("more", "rank", descending=[True, False])
    slow, rest = ranks.row(0, named=True), ranks[1:]["more"]
    spread = float(str(rest.max())) - float(str(rest.min()))
    least = NAMED * (1.0 if slow["reads"] else seen)
    if slow["more"] < least or slow["more"] - float(str(rest.max())) < APART * spread:
        return None
    if slow["less"] < WAITS * slow["more"]:
        return None
    what = "loads each batch" if slow["reads"] else "computes"
    how = (
        f"by {report} it {what} {lasted(slow['longer'])} longer than "
        f"the others, {percent(slow['more'])} of the time, and they wait for it in "
        f"{there}"
    )
    return Told(
        (slow["rank"],), how, True, lines.filter(pl.col("rank") == slow["rank"])
    )
