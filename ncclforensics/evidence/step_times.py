"""Whether a job slows down for good, from the times of its steps.

Steps that compile, save or evaluate take longer, and the next ones do not. In a
slowdown each step from one on takes twice the usual time, to the end of the log, with
batches of the same size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.steps import regular_forms
from ncclforensics.correlate.timing.logged_parts import SECONDS
from ncclforensics.model.frames import remembered
from ncclforensics.model.step_parts import WHOLE, kinds, named
from ncclforensics.model.tables import with_nulls

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

TIMED = ("launchers.megatron.iteration", "launchers.nemo.step")
CAPTURED = {
    **dict.fromkeys(("step", "batch"), pl.Int64()),
    **dict.fromkeys(("step_ms", "step_s"), pl.Float64()),
}
SLOWER = 2.0  # factor over the usual step time
USUAL = 1.5  # factor up to which a step counts as usual
STEADY = 0.9  # share of the earlier steps that must be usual
LEAST = 8  # steps on each side
WARM_UP = 3  # first steps, which compile


@dataclass(frozen=True, slots=True)
class Slowdown:
    """The step from which on all take longer; times are milliseconds."""

    step: int
    before_ms: float
    after_ms: float
    lines: pl.DataFrame


@remembered
def slowdown(frames: Frames) -> Slowdown | None:
    """Return the first slowdown that lasts to the end of a log, or None."""
    timed = with_nulls(frames.message(*TIMED), CAPTURED)
    timed = timed.with_columns(pl.coalesce("step_ms", pl.col("step_s") * 1e3))
    kept = ("source", "rank", "line", "text", "t", "step", "batch", "step_ms")
    others = of_steps(frames).join(timed, on=["source", "line"], how="anti")
    both = pl.concat([timed.select(kept), others.select(kept)])
    log, time = ("source", "rank"), pl.col("step_ms")
    both = both.drop_nulls("step_ms").sort(*log, "line")
    both = both.filter(pl.int_range(pl.len()).over(log) >= WARM_UP)
    # of most logs, the last step shows that nothing lasts
    slow_end = time.last() >= USUAL * time.quantile(0.25)
    both = both.filter(slow_end.over(log))
    for steps in both.partition_by(log, maintain_order=True):
        if steps["batch"].n_unique() > 1:
            continue
        found = lasting(steps["step_ms"])
        if found is None:
            continue
        at, usual, slow = found
        lines = pl.concat([steps[at - 1 : at + 1], steps.tail(1)])
        return Slowdown(int(steps["step"][at]), usual, slow, lines)
    return None


def of_steps(frames: Frames) -> pl.DataFrame:
    """Return the lines that tell how long a step took, as those of TIMED."""
    told = regular_forms.numbers(frames)
    names = told.select("raw").unique()
    whole = names.filter(kinds(named(pl.col("raw"))) == WHOLE)
    scale = pl.col("unit").replace_strict(SECONDS, default=1.0)
    text = frames.message(regular_forms.LINES).select("source", "line", "text")
    return (
        told.join(whole, on="raw", how="semi")
        .unique(["source", "line"], keep="first", maintain_order=True)
        .join(text.unique(["source", "line"]), on=["source", "line"], how="left")
        .with_columns(
            step_ms=pl.col("number") * scale * 1e3, batch=pl.lit(None, pl.Int64)
        )
    )


def lasting(times: pl.Series) -> tuple[int, float, float] | None:
    """Return from where on times are longer to the end, what is usual, and what then.

    None if they are not, or if too few were before or after.
    """
    if times.len() < 2 * LEAST:
        return None
    usual = float(str(times.quantile(0.25)))
    is_usual = times < USUAL * usual
    at = int(str(is_usual.arg_true().max())) + 1
    if min(at, times.len() - at) < LEAST:
        return None
    slow = float(str(times[at:].median()))
    if slow < SLOWER * usual or is_usual[:at].mean() < STEADY:  # type: ignore[operator]
        return None
    return at, usual, slow
