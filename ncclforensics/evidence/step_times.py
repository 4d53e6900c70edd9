"""Whether a job slows down for good, from the times of its steps.

Steps that compile, save or evaluate take longer, and the next ones do not. In a
slowdown each step from one on takes twice the usual time, to the end of the log, with
batches of the same size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.tables import with_nulls

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

PARTS = "timers.step"  # may tell the time of the whole step, in its text
TIMED = ("launchers.megatron.iteration", "launchers.nemo.step", PARTS)
_WHOLE = (
    r"\b(?:dt|step[_ ]time|iter(?:ation)?_time|time/step|sec/it)(?: ?[=:] ?| )"
    r"(\d{1,9}(?:\.\d{1,9})?)(?: ?(ms)\b)?"
)
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


def slowdown(frames: Frames) -> Slowdown | None:
    """Return the first slowdown that lasts to the end of a log, or None."""
    timed = with_nulls(frames.message(*TIMED), CAPTURED)
    whole = pl.col("text").str.extract_groups(_WHOLE).struct
    in_ms = pl.when(whole.field("2").is_null()).then(1e3).otherwise(1.0)
    said = pl.when(pl.col("message") == PARTS).then(
        whole.field("1").cast(pl.Float64) * in_ms
    )
    timed = timed.with_columns(pl.coalesce("step_ms", pl.col("step_s") * 1e3, said))
    for log in timed.sort("source", "line").partition_by("source", maintain_order=True):
        steps = log.drop_nulls("step_ms")[WARM_UP:]
        if steps["batch"].n_unique() > 1:
            continue
        found = lasting(steps["step_ms"])
        if found is None:
            continue
        at, usual, slow = found
        lines = pl.concat([steps[at - 1 : at + 1], steps.tail(1)])
        return Slowdown(int(steps["step"][at]), usual, slow, lines)
    return None


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
