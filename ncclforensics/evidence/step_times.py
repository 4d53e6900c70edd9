"""Whether a job slows down for good, from the times of its steps.

Steps that compile, save or evaluate take longer, and the next ones do not. In a
slowdown each step from one on takes twice the usual time, to the end of the log, with
batches of the same size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

TIMED = "launchers.megatron.iteration"
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
    timed = frames.message(TIMED)
    if not {"step_ms", "batch"} <= set(timed.columns):
        return None
    for log in timed.sort("source", "line").partition_by("source", maintain_order=True):
        steps = log.drop_nulls("step_ms")[WARM_UP:]
        if steps.height < 2 * LEAST or steps["batch"].n_unique() > 1:
            continue
        usual = float(str(steps["step_ms"].quantile(0.25)))
        is_usual = steps["step_ms"] < USUAL * usual
        last = int(str(is_usual.arg_true().max()))
        before, after = steps[: last + 1], steps[last + 1 :]
        if before.height < LEAST or after.height < LEAST:
            continue
        slow = float(str(after["step_ms"].median()))
        if slow < SLOWER * usual or is_usual[: last + 1].mean() < STEADY:  # type: ignore[operator]
            continue
        lines = pl.concat([before.tail(1), after.head(1), after.tail(1)])
        return Slowdown(int(after["step"][0]), usual, slow, lines)
    return None
