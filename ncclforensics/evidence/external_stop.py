"""When somebody outside stopped the job, and whether it had failed before.

A scheduler's cancel, a notice that the machine is taken back, a signal to the launcher:
what comes after is teardown and accuses nobody. But a job that hangs is cancelled in
the end, too; where it had failed or hung before, the stop is no cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.tables import TIME

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

STOPS = (
    "slurm.cancelled",
    "torchelastic.signalled",
    "torchelastic.signalled.raised",
    "launchers.deepspeed.told",
    "launchers.pbs.walltime",
    "launchers.lsf.runlimit",
)
# programs that see the machine and not the job: their lines are no sign that it failed
OUTSIDE = r"^(?:kernel|nvidia|slurm|cloud|launchers\.kubernetes)\."
TEARDOWN_NS = 600_000_000_000  # what a job prints while it is stopped comes within that
HUNG_NS = 60_000_000_000  # an open call this long before the stop hung


def lines(
    frames: Frames, messages: tuple[str, ...], cause: str, state: str
) -> pl.DataFrame:
    """Return the lines of `messages` that tell one kind of stop.

    Slurm prints one message for every kind and names it: `cause` in the line of a
    cancelled job, `state` in that of its accounting. The other messages are one kind.
    """
    found = slurm_time(frames.message(*messages))
    told = [
        pl.col(column) == word
        for column, word in (("cause", cause), ("state", state))
        if column in found.columns
    ]
    other = ~pl.col("message").is_in(["slurm.cancelled", "slurm.state"])
    return found.filter(pl.any_horizontal(*told, other).fill_null(False))


def slurm_time(lines: pl.DataFrame) -> pl.DataFrame:
    """Take the time that Slurm writes into its message for `t`, where `t` is null."""
    if "when" not in lines.columns:
        return lines
    when = pl.col("when").str.to_datetime(
        "%Y-%m-%dT%H:%M:%S", time_unit="ns", time_zone="UTC", strict=False
    )
    return lines.with_columns(pl.coalesce("t", when).cast(TIME).alias("t"))


def after_stop(frames: Frames, rows: pl.DataFrame) -> pl.Series:
    """Say of each row, by its `source` and `line`, whether it stands behind a stop."""
    first = (
        frames.message(*STOPS)
        .group_by("source")
        .agg(pl.col("line").min().alias("stopped"))
    )
    joined = rows.select("source", "line").join(
        first, on="source", how="left", maintain_order="left"
    )
    return (joined["line"] > joined["stopped"]).fill_null(False)


def failed_before(frames: Frames, stop: pl.DataFrame) -> pl.DataFrame:
    """Return the lines and calls that show that the job failed before `stop`.

    `stop` holds the lines that tell of it, with `source`, `line` and `t`. Lines of
    another file count only where their time says that they came before; of lines in the
    same file, which several writers share, time also says which came after. Returns
    `text`, `source` and `line`.
    """
    signs = frames["events"].filter(
        pl.col("role").is_in(["culprit", "victim"])
        & ~pl.col("message").str.contains(OUTSIDE)
        & (pl.col("attempt").fill_null(0) == (pl.col("attempt").max().fill_null(0)))
    )
    first = stop.group_by("source").agg(pl.col("line").min().alias("stopped"))
    beside = signs.join(first, on="source", how="left", maintain_order="left")
    when = stop["t"].min()
    early = pl.col("line") < pl.col("stopped")
    if when is not None:
        # a line without a time is no older than what its process said before it
        told = pl.col("t").forward_fill().over("source", "rank", order_by="line")
        since = told - pl.lit(when).cast(TIME)
        after = since.is_between(pl.duration(), pl.duration(nanoseconds=TEARDOWN_NS))
        early = early & ~after.fill_null(False)
        hung = pl.lit(when).cast(TIME) - pl.duration(nanoseconds=HUNG_NS)
        early = (
            pl.when(pl.col("stopped").is_null())
            .then(pl.col("t") < hung)
            .otherwise(early)
        )
    calls = frames["calls"].filter(pl.col("waiting").list.len() > 0)
    if when is not None:
        calls = calls.filter(pl.col("t").is_null() | (pl.col("t") < hung))
    words = pl.lit("a call that its members never finished").alias("text")
    return pl.concat(
        [
            beside.filter(early.fill_null(False)).select("text", "source", "line"),
            calls.select(words, "source", "line"),
        ]
    )
