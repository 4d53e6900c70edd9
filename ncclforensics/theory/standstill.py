"""Proof that the job stands still or still moves: named facts, each with a reason.

A dump may come from a job that is running. These prove a standstill: a timeout that
passed, a log line of a failure, a file written after the timeout of an open call, two
looks that find a rank at the same place, or a kernel that saw the awaited rank blocked
for minutes. These prove motion: a call that ended in the tenth of a second before the
dump, a second look that moved, ranks that others show to have gone on since their
dumps, files hardly younger than their open calls, training steps or other counts that
go on in a log, steps that were made no longer before a look than is usual, or the end
of the training.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import polars as pl

from ncclforensics.correlate.runs import job
from ncclforensics.correlate.timing import (
    dump_mtime,
    late_arrivals,
    late_ranks,
    step_motion,
)
from ncclforensics.correlate.traces import call_summary
from ncclforensics.correlate.traces.progress import ROOTED, grouped, is_one
from ncclforensics.correlate.waits import rank_evidence
from ncclforensics.evidence import blocked_processes, common, kernel_log
from ncclforensics.model.findings import Cite
from ncclforensics.model.folding import count
from ncclforensics.model.frames import remembered
from ncclforensics.model.last_words import COUNT
from ncclforensics.model.tables import ABORTS_RETIRE, done
from ncclforensics.model.words import lasted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.frames import Frames

Answer = Literal["yes", "no", "unknown"]
GROUP = ("pg", "pg_desc")
WENT_ON = pl.duration(seconds=60)  # a later step comes this long after the first wait
STEPS = 2  # later steps needed, as one line may have left its buffer late
# kinds of looks at one moment of a process: all have to be understood
NEEDS_ALL = ("stack", "process")
MOST_CITES = 2
EARLY = "early"  # that nobody has waited for long yet
LOOKS = "looks"  # that two looks found the same, or not


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact: its name, whether it holds, the reason in words, and cites."""

    name: str
    answer: Answer
    why: str
    cites: tuple[Cite, ...] = ()


@remembered
def standing(frames: Frames) -> Fact:
    """Return whether the job is proved to stand still, and by what."""
    return _first(_standing(frames), "nothing proves that the job had stopped")


@remembered
def motion(frames: Frames) -> Fact:
    """Return whether the job is proved to have gone on, and by what."""
    return _first(_motion(frames), "nothing proves that the job went on")


@remembered
def waited_long(frames: Frames) -> bool:
    """Whether the files of dumps tell that ranks had waited for long in them."""
    return dump_mtime.show_a_long_wait(*_ages(frames))


@remembered
def _ages(frames: Frames) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the `ages` and the `last_calls` of the dumps, as `dump_mtime` does."""
    calls, files = call_summary.outline(frames), frames["sources"]
    ages = dump_mtime.ages(frames["held"], calls, files)
    return ages, dump_mtime.last_calls(calls, files)


def _first(facts: Iterator[Fact], nothing: str) -> Fact:
    """Return the first fact answered "yes", else the first "no", else `nothing`."""
    denied = None
    for fact in facts:
        if fact.answer == "yes":
            return fact
        if fact.answer == "no" and denied is None:
            denied = fact
    return denied or Fact("", "unknown", nothing)


def _standing(frames: Frames) -> Iterator[Fact]:
    if rank_evidence.is_told(frames):
        yield Fact("line", "yes", "a log line or an exit shows a failure")
        return
    calls = call_summary.outline(frames)
    if calls.is_empty() and not any(map(frames.has, ("calls", "held", "looks"))):
        return
    aborted = calls.filter(
        pl.col("retired").fill_null(False)
        & ~done()
        & pl.col("backend").is_in(ABORTS_RETIRE)
    )
    if aborted.height:
        yield Fact(
            "aborted", "yes", "a watchdog had timed out on a call", _cite(aborted)
        )
    gave_up = calls.filter(
        pl.col("rank").is_in(rank_evidence.given_up(calls).implode())
    ).unique("rank", keep="last", maintain_order=True)
    if gave_up.height:
        yield Fact("given up", "yes", "a rank had timed out on a call", _cite(gave_up))
    ages, _ = _ages(frames)
    went_on = step_motion.gone_on(frames)
    ages = ages.filter(~pl.col("rank").is_in(list(went_on)))
    if (over := dump_mtime.timed_out(ages)).height:
        yield _written(over)
    overdue = late_arrivals.overdue(frames["held"], calls)
    if not went_on.issuperset(overdue):
        who = common.ranks(common.numbers(overdue))
        yield Fact("overdue", "yes", f"{who} had been in a call for its timeout")
    if late_ranks.latecomers(frames).height or late_ranks.resumed(frames)[0].height:
        yield Fact("late", "yes", "a rank made a call after its peers had timed out")
    if (other := late_ranks.elsewhere(frames)).height:
        who = common.ranks(common.numbers(other["rank"]))
        why = f"{who} made other calls when the timeout of those that wait had passed"
        yield Fact("late", "yes", why, _cite(other))
    late = frames["calls"].select(pl.concat_list("absent", "behind").explode())
    hung = blocked_processes.lines(frames, late.to_series().drop_nulls())
    if (hung := kernel_log.of_this_job(frames, hung).filter(~pl.col("is_far"))).height:
        who = common.ranks(common.numbers(hung["rank"]))
        why = f"the kernel saw the process of {who} blocked for minutes"
        yield Fact("blocked", "yes", why, common.cites(hung, MOST_CITES))
    stood = _looks(frames)
    # others may come later to a call in which a rank stands
    stood = stood.clear() if stood["moved"].any() else stood
    # a process may pass one line again and again
    unsure = frames["looks"].filter(
        pl.col("moved").is_null() & pl.col("kind").is_in(NEEDS_ALL)
    )["kind"]
    stood = stood.filter(~pl.col("kind").is_in(unsure.implode()).fill_null(False))
    waits = frames["calls"]["waiting"].explode()
    if stood.filter(pl.col("rank").is_in(waits.implode())).height:
        ranks = common.numbers(stood["rank"])
        was = "was" if len(ranks) == 1 else "were"
        why = f"{common.ranks(ranks)} {was} at the same place in two snapshots"
        yield Fact(LOOKS, "yes", why, _cite(stood, pl.col("what")))


def _written(over: pl.DataFrame) -> Fact:
    first = over.sort("rank").row(0, named=True)
    waited, timeout = (lasted(first[c] / 1e3) for c in ("waited", "timeout_ms"))
    text = (
        f"rank {first['rank']}: written {waited} after that call began, "
        f"timeout {timeout}"
    )
    why = "dumps were written right after the timeout of a call that is open in them"
    return Fact("written", "yes", why, (Cite(first["source"], first["line"], text),))


def _motion(frames: Frames) -> Iterator[Fact]:
    looks = _looks(frames)
    calls = call_summary.outline(frames)
    ages, last = _ages(frames)
    if looks.height and looks["moved"].all() and not _only_at_first(looks, ages):
        waits = frames["calls"]["waiting"].explode()
        # that a rank moved for which others wait does not show that these go on
        if waits.is_empty() or looks["rank"].is_in(waits.implode()).any():
            why = f"{count(looks.height, 'rank')} moved on between two snapshots"
            yield Fact(LOOKS, "yes", why, _cite(looks, pl.col("what")))
    fresh = _fresh(frames, calls) if calls.height else calls
    if fresh.height:
        why = "calls still finished within 0.1 s before the dumps were taken"
        yield Fact("fresh", "yes", why, _cite(fresh))
    passed = _passed(frames, calls) if calls.height else calls
    if (
        passed.height
        and _are_many(passed, frames)
        and not _stood_since(ages, last, passed)
    ):
        why = f"{count(passed.height, 'rank')} moved on while the dumps were taken"
        yield Fact("passed", "yes", why, _cite(passed))
    if dump_mtime.are_early(ages, last):
        most = float(str(ages["waited"].max())) / 1e3
        why = (
            f"no rank had waited for more than {lasted(most)} when its dump was written"
        )
        yield Fact(EARLY, "yes", why)
    if (step := step_motion.just_before(frames)).height:
        why = "the last step was no longer ago than other steps when stacks were taken"
        yield Fact(EARLY, "yes", why, _cite(step))
    if went_on := step_motion.gone_on(frames):
        who = common.ranks(tuple(sorted(went_on)))
        yield Fact("steps", "yes", f"{who} logged steps after their dumps' last calls")
    if step_motion.is_over(frames):
        yield Fact("over", "yes", "all ranks finished the training they were seen in")
    if (after := step_motion.later(frames)).height:
        why = "steps were made after the last dump or stack"
        yield Fact("steps", "yes", why, _cite(after))
    since = frames["calls"]["t"].min()
    if since is None:
        return
    long_after = pl.col("t") > pl.lit(since) + WENT_ON
    steps = job.steps(frames)
    later = steps.filter(long_after) if steps.height else steps
    if later.height and later["step"].n_unique() >= STEPS:
        yield Fact("steps", "yes", "steps were made long after that", _cite(later))
    counts = frames["events"].filter(long_after & (pl.col("message") == COUNT))
    if counts["text"].n_unique() >= STEPS:
        yield Fact(
            "counts", "yes", "a count in a log went on long after that", _cite(counts)
        )


def _looks(frames: Frames) -> pl.DataFrame:
    """Return the pairs of looks at one rank that show whether it moved."""
    looks = frames["looks"]
    return looks.drop_nulls(["rank", "moved"]) if looks.height else looks


def _only_at_first(looks: pl.DataFrame, ages: pl.DataFrame) -> bool:
    """Whether all ranks that wait have done so for most of the time between two looks.

    They moved early in it and may have stopped since. Of files that were copied, all
    waits are longer than that time.
    """
    apart = pl.col("apart_ms").cast(pl.Float64)
    both = ages.join(looks.drop_nulls("apart_ms"), on="rank")
    stood = pl.col("waited").is_between(apart / 2, apart + dump_mtime.CLOCK_MS)
    return both.height > 0 and bool(both.select(stood.all()).item())


def _fresh(frames: Frames, calls: pl.DataFrame) -> pl.DataFrame:
    """Return calls that had completed when dumps were taken, but were not retired yet.

    NCCL's watchdog retires completed calls within a tenth of a second. Ranks at a root
    do not count, because their watchdog may hang. Entries of a coalesced group are
    never retired.
    """
    nccl = calls.filter(
        pl.col("backend").is_in(ABORTS_RETIRE)
        & ~pl.col("is_p2p").fill_null(False)
        & (pl.col("state") == "completed")
        & ~pl.col("op").str.ends_with("coalesced").any().over("rank", *GROUP)
        & ~pl.col("rank").is_in(frames["roots"]["rank"].implode())
    )
    retired = pl.col("retired").fill_null(False)
    over = pl.col("record_id").filter(retired).max().over("rank")
    # if nothing is retired, the writer of the dump does not record it
    return nccl.filter(~retired & (pl.col("record_id") > over))


def _passed(frames: Frames, calls: pl.DataFrame) -> pl.DataFrame:
    """Return the last call of each rank that peers show to have gone on since its dump.

    A peer completed a call that needs all members, and made another one, while this
    rank has an earlier call open or has not made that one. Whose GPU is stuck in an
    open call may have made all that its peers made.
    """
    known = call_summary.dumps(frames).filter(~pl.col("cut"))["rank"].drop_nulls()
    made = grouped(calls, frames["group_names"]).filter(
        pl.col("rank").is_in(known.implode())
        & is_one()
        & ~pl.col("is_p2p").fill_null(False)
        & ~pl.col("op").is_in(ROOTED)
    )
    # the last call of a rank on Gloo may have failed, though it counts as ended
    later = pl.col("record_id") < pl.col("record_id").max().over("rank")
    front = pl.col("seq").filter(done() & later).max().over("group")
    held = frames["held"].filter(pl.col("choice") == 0).select("source", "line")
    is_held = pl.struct("source", "line").is_in(held.to_struct("of").implode())
    newest = pl.col("seq").max()
    last = pl.col("seq") == newest.over("rank", "group")
    is_older = newest.over("rank", "group") < newest.over("group")
    found = made.with_columns(front=front).filter(
        (pl.col("seq") < pl.col("front")) & ((is_held & is_older) | last)
    )
    return found.sort("rank", "seq", "line").unique("rank", maintain_order=True)


def _are_many(passed: pl.DataFrame, frames: Frames) -> bool:
    """Whether more than one old file has to be among the dumps.

    One dump, or those of one host, may be of an earlier moment. Of ranks that
    stand in several places one after another, or of most ranks, that is not so.
    """
    places = passed.select("group", "seq").unique().height
    dumps = call_summary.dumps(frames).height
    return places > 1 or 2 * passed.height >= max(dumps, 1)


def _stood_since(ages: pl.DataFrame, last: pl.DataFrame, passed: pl.DataFrame) -> bool:
    """Whether files show that others waited long after the dumps of `passed` ranks.

    Of files that were copied, those of `passed` ranks are far older than their `last`
    calls, too.
    """
    is_passed = pl.col("rank").is_in(passed["rank"].implode())
    theirs, others = last.filter(is_passed), ages.filter(~is_passed)
    return dump_mtime.are_soon(theirs) and not dump_mtime.are_soon(others)


def _cite(rows: pl.DataFrame, says: pl.Expr | None = None) -> tuple[Cite, ...]:
    words = common.sentence("rank ", pl.col("rank"), ": ", pl.col("op"))
    if "text" in rows.columns and says is None:
        return common.cites(rows, MOST_CITES)
    told = rows.with_columns((words if says is None else says).alias("text"))
    return common.cites(told, MOST_CITES)
