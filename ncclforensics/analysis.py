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
from ncclforensics.correlate.runs import interleaved_jobs, job, jobs, unknown_failures
from ncclforensics.correlate.runs.time_window import within
from ncclforensics.correlate.timing import process_motion
from ncclforensics.correlate.waits import roll_call
from ncclforensics.engine import answers, cache, dataset, excerpts, reading
from ncclforensics.engine.interrupts import scratch_folder
from ncclforensics.evidence import (
    blocked_processes,
    fallen_behind,
    first_exits,
    ras_status,
    seen_places,
)
from ncclforensics.model.frames import Frames, join
from ncclforensics.model.span import ALWAYS, Span
from ncclforensics.parsers.logs import last_words, second_look
from ncclforensics.report.build import build, other
from ncclforensics.report.coverage import interrupted
from ncclforensics.sources import discover
from ncclforensics.theory import (
    slow_ranks,
    standstill,
    suspects,
    uncollected,
    weigh,
)
from ncclforensics.verdict import actions, clue, onset, own_log, quotes, ranking, retold
from ncclforensics.verdict.statements import statements

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
        chosen = (world_size, select, ignore, part, found.sources)
        joined, ranked, built = explain(within(frames, span), *chosen)
        more = None
        if ranked.verdict is None and (more := second_look.read(found.sources, frames)):
            joined, ranked, built = explain(within(more, span), *chosen)
        whose = _read_whose(ranked, joined)
        said = None
        if whose is not None:
            said = last_words.read(found.sources, joined, whose)
        if said is not None and roll_call.is_changed_by(joined, said):
            more = join([more or frames, Frames({"events": said})])
            retold = explain(within(more, span), *chosen)
            if not whose or _is_other(retold[1], ranked):
                joined, ranked, built = retold
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


UNEQUAL = ("collective-mismatch", "shape-mismatch")  # some rank differs from others
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


def _unrefuted(frames: Frames) -> pl.DataFrame:
    """Return the unknown failing lines; what persons say only if no two looks moved."""
    told = unknown_failures.lines(frames)
    refuted = told.height and weigh.is_moving(frames)
    if not (refuted and standstill.motion(frames).name == standstill.LOOKS):
        return told
    return told.filter(pl.col("message") != unknown_failures.OF_PERSON)


def _names_nobody(verdict: Finding | None) -> bool:
    """Whether somebody is to blame, or something stopped, and nobody is named."""
    if verdict is None:
        return True
    return verdict.slug in UNEQUAL and not (verdict.ranks or verdict.hosts)


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
    joined = correlate(frames)
    if part is not None:
        joined = correlate(frames, *jobs.find(joined, part))
    ranked, built = conclude(joined, world_size, select, ignore, sources)
    others = []
    for job_, attempt in (
        joined["others"].tail(MOST_OTHERS).select("job", "attempt").iter_rows()
    ):
        report = conclude(correlate(frames, job_, attempt), None, select, ignore)[1]
        others.append(other(report, job_, attempt))
    if _may_only_be_slow(ranked):
        joined = slow_ranks.with_lateness(joined)
    return joined, ranked, msgspec.structs.replace(built, others=tuple(others))


def _may_only_be_slow(ranked: Ranked) -> bool:
    """Whether nobody is named who stopped the job: only then its lateness matters."""
    told = ranked.verdict
    return told is None or told.slug == "slow-rank" or not (told.ranks or told.hosts)


def conclude(
    joined: Frames,
    world_size: int | None = None,
    select: frozenset[str] = frozenset(),
    ignore: frozenset[str] = frozenset(),
    sources: Sequence[Source] = (),
) -> tuple[Ranked, Report]:
    """Return the findings and the report for correlated frames, new or exported."""
    told = job.facts(joined, world_size)
    said = list(retold.capped(joined, statements(joined, select, ignore)))
    if why := interleaved_jobs.told(joined):
        said = [ranking.unnamed(statement, why) for statement in said]
    # if nothing of the job was read, a failure cannot be ruled out
    signs = job.signs_of_failure(joined) or int(job.is_unseen(joined))
    signs += _unrefuted(joined).height
    signs += process_motion.standing(joined) + blocked_processes.nameless(joined)
    signs += job.is_unread(joined) + ras_status.unsettled(joined)
    if not weigh.is_moving(joined):
        signs += bool(seen_places.nameless(joined)) or seen_places.idle(joined)
        signs += joined["calls"].height + len(uncollected.uncollected(joined))
    if job.ended_well(joined):
        signs = 0
    ranked = ranking.rank(said, diagnosers.CLASSES, signs, told)
    suspected = suspects.suspects(joined)
    if not suspected and _names_nobody(ranked.verdict):
        suspected = first_exits.suspects(joined)
    if not suspected and ranked.verdict is None and ranked.outcome == "inconclusive":
        suspected = fallen_behind.suspects(joined) or suspects.awaited(joined)
    ranked = dataclasses.replace(ranked, suspects=suspected)
    ranked = onset.with_call(joined, ranked)
    ranked, told_of = quotes.quoted(joined, ranked, onset.of(joined, ranked))
    may_gain = ranked.outcome != "failure" and _may_only_be_slow(ranked)
    told_of = dataclasses.replace(
        told_of,
        clue=clue.of(joined, ranked),
        last_line=own_log.last_line(joined, ranked, told_of.onset, sources),
        gain=slow_ranks.gain(joined) if may_gain else None,
    )
    ranked = actions.completed(joined, ranked, told_of.last_line)
    if ranked.verdict is None:
        joined = unknown_failures.noted(joined)
    return ranked, build(ranked, joined, diagnosers.CLASSES, told_of)
