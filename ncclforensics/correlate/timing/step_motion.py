"""Training steps that a job logged after, or between, looks at its processes.

The time of a look is that of its file, and the times of log lines may be of another
zone. They are of one clock if a log was last written when its last line was: a copy, or
a log in another zone, differs. A step without a time was made after the last line above
that has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs import finished, job
from ncclforensics.correlate.timing import dump_mtime
from ncclforensics.correlate.traces import call_sites, call_summary, process_stacks
from ncclforensics.model.frames import remembered

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

LEAST = 2  # later steps needed, as one line may have left its buffer late
PAUSE = 2  # times the longest pause between other steps
CLOCKS = pl.duration(seconds=1)  # by which a process's clocks may differ
# a function of the training, in the lines of a `way`
TRAINS = r"(?m)^(?:.*[._])?(?:train|fit|epoch|step|backward)[^\t]*\t"
CLOSE = pl.duration(seconds=60)  # of the last step, within which its file was written


@remembered
def dated(frames: Frames) -> pl.DataFrame:
    """Return the lines of steps whose times are those of their file's clock.

    `t` is the earliest time at which a step may have been made.
    """
    steps = job.steps(frames)
    if steps.is_empty():
        return steps
    files = frames["sources"].select("source", "modified").unique("source")
    times = (
        frames["events"]
        .drop_nulls("t")
        .sort("line")
        .select(
            "source",
            "line",
            pl.col("t").cum_max().over("source").alias("since"),
            pl.col("t").max().over("source").alias("end"),
        )
    )
    told = (
        steps.sort("line")
        .join_asof(times, on="line", by="source", check_sortedness=False)
        .join(files, on="source", how="left", maintain_order="left")
        .with_columns(pl.coalesce("t", "since").alias("t"))
        .drop_nulls("t")
    )
    apart = pl.col("modified") - pl.col("end")
    near = (apart < CLOSE) & (apart > -CLOSE)
    return told.filter(near).drop("since", "end").sort("source", "line")


def with_steps(frames: Frames, looks: pl.DataFrame) -> pl.DataFrame:
    """Let steps between two looks at a stack count as motion of its rank.

    All ranks of a job step together, and a loop passes the same line again and again.
    """
    if looks.is_empty() or (steps := dated(frames)).is_empty():
        return looks
    first = pl.col("t") - pl.duration(milliseconds="apart_ms")
    pairs = looks.with_row_index("_row").select("_row", since=first, until="t")
    between = (
        steps.select("step", "t")
        .join_where(pairs, pl.col("t") > pl.col("since"), pl.col("t") < pl.col("until"))
        .group_by("_row")
        .agg(pl.col("step").n_unique().alias("many"))
        .filter(pl.col("many") >= LEAST)
    )
    made = pl.col("many").is_not_null()
    said = pl.format("its job made {} steps in between", "many")
    return (
        looks.with_row_index("_row")
        .join(between, on="_row", how="left", maintain_order="left")
        .with_columns(
            pl.when(made).then(True).otherwise("moved").alias("moved"),
            pl.when(made).then(said).otherwise("what").alias("what"),
        )
        .select(looks.columns)
    )


@remembered
def gone_on(frames: Frames) -> frozenset[int]:
    """Return the ranks that logged new steps after they came to the call that is open.

    A rank that waits logs none: its dump shows a moment of a job that ran. Where the
    dump was written right after the call's timeout, only steps late in that time tell
    so: the log's clock may be ahead.
    """
    if not frames.has("held"):
        return frozenset()
    held = frames["held"].filter(pl.col("choice") == 0).drop_nulls(["rank", "t"])
    steps = dated(frames).drop_nulls("rank")
    if held.is_empty() or steps.is_empty():
        return frozenset()
    ages = dump_mtime.ages(held, call_summary.outline(frames), frames["sources"])
    half = pl.duration(milliseconds=pl.col("waited") // 2)
    waits = held.join(dump_mtime.timed_out(ages), on="rank", how="left")
    since = waits.select("rank", pl.coalesce(pl.col("t") + half, "t").alias("since"))
    after = steps.join(since, on="rank").filter(pl.col("t") > pl.col("since") + CLOCKS)
    many = after.group_by("rank").agg(pl.col("step").n_unique())
    return frozenset(many.filter(pl.col("step") >= LEAST)["rank"])


def is_over(frames: Frames) -> bool:
    """Whether all ranks end the training in which stacks show them.

    A process whose rank is not known is one of those that end it if all do.
    """
    looks = call_sites.looked(frames)
    seen = looks["way"].str.contains(TRAINS)
    if seen.is_empty() or not seen.all() or not finished.is_whole(frames):
        return False
    return looks.select("host", "pid", "rank").n_unique() <= finished.many(frames)


def later(frames: Frames) -> pl.DataFrame:
    """Return the lines of new steps after the last stack or dump; none if too few.

    The look may have been at a hang that ended with a restart. Where the start of the
    program cannot be recognised, a pause around the look that is longer than others
    may be one.
    """
    steps = dated(frames)
    if steps.is_empty():
        return steps
    is_later = pl.col("t") > pl.lit(_last_look(frames))
    before = steps.filter(~is_later)
    found = steps.filter(is_later & (pl.col("step") > pl.lit(before["step"].max())))
    if found["step"].n_unique() < LEAST or before["step"].n_unique() < LEAST:
        return steps.clear()
    starts = _starts_again(frames, before, found)
    went_on = _is_usual(before, found) if starts is None else not starts
    return found if went_on else found.clear()


def just_before(frames: Frames) -> pl.DataFrame:
    """Return the last step if stacks were taken no longer after it than is usual.

    The job may have been between two steps: a pause as long as others proves no stop.
    """
    steps = dated(frames)
    looks = process_stacks.looks(frames)
    if steps.is_empty() or looks.is_empty():
        return steps.clear()
    last, pauses = steps["t"].max(), steps["t"].unique().sort().diff()
    since = (pl.lit(_last_look(frames)) - pl.lit(last)).dt.total_milliseconds()
    usual = int(str(pauses.dt.total_milliseconds().max() or 0))
    clock = dump_mtime.CLOCK_MS
    near = since.is_between(-clock, min(usual, dump_mtime.EARLY_MS))
    return steps.filter(near & (pl.col("t") == last)).head(1)


def _last_look(frames: Frames) -> object:
    """Return when the last stack or dump was written, by its file; None if unknown."""
    looks = process_stacks.looks(frames), call_summary.dumps(frames)
    seen = pl.concat(look.select("source") for look in looks).unique()
    taken = seen.join(frames["sources"].select("source", "modified"), on="source")
    return taken["modified"].max()


def _starts_again(
    frames: Frames, before: pl.DataFrame, found: pl.DataFrame
) -> bool | None:
    """Whether lines that a program prints at its start stand behind steps `before`.

    None if its start is not known: no kind of line stands above the first step alone.
    """
    first = before.group_by("source").agg(
        pl.col("line").min().alias("first"), pl.col("line").max().alias("last")
    )
    lines = frames["events"].select("source", "line", "message")
    lines = lines.join(found.select("source").unique(), on="source", how="semi")
    lines = lines.join(first, on="source")
    line, kind = pl.col("line"), ["source", "message"]
    usual = lines.filter((line >= pl.col("first")) & (line <= pl.col("last")))
    start = lines.filter(line < pl.col("first")).join(usual, on=kind, how="anti")
    if {*start["source"]} != {*found["source"]}:
        return None
    again = lines.filter(line > pl.col("last")).join(start, on=kind, how="semi")
    return again.height > 0


def _is_usual(before: pl.DataFrame, found: pl.DataFrame) -> bool:
    """Whether the pause between steps is not much longer than the longest of others."""
    sides = [lines["t"].unique().sort() for lines in (before, found)]
    usual = pl.concat([side.diff() for side in sides]).dt.total_microseconds()
    around = pl.concat([sides[0].tail(1), sides[1].head(1)]).diff()
    longest = PAUSE * int(str(usual.max() or 0))
    return int(str(around.dt.total_microseconds().max())) <= longest
