"""Who is slow by the reports that Lightning's profiler writes for each rank.

A report has means over all calls of a part of the step. All ranks take equally long in
all: whoever loads or computes longer is in its backward for a shorter time, where the
others wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.timing.own_time import NAMED
from ncclforensics.evidence.told_stragglers import Told
from ncclforensics.model.words import lasted, percent

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

REPORTED = "timers.lightning.profile"
DATA, FORWARD, BACKWARD = "train_dataloader_next", "training_step", "backward"
WHOLE = "run_training_batch"
# the process is numbered on its node, which tells the rank of a job of one node
FILE = r"-(\d{1,4})\.txt$"
RANKS, CALLS = 4, 16  # at least
APART = 3.0  # times as far above the next rank as the others are apart
WAITS = 0.5  # of what it works longer, the least that it waits less


def slowest(frames: Frames) -> Told | None:
    """Return the one rank that works longer than all others, or None."""
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
    own, whole = pl.col(DATA) + pl.col(FORWARD), pl.col(DATA) + pl.col(WHOLE)
    ranks = parts.drop_nulls().select(
        "rank",
        more=(own - own.median()) / whole.median(),
        less=(pl.col(BACKWARD).median() - pl.col(BACKWARD)) / whole.median(),
        longer=own - own.median(),
        reads=pl.col(DATA) - pl.col(DATA).median() > (own - own.median()) / 2,
    )
    if ranks.height < RANKS:
        return None
    ranks = ranks.sort("more", "rank", descending=[True, False])
    slow, rest = ranks.row(0, named=True), ranks[1:]["more"]
    spread = float(str(rest.max())) - float(str(rest.min()))
    if slow["more"] < NAMED or slow["more"] - float(str(rest.max())) < APART * spread:
        return None
    if slow["less"] < WAITS * slow["more"]:
        return None
    what = "loads each batch" if slow["reads"] else "computes"
    how = (
        f"by the reports of Lightning's profiler it {what} "
        f"{lasted(slow['longer'])} longer than the others, "
        f"{percent(slow['more'])} of a step, and they wait for it in their backward"
    )
    return Told(
        (slow["rank"],), how, True, lines.filter(pl.col("rank") == slow["rank"])
    )
