"""The whole pipeline, start to end: evidence in, one report out.

    sources -> parsers -> frames -> correlate -> diagnosers -> verdict -> report

Parsing is a pure function of one source, so it can be distributed by an executor.
Everything after it works on frames of the whole job.
"""

from __future__ import annotations

import dataclasses
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import polars as pl

from ncclforensics import diagnosers
from ncclforensics.correlate import correlate
from ncclforensics.correlate.runs import jobs, unknown_failures
from ncclforensics.correlate.runs.time_window import within
from ncclforensics.correlate.waits import roll_call
from ncclforensics.engine import answers, cache, dataset, excerpts, reading
from ncclforensics.engine.interrupts import scratch_folder
from ncclforensics.model.frames import Frames, join
from ncclforensics.model.span import ALWAYS, Span
from ncclforensics.parsers.logs import last_words, second_look
from ncclforensics.report.build import build, other
from ncclforensics.report.coverage import interrupted
from ncclforensics.sources import discover
from ncclforensics.theory import running_note, slow_jobs
from ncclforensics.verdict import (
    actions,
    clue,
    judging,
    onset,
    own_log,
    quotes,
    statements,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from ncclforensics.model.findings import Finding, Ranked
    from ncclforensics.report.contract import Report
    from ncclforensics.report.details import Excerpt
    from ncclforensics.sources import Source


MOST_OTHERS = 6  # jobs and attempts reported in addition to the explained one


@dataclass(frozen=True, slots=True)
class Analysis:
    """The result of one run: the frames, the findings in order, and the report.

    `excerpts` are the lines around the citations of the report, if requested. `sources`
    can be opened for as long as their scratch folder exists. `cached` is how many
    seconds the run took whose answer this is, and `ranked` is None then; `cached` is
    None for an analysis made now.
    """

    frames: Frames
    ranked: Ranked | None
    report: Report
    excerpts: tuple[Excerpt, ...] = ()
    sources: tuple[Source, ...] = ()
    cached: float | None = None

    @property
    def interrupted(self) -> bool:
        """Whether reading was interrupted, so that only part of the files was read."""
        return interrupted(self.report) is not None


@dataclass(frozen=True, slots=True)
class Judged:
    """The ranked findings of one job: `parsed` frames, and what was correlated."""

    parsed: Frames
    frames: Frames
    ranked: Ranked


def analyze(
    paths: Sequence[str],
    *,
    executor: Executor | None = None,
    world_size: int | None = None,
    select: frozenset[str] = frozenset(),
    ignore: frozenset[str] = frozenset(),
    span: Span = ALWAYS,
    progress: Callable[[int, int], None] | None = None,
    quote: bool = False,
    scratch: Path | None = None,
    kept: Path | None = None,
    part: str | None = None,
) -> Analysis:
    """Analyze evidence: directories, files, globs, archives, or `-` for stdin.

    A path may also be a dataset written by `ingest`. `executor` parses sources outside
    this process. `world_size` overrides the one found in the evidence. `select` and
    `ignore` are failure classes. `span` restricts the failure messages in logs to a
    time span. `progress` is called with the number of sources read and their total; an
    exception from it ends the analysis. `quote` also reads the lines around citations.
    `scratch` is a folder for unpacked archives that outlives the call; `kept` is the
    folder of the cache, None for no cache. `part` is the job or the attempt to explain,
    by its name in the evidence. Raises UsageError on a path or part that does not
    exist, and never on the content of evidence.
    """
    with ExitStack() as stack:
        if scratch is None:
            scratch = stack.enter_context(scratch_folder())
        asked = answers.asked(world_size, select, ignore, part, span.since, span.until)
        datasets = [path for path in paths if dataset.is_one(path)]
        seen = None if kept is None else answers.look(paths, asked)
        if kept and seen and (again := answers.again(kept, seen, paths, scratch)):
            told = again.report, again.sources, again.frames
            quoted = excerpts.read(*told) if quote else ()
            rest = (again.report, quoted, again.sources, again.seconds)
            return Analysis(again.frames, None, *rest)
        start = time.monotonic()
        found = discover([path for path in paths if path not in datasets], scratch)
        frames = None if kept is None else cache.find(kept, found.sources, found.notes)
        if frames is None:
            frames = reading.read(found.sources, found.notes, executor, progress)
            if kept is not None:
                took = time.monotonic() - start
                cache.keep(kept, found.sources, found.notes, frames, took)
        if datasets:
            frames = dataset.load(datasets, frames)
        chosen = (world_size, select, ignore, part)
        judged = judge(within(frames, span), *chosen)
        more = None
        if judged.ranked.verdict is None and (
            more := second_look.read(found.sources, frames)
        ):
            judged = judge(within(more, span), *chosen)
        said, whose = None, _read_whose(judged.ranked, judged.frames)
        if whose is not None:
            said = last_words.read(found.sources, judged.frames, whose)
        if said is not None and roll_call.is_changed_by(judged.frames, said):
            more = join([more or frames, Frames({"events": said})])
            anew = judge(within(more, span), *chosen)
            if not whose or _is_other(anew.ranked, judged.ranked):
                judged = anew
        joined, ranked, built = _explained(judged, select, ignore, found.sources)
        if kept and seen and cache.is_whole(frames):
            took = time.monotonic() - start
            answers.keep(kept, seen, built, joined, found.sources, took)
        quoted = excerpts.read(built, found.sources, joined) if quote else ()
    return Analysis(joined, ranked, built, quoted, found.sources)


def _read_whose(ranked: Ranked, frames: Frames) -> frozenset[int] | None:
    """Return whose last lines may tell more: none named for all ranks, None for nobody.

    Of all, where ranks wait, timed out or lost a peer and nothing tells for whom and
    why, or what does is only possible; of missing ranks, whose lines tell whether they
    were at work, or had left their loop, as those of ranks do that are in another call
    than their peers.
    """
    verdict = ranked.verdict
    if verdict is not None and (
        verdict.slug in MAY_HAVE_LEFT or _ended_unseen(verdict, frames)
    ):
        return frozenset(verdict.ranks) or None
    if verdict is not None and verdict.confidence != "possible":
        return frozenset() if verdict.slug in OPEN else None
    waits = "victim" in frames["events"]["role"] or frames["calls"].height
    return frozenset() if waits else None


OPEN = ("timeout-masking", "stuck-in-collective")  # nobody is named
MAY_HAVE_LEFT = (
    *("missing-rank", "uneven-inputs"),
    *("rank-conditional-collective", "call-order-deadlock"),
    *("collective-mismatch", "shape-mismatch"),
)


def _ended_unseen(verdict: Finding, frames: Frames) -> bool:
    """Whether a rank is only known to have ended, and nothing tells how."""
    bad = frames["exits"].filter(pl.col("code") != 0)["rank"].drop_nulls()
    guessed = verdict.slug == "crashed-rank" and verdict.confidence == "likely"
    return guessed and {*bad}.isdisjoint(verdict.ranks)


def _is_other(ranked: Ranked, before: Ranked) -> bool:
    """Whether the verdict is of another class than before."""
    one, other = (r.verdict.slug if r.verdict else "" for r in (ranked, before))
    return one != other


def explain(
    frames: Frames,
    world_size: int | None = None,
    select: frozenset[str] = frozenset(),
    ignore: frozenset[str] = frozenset(),
    part: str | None = None,
    sources: Sequence[Source] = (),
) -> tuple[Frames, Ranked, Report]:
    """Correlate and explain parsed frames; other jobs and attempts are summarized.

    The culprit's log is looked for in `sources`, to quote its last line.
    Returns the correlated frames, the ranked findings and the report of the job that is
    explained in full.
    """
    judged = judge(frames, world_size, select, ignore, part)
    return _explained(judged, select, ignore, sources)


def judge(
    frames: Frames,
    world_size: int | None = None,
    select: frozenset[str] = frozenset(),
    ignore: frozenset[str] = frozenset(),
    part: str | None = None,
) -> Judged:
    """Correlate parsed frames and rank what is found, without a report of it.

    Of several jobs it is the one that is named, else the last of which a line tells
    that it failed; if nothing failed there, the last one whose calls tell it.
    """
    joined = correlate(frames)
    if part is not None:
        joined = correlate(frames, *jobs.find(joined, part))
    found = judging.ranked(joined, world_size, select, ignore)
    if part is None and found.outcome == "no-failure":
        others = joined["others"].filter(pl.col("attempt").is_null())["job"]
        for name in others.drop_nulls().reverse():
            own = correlate(frames, name)
            beside = judging.ranked(own, world_size, select, ignore)
            if beside.outcome == "failure":
                return Judged(frames, own, beside)
    return Judged(frames, joined, found)


def _explained(
    judged: Judged,
    select: frozenset[str],
    ignore: frozenset[str],
    sources: Sequence[Source],
) -> tuple[Frames, Ranked, Report]:
    """Return what `explain` does, of findings that are ranked already."""
    joined = judged.frames
    ranked, built = _reported(joined, judged.ranked, sources)
    others = []
    for job_, attempt in (
        joined["others"].tail(MOST_OTHERS).select("job", "attempt").iter_rows()
    ):
        own = correlate(judged.parsed, job_, attempt)
        report = _reported(own, judging.ranked(own, None, select, ignore))[1]
        others.append(other(report, job_, attempt))
    if _may_only_be_slow(ranked):
        joined = slow_jobs.with_lateness(joined)
    return joined, ranked, msgspec.structs.replace(built, others=tuple(others))


def _may_only_be_slow(ranked: Ranked) -> bool:
    """Whether nobody is named who stopped the job: only then its lateness matters.

    Nor does it where the check of it failed.
    """
    told = ranked.verdict
    if any(n.is_fault and n.slug == "slow-rank" for n in ranked.not_checked):
        return False
    return told is None or told.slug == "slow-rank" or not (told.ranks or told.hosts)


def conclude(joined: Frames) -> tuple[Ranked, Report]:
    """Return the findings of correlated frames, and the report of them alone."""
    return _reported(joined, judging.ranked(joined))


def _reported(
    joined: Frames, ranked: Ranked, sources: Sequence[Source] = ()
) -> tuple[Ranked, Report]:
    """Complete ranked findings with calls, quotes and actions; return their report."""
    ranked = onset.with_call(joined, ranked)
    ranked, told_of = quotes.quoted(joined, ranked, onset.of(joined, ranked))
    gain = None
    if ranked.outcome != "failure" and _may_only_be_slow(ranked):
        try:
            gain = slow_jobs.gain(joined)
        except Exception as error:  # evidence has forms that nobody has tried
            lost = statements.failed("slow-rank", error)
            ranked = dataclasses.replace(
                ranked, not_checked=(*ranked.not_checked, lost)
            )
    told_of = dataclasses.replace(
        told_of,
        clue=clue.of(joined, ranked),
        last_line=own_log.last_line(joined, ranked, told_of.onset, sources),
        gain=gain,
    )
    ranked = actions.completed(joined, ranked, told_of.last_line)
    if ranked.verdict is None:
        joined = running_note.noted(unknown_failures.noted(joined))
    return ranked, build(ranked, joined, diagnosers.CLASSES, told_of)
