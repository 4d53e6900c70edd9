"""Steps that the job made after a line, by the clock, in whatever log they stand.

All ranks of a job advance together: what one of them printed, the job survived if the
count of steps goes on afterwards. A count that begins again is of a restarted job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs import job
from ncclforensics.model.tables import TIME

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

MORE = 3  # new steps, or lines, after a line that prove that it was survived
CLOCKS = pl.duration(seconds=1)  # by which the clocks of hosts may differ


def survived(frames: Frames, lines: pl.DataFrame) -> pl.DataFrame:
    """Keep those of `lines` (`t`) after which MORE new steps were logged.

    Lines and steps without a time prove nothing, and neither does a step that comes
    again: the others still print the one that they had begun.
    """
    steps = job.steps_of_all(frames).drop_nulls("t").sort("t")
    if steps.is_empty() or lines.is_empty():
        return lines.clear()
    new = pl.col("step").is_first_distinct()
    steps = steps.with_columns(
        pl.col("step").cum_max().alias("before"),
        pl.col("step").cum_min(reverse=True).alias("least"),
        new.cast(pl.Int64).cum_sum(reverse=True).alias("more"),
    )
    rows = lines.with_row_index("_row")
    timed = rows.drop_nulls("t").select("_row", "t").sort("t")
    found = (
        timed.join_asof(steps.select("t", "before"), on="t")
        .with_columns((pl.col("t") + CLOCKS).cast(TIME))
        .join_asof(steps.select("t", "least", "more"), on="t", strategy="forward")
        .filter((pl.col("more") >= MORE) & (pl.col("least") >= pl.col("before")))
    )
    return rows.join(found, on="_row", how="semi", maintain_order="left").drop("_row")
