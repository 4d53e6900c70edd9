"""When the job was stopped from outside, and whether it had failed before.

After a scheduler's cancel, a notice that the machine is taken back, or a signal to the
launcher, all that follows is teardown and is no evidence against a rank. But a job that
hangs is cancelled in the end, too: if it had failed or hung before, the stop is not the
cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import exceptions
from ncclforensics.model.tables import TIME

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

STOPS = (
    "slurm.cancelled",
    "torchelastic.signalled",
    "torchelastic.signalled.raised",
    "launchers.deepspeed.told",
    "launchers.pbs.walltime",
    *("launchers.lsf.runlimit", "launchers.lsf.preempted", "launchers.sge.wallclock"),
    *("launchers.flux.timeout", "launchers.flux.cancelled"),
)
# programs that report on the machine: their lines are no sign that the job failed
OUTSIDE = r"^(?:kernel|nvidia|slurm|cloud|launchers\.kubernetes)\."
# what a stop looks like to the ranks that it ends
ECHOES = (
    "crashed-rank",
    "missing-rank",
    "timeout-masking",
    "socket-error",
    "ib-error",
    "rendezvous-failed",
    "node-lost",
    "gil-deadlock",
    "straggler",
    "inconsistent-env",
)
ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
TEARDOWN_NS = 600_000_000_000  # a job that is stopped prints its last lines within this
HUNG_NS = 60_000_000_000  # a call open for this long before the stop was hung


def lines(
    frames: Frames, messages: tuple[str, ...], cause: str, state: str
) -> pl.DataFrame:
    """Return the lines of `messages` that report one kind of stop.

    Slurm prints one message for every kind and names it: `cause` in the line of a
    cancelled job, `state` in that of its accounting. The other messages are one kind
    each.
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
    """Fill null `t` with the time in Slurm's message, read as UTC.

    In a row of sacct that is the latest time: a job ends after it was submitted.
    """
    if lines.is_empty():
        return lines
    stamp = pl.col("text").str.extract_all(ISO).list.max()
    of_sacct = pl.col("message").str.starts_with("slurm.sacct.")
    told = pl.when(of_sacct).then(stamp).otherwise(None)
    if "when" in lines.columns:
        told = pl.coalesce("when", told)
    when = told.str.to_datetime(
        "%Y-%m-%dT%H:%M:%S", time_unit="ns", time_zone="UTC", strict=False
    )
    return lines.with_columns(pl.coalesce("t", when).cast(TIME).alias("t"))


def after_stop(frames: Frames, rows: pl.DataFrame) -> pl.Series:
    """Return for each row, by its `source` and `line`, whether it follows a stop."""
    stops = frames.message(*STOPS)
    if stops.is_empty():
        return pl.Series("line", [False]).new_from_index(0, rows.height)
    first = stops.group_by("source").agg(pl.col("line").min().alias("stopped"))
    joined = rows.select("source", "line").join(
        first, on="source", how="left", maintain_order="left"
    )
    return (joined["line"] > joined["stopped"]).fill_null(False)


def failed_before(frames: Frames, stop: pl.DataFrame) -> pl.DataFrame:
    """Return the lines and calls that show that the job failed before `stop`.

    `stop` holds the lines that report it, with `source`, `line` and `t`. Lines of
    another file count only if their time shows that they came before. In the same file,
    which several writers may share, time also shows which lines came after. Returns
    `text`, `source` and `line`.
    """
    signs = frames["events"].filter(
        pl.col("role").is_in(["culprit", "victim"])
        & ~pl.col("message").str.contains(OUTSIDE)
        & (pl.col("attempt").fill_null(0) == (pl.col("attempt").max().fill_null(0)))
    )
    raised = exceptions.uncaught(frames)
    own = raised.filter(~pl.col("echo").fill_null(value=True))
    places = ["text", "source", "line", "t", "rank"]
    signs = pl.concat([signs.select(places), own.select(places)])
    first = stop.group_by("source").agg(pl.col("line").min().alias("stopped"))
    beside = signs.join(first, on="source", how="left", maintain_order="left")
    when = stop["t"].min()
    early = pl.col("line") < pl.col("stopped")
    if when is not None:
        # a line without a time is no older than what its process printed before it
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
