"""Exceptions that a program printed and survived: it caught them, logged them, went on.

An exception alone does not show that its process ended, unless torch's excepthook
printed it, which adds the rank in front. That the process did not end is shown by the
same rank at work afterwards, by the clock: it prints several more lines of its own, and
does not exit with an error code then, or it begins a call that it gives up much later.
As long as no process of the job fails, one such line is enough, or several more steps
in the same file or by the clock, or a rank that says that its training is over: all
ranks advance together. Where nothing else in the job is wrong, any record that the
process logs below is enough. An exception that ends a thread does not end its process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs import finished, job, later_steps, unknown_failures
from ncclforensics.correlate.runs.later_steps import MORE
from ncclforensics.model.frames import Frames
from ncclforensics.model.notes import Note
from ncclforensics.model.tables import CITE, FAILING, TIME, TROUBLED

if TYPE_CHECKING:
    from collections.abc import Iterator

OF_PROGRAM = r"^(?:python|uncaught)\."
TRACEBACK = "python.traceback"
# the line above the traceback
IGNORED = "python.ignored_exception"
IN_THREAD = "python.thread_exception"
WORDS = (*job.TAGGED, "python.rank_of")
# the last line of a traceback; torch's excepthook prints the first one, with the rank
UNCAUGHT = "uncaught.of_rank"
ENDS = (UNCAUGHT, "uncaught.exception")
TIMEOUT = "c10d.watchdog.timeout"
RECORD = (unknown_failures.BY_WORDS, *unknown_failures.BY_LEVEL)
TEXT = "%s printed an exception here and went on: not counted as a failure"
PLACE = [*CITE]


def without(frames: Frames) -> Frames:
    """Return `frames` without the exceptions that their ranks survived.

    Their `events` become neutral, the rows of their messages are removed, and a note
    cites the first one of each rank. `frames` have ranks and one clock.
    """
    raised = _raised(frames)
    if raised.is_empty():
        return frames
    ignored = pl.concat([_below(frames, raised, IGNORED), _in_threads(frames, raised)])
    after = [ignored, _by_clock(frames, raised), _by_place(frames, raised)]
    lines = raised.join(pl.concat(after).unique(), on=PLACE, how="semi")
    if lines.is_empty():
        return frames
    here = lines.select(PLACE).unique().with_columns(pl.lit(True).alias("went_on"))
    events = frames["events"].join(here, on=PLACE, how="left", maintain_order="left")
    went_on = _is_raised() & pl.col("went_on").fill_null(False)
    role = pl.when(went_on).then(pl.lit("neutral")).otherwise("role")
    # the row of a traceback is on its first line
    gone = pl.concat([lines.select(PLACE), lines.select("source", line="head")])
    above = lines.select("source", line=pl.col("head") - 1)  # the record it is part of
    messages = {
        name: frame.join(rows, on=PLACE, how="anti", maintain_order="left")
        for names, rows in (({*lines["message"]}, gone), (RECORD, above))
        for name, frame in frames.messages.items()
        if name in names
    }
    events = events.with_columns(role.alias("role")).drop("went_on")
    kept = {**frames.tables, "events": events}
    return Frames(kept, {**frames.messages, **messages}).noting(*_notes(lines))


def _is_raised() -> pl.Expr:
    """Whether an event is an exception of a program, or a line of its traceback."""
    message = pl.col("message")
    return message.is_in(ENDS) | (
        message.str.contains(OF_PROGRAM) & pl.col("role").is_in(FAILING)
    )


def _raised(frames: Frames) -> pl.DataFrame:
    """Return the lines of exceptions: PLACE, `message`, `head`, `rank` and `t`.

    `head` is the first line of the traceback. A line of it has the rank and time of the
    record that precedes the traceback, if it tells none itself; the rank only if the
    record is not of another process.
    """
    who = ("pid", "rank", "t")
    lines = frames["events"].filter(_is_raised()).select(*PLACE, "message", *who)
    if lines.is_empty():
        return lines
    heads = frames.message(TRACEBACK)
    span = pl.col("span").fill_null(0) if "span" in heads.columns else 0
    spans = heads.select("source", head="line", last=pl.col("line") + span).sort("head")
    lines = lines.sort("line").join_asof(
        spans, left_on="line", right_on="head", by="source", check_sortedness=False
    )
    inside = pl.col("line") <= pl.col("last")
    head = pl.when(inside).then("head").otherwise("line")
    records = frames["events"].filter(
        pl.col("message").str.contains(OF_PROGRAM) & (pl.col("role") == "neutral")
    )
    above = _own(frames, records).select(
        "source", pl.col("line") + 1, pl.col(who).name.suffix("_above")
    )
    lines = lines.with_columns(head.alias("head")).join(
        above.unique(PLACE),
        left_on=["source", "head"],
        right_on=PLACE,
        how="left",
        maintain_order="left",
    )
    is_other = (pl.col("pid") != pl.col("pid_above")).fill_null(False)
    hooked = lines.filter(pl.col("message") == UNCAUGHT).select("source", "head")
    return lines.join(hooked, on=["source", "head"], how="anti").select(
        *PLACE,
        "message",
        "head",
        pl.when(is_other).then("rank").otherwise(pl.coalesce("rank", "rank_above")),
        pl.coalesce("t", "t_above").alias("t"),
    )


def _own(frames: Frames, records: pl.DataFrame) -> pl.DataFrame:
    """Return `records` with the rank that a program's own tag tells."""
    said = frames.message(*job.TAGGED)
    tags = [c for c in ("own", "named", "last") if c in said.columns]
    if not tags:
        return records
    told = said.select(*PLACE, pl.coalesce(tags).alias("tag")).drop_nulls("tag")
    joined = records.join(
        told.unique(PLACE), on=PLACE, how="left", maintain_order="left"
    )
    return joined.with_columns(pl.coalesce("tag", "rank").alias("rank")).drop("tag")


def _below(frames: Frames, raised: pl.DataFrame, message: str) -> pl.DataFrame:
    """Return PLACE of the exceptions whose traceback is right below a `message`."""
    lines = frames.message(message)
    if lines.is_empty():
        return raised[PLACE].clear()
    said = lines.select("source", head=pl.col("line") + 1)
    return raised.join(said, on=["source", "head"], how="semi").select(PLACE)


def _in_threads(frames: Frames, raised: pl.DataFrame) -> pl.DataFrame:
    """Return PLACE of the exceptions that ended a thread of a rank, but not the rank.

    A rank that exited with an error code may have done so because of it.
    """
    if frames.message(IN_THREAD).is_empty():
        return raised[PLACE].clear()
    ended = frames["exits"].filter(pl.col("code") > 0)["rank"].drop_nulls()
    known = pl.col("rank").is_not_null() & ~pl.col("rank").is_in(ended.implode())
    return _below(frames, raised.filter(known), IN_THREAD)


def _by_clock(frames: Frames, raised: pl.DataFrame) -> pl.DataFrame:
    """Return PLACE of the exceptions whose rank is at work at a later time."""
    if raised["t"].null_count() == raised.height:
        return raised[PLACE].clear()
    said = _words(frames, *WORDS, *job.STEPS).drop_nulls("t").group_by("rank")
    if _failed(frames):
        ended = frames["exits"].filter(pl.col("code") > 0)["rank"].drop_nulls()
        spoke = said.agg(pl.col("t").top_k(MORE).min(), pl.len())
        spoke = spoke.filter(
            (pl.col("len") >= MORE) & ~pl.col("rank").is_in(ended.implode())
        ).drop("len")
    else:
        spoke = said.agg(pl.col("t").max())
    seen = pl.concat([spoke, _began(frames).drop_nulls()])
    seen = seen.group_by("rank").agg(pl.col("t").max())
    joined = raised.join(seen, on="rank", suffix="_seen")
    return joined.filter(pl.col("t") < pl.col("t_seen")).select(PLACE)


def _by_place(frames: Frames, raised: pl.DataFrame) -> pl.DataFrame:
    """Return PLACE of the exceptions that their file shows the rank to survive."""
    if _failed(frames):
        return raised[PLACE].clear()
    others = frames["events"].filter(
        pl.col("role").is_in(TROUBLED) & ~_is_raised().fill_null(False)
    )
    bad = others.group_by("source").agg(pl.col("line").max().alias("bad"))
    quiet = raised.join(bad, on="source", how="left").filter(
        (pl.col("bad") < pl.col("line")).fill_null(True)
    )
    if quiet.is_empty():
        return raised[PLACE].clear()
    parts = []
    if (going := _going(frames)).height:
        parts.append(quiet.join(going, on="source", suffix="_going"))
    if (spoken := _words(frames, *WORDS)).height:
        last = spoken.group_by("source", "rank").agg(pl.col("line").max())
        parts.append(quiet.join(last, on=["source", "rank"], suffix="_going"))
    after = [part.filter(pl.col("line") < pl.col("line_going")) for part in parts]
    after.append(later_steps.survived(frames, quiet))
    if (over := finished.lines(frames)).height:
        ended = pl.lit(over["t"].max(), TIME)
        after.append(quiet.filter((pl.col("t") <= ended).fill_null(True)))
    if others.is_empty():
        after.append(quiet.join(_followed(frames), on=["source", "head"], how="semi"))
    return pl.concat(part.select(PLACE) for part in after)


def _followed(frames: Frames) -> pl.DataFrame:
    """Return `source` and `head` of tracebacks above records with a time of their own.

    Logging prints those; an interpreter that ends mostly prints nothing more.
    """
    heads = frames.message(TRACEBACK)
    if "goes_on" not in heads.columns:
        return heads.select("source", head="line").clear()
    return heads.filter("goes_on").select("source", head="line")


def _failed(frames: Frames) -> bool:
    return bool((frames["exits"]["code"] != 0).any())


def _words(frames: Frames, *messages: str) -> pl.DataFrame:
    """Return the `messages` of a program whose rank is known."""
    said = frames.message(*messages)[frames["events"].columns]
    if said.is_empty():
        return said
    return _own(frames, said).drop_nulls("rank")


def _began(frames: Frames) -> pl.DataFrame:
    """Return `rank` and `t` of the calls that ranks began and gave up later."""
    told = frames.message(TIMEOUT)
    if "ran_ms" not in told.columns:
        return told.select("rank", "t").clear()
    ran = pl.duration(milliseconds="ran_ms")
    return told.select("rank", (pl.col("t") - ran).cast(TIME).alias("t"))


def _going(frames: Frames) -> pl.DataFrame:
    """Return by `source` the `line` from which on several steps or epochs grow.

    The Trainer of Hugging Face logs its epoch in fractions, and no step.
    """
    made, metrics = job.steps(frames), frames.message(job.METRICS)
    told = [
        part.select(
            *("source", "line"), made=pl.col(what).cast(pl.Float64), what=pl.lit(what)
        )
        for part, what in ((made, "step"), (metrics, "epoch"))
        if what in part.columns and part.height
    ]
    if not told:
        return made[["source", "line"]].clear()
    of = ["source", "what"]
    steps = pl.concat(told).drop_nulls("made").sort("line")
    steps = steps.unique([*of, "made"], keep="first").sort("line")
    last = steps.group_by(of).agg(
        pl.col("line").tail(MORE).first(),
        pl.len().alias("steps"),
        (pl.col("made").tail(MORE).diff() > 0).all().alias("grows"),
    )
    return last.filter(
        (pl.col("steps") >= MORE) & pl.col("grows").fill_null(True)
    ).select("source", "line")


def _notes(lines: pl.DataFrame) -> Iterator[Note]:
    first = lines.sort(PLACE).unique("rank", keep="first", maintain_order=True)
    for rank, source, line in first.select("rank", *PLACE).iter_rows():
        who = "a process" if rank is None else f"rank {rank}"
        yield Note("correlate", TEXT % who, source, line)
