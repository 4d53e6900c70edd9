"""Parts of steps between the marks that a loop of one's own prints, by their times.

`step 7: forward done` ends a part, `entering all_reduce` begins one; what lies between
an end and such a beginning is work. All of it is on the clock of the rank's own host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.steps import regular_forms
from ncclforensics.model.step_parts import COMPUTE, DATA
from ncclforensics.model.tables import TIME

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

_PART = (
    r"(batch|data|inputs?|forward|fwd|backward|bwd|all[_-]?reduce|grad_sync|barrier"
    r"|optimizer|opt|step|gradients|grads)"
)
_ENDS = (
    rf"(?i)\b{_PART}(?:[ _]step)?[ _]"
    r"(?:done|ready|loaded|fetched|on device|end|finished|returned|leave"
    r"|reduced|synced|averaged)\b",
    r"(?i)\b(step)[ =:]*\d+ end\b",
    rf"(?i)\b(?:left|leav(?:e|ing)|exit(?:ing)?|after) {_PART}\b",
)
_BEGINS = (
    rf"(?i)\b{_PART}[ _](?:enter|start|begin)\b",
    rf"(?i)\b(?:entering|enter|before) {_PART}\b",
    r"(?i)\b(step)[ =:]*\d+ begin\b",
)
_LOADED = r"^(?i:batch|data|inputs?)$"
SHAPE = {
    **dict.fromkeys(("rank", "line", "record", "step"), pl.Int64()),
    **dict.fromkeys(("source", "told_host", "raw", "unit"), pl.String()),
    "t": TIME,
    "number": pl.Float64(),
}


def parts(frames: Frames) -> pl.DataFrame:
    """Return `rank source line record step t told_host raw number unit`, a row a part.

    `number` is in seconds. A mark counts where it follows the one that it follows most
    often: of a long log some lines are left out.
    """
    lines = regular_forms.marks(frames)
    if lines.is_empty():
        return pl.DataFrame(schema=SHAPE)
    ends, begins = (
        pl.coalesce(pl.col("text").str.extract(form) for form in forms)
        for forms in (_ENDS, _BEGINS)
    )
    # what no word tells is a part that ends there
    ends = pl.coalesce(ends, pl.when(begins.is_null()).then("words"))
    own = ("rank", "source")
    marks = (
        lines.select(
            *(*own, "line", "told_host", "t", "step", "at"),
            ends=pl.when(ends.str.contains(_LOADED)).then(pl.lit(DATA)).otherwise(ends),
            begins=begins,
        )
        .drop_nulls(["rank", "at", "step"])
        .sort(*own, "at", "line")
        .with_columns(mark=pl.struct("ends", "begins").hash(seed=0))
        .with_columns(
            *(
                pl.col(c).shift(1).over(own).name.prefix("last_")
                for c in ("at", "mark")
            ),
            last=pl.col("begins").shift(1).over(own),
            is_first=pl.col("step").ne_missing(pl.col("step").shift(1)).over(own),
        )
        .with_columns(turn=pl.col("is_first").cum_sum().over(own))
    )
    # of two that are as often, one and the same in every run
    usual = pl.col("last_mark").mode().min().over("mark")
    raw = pl.coalesce("ends", "last", pl.lit(COMPUTE))
    return (
        marks.filter(pl.col("last_mark") == usual)
        .with_columns(
            raw=raw,
            number=(pl.col("at") - pl.col("last_at")).dt.total_microseconds() / 1e6,
            record=pl.col("line").min().over(*own, "turn"),
            unit=pl.lit("s"),
        )
        .filter(pl.col("number") >= 0)
        .drop_nulls("raw")
        .select(
            *(*own, "line", "record", "step", "t", "raw", "number", "unit"),
            "told_host",
        )
    )
