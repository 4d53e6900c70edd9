"""Late ranks of a whole analysis, in hung calls and in calls that went on; cached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.correlate.timing import late_arrivals
from ncclforensics.correlate.timing import resumed_calls as over
from ncclforensics.model.frames import remembered

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from ncclforensics.model.frames import Frames


@remembered
def latecomers(frames: Frames) -> pl.DataFrame:
    """Return the entries of ranks that came too late, with `call` and `after` (ms)."""
    return _asked(late_arrivals.late, frames, frames["calls"])


@remembered
def elsewhere(frames: Frames) -> pl.DataFrame:
    """Return the calls of absent ranks that were made when their peers timed out."""
    return _asked(late_arrivals.elsewhere, frames, frames["calls"])


@remembered
def resumed(frames: Frames) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the calls that went on after a rank came late, and these ranks' entries.

    The first frame has rows like `calls`, the second the columns of `latecomers`.
    """
    calls = over.calls(frames)
    late = _asked(late_arrivals.late, frames, calls)
    return calls.join(late, on="call", how="semi"), late


def _asked(
    question: Callable[[pl.DataFrame, pl.LazyFrame, pl.DataFrame], pl.DataFrame],
    frames: Frames,
    calls: pl.DataFrame,
) -> pl.DataFrame:
    """Return the answer to a question about calls; of logs alone there is none."""
    asked = calls if frames.has("collectives") else calls.clear()
    made = frames.scan("collectives")
    return question(asked, made, frames["group_names"])
