"""What happened to each rank, where only logs tell: last step and line, error, end."""

from __future__ import annotations

from signal import Signals
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.folding import fold_ranks
from ncclforensics.model.tables import FAILING

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

SCHEMA = {
    "rank": pl.Int64(),
    "step": pl.Int64(),
    "last": pl.Datetime("ns", "UTC"),
    "error": pl.String(),
    "ended": pl.String(),
    "is_behind": pl.Boolean(),
}
SIGNALS = {-int(number): number.name for number in Signals}
# the columns with the titles above them, and how wide a text may be
TITLES = {"step": "step", "last": "last line", "ended": "ended"}
MOST = {"step": 13, "last": 11, "ended": 8}


def outcomes(frames: Frames, steps: pl.DataFrame) -> pl.DataFrame:
    """Return SCHEMA, a row per rank that a line or an exit is of.

    `steps` are the lines that count steps, with `rank` and `step`, if there are any.
    `last` is the time of the last line that a grammar knows, `error` the first line
    that a healthy job does not print. A rank `is_behind` if it is more than a step
    behind the median.
    """
    events = frames["events"].drop_nulls("rank")
    own = events.filter(pl.col("role").ne_missing("agent"))
    failing = own.filter(pl.col("role").is_in(FAILING))
    code = pl.col("code")
    other = pl.lit("exit ") + code.cast(pl.String)
    ended = code.replace_strict(SIGNALS, default=other, return_dtype=pl.String)
    exits = frames["exits"].drop_nulls(["rank", "code"])
    if "step" not in steps.columns:
        steps = pl.DataFrame(schema={"rank": pl.Int64, "step": pl.Int64})
    found = [
        steps.drop_nulls("rank").group_by("rank").agg(pl.col("step").max()),
        own.group_by("rank").agg(pl.col("t").max().alias("last")),
        _first(failing, pl.col("text").alias("error")),
        _first(exits, ended.alias("ended")),
    ]
    ranks = pl.concat([part.select("rank") for part in found]).unique().sort("rank")
    for part in found:
        ranks = ranks.join(part, on="rank", how="left", maintain_order="left")
    step = pl.col("step")
    behind = (step < step.median() - 1).fill_null(False).alias("is_behind")
    made = ranks.with_columns(behind)
    return made.select(pl.col(c).cast(kind) for c, kind in SCHEMA.items())


def _first(rows: pl.DataFrame, value: pl.Expr) -> pl.DataFrame:
    """Return `rank` and a value of the first row of each rank."""
    ordered = rows.sort("t", "source", "line", nulls_last=True)
    return ordered.unique("rank", keep="first", maintain_order=True).select(
        "rank", value
    )


def told(rows: pl.DataFrame) -> dict[str, str]:
    """Return the text of each of TITLES for ranks that share a line."""
    steps = rows["step"].drop_nulls().unique().sort().to_list()
    ends = rows["ended"].drop_nulls().unique(maintain_order=True).to_list()
    return {
        "step": f"{steps[0]}-{steps[-1]}" if len(steps) > 1 else fold_ranks(steps),
        "last": _span(rows["last"].drop_nulls()),
        "ended": ends[0] if len(ends) == 1 else f"{len(ends)} ways" if ends else "",
    }


def widths(rows: pl.DataFrame) -> dict[str, int]:
    """Return how many characters each of TITLES takes, without those of no rank."""
    known = [c for c in TITLES if rows[c].null_count() < rows.height]
    digits = len(str(rows["step"].max() or 0))
    room = {**MOST, "step": min(2 * digits + 1, MOST["step"])}
    return {column: max(len(TITLES[column]), room[column]) for column in known}


def _span(times: pl.Series) -> str:
    """Return the time of day (UTC) of one or several lines, in up to 11 characters."""
    if times.is_empty():
        return ""
    first, last = map(str, times.sort().dt.strftime("%H:%M:%S").gather([0, -1]))
    if first == last:
        return first
    same = first[:5] == last[:5]
    return f"{first}-{last[6:]}" if same else f"{first[:5]}-{last[:5]}"
