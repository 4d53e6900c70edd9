"""Loads paths into the timeline's model; runs in a worker and touches no widget."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ncclforensics.correlate.runs import job
from ncclforensics.engine import answers
from ncclforensics.report.coverage import recognised
from ncclforensics.report.formats.as_json import load as load_report
from ncclforensics.report.late_ranks import late_ranks
from ncclforensics.report.phrases import GIVE
from ncclforensics.report.timeline.build import build
from ncclforensics.tui import exported
from ncclforensics.tui.model.clock import Clock, clock
from ncclforensics.tui.model.excerpt import excerpt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Executor

    from ncclforensics.analysis import Analysis
    from ncclforensics.model.span import Span
    from ncclforensics.report.contract import Report
    from ncclforensics.report.late_ranks import LateRanks
    from ncclforensics.report.timeline.first_pass import Tick
    from ncclforensics.report.timeline.timeline import Timeline
    from ncclforensics.sources import Source


# Returns as text what differs between another attempt or job, by its name, and the one
# that is loaded. The folder is for archives, the number the width of a line.
Compare: TypeAlias = "Callable[[Request, str, Loaded, Path, int], str]"


class Interrupted(Exception):  # noqa: N818 - it is no error
    """The user quit while loading."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to show: paths, options of the analysis, processes, and the cache."""

    paths: tuple[str, ...]
    world_size: int | None = None
    select: frozenset[str] = frozenset()
    ignore: frozenset[str] = frozenset()
    span: Span | None = None
    executor: Executor | None = None
    kept: Path | None = None
    compare: Compare | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """A report, and if there are frames, the timeline and the files of the evidence.

    `cached` is how many seconds the run took whose answer this is, None for a new one.
    """

    report: Report
    timeline: Timeline | None = None
    clock: Clock | None = None
    sources: Mapping[str, Source] = field(default_factory=dict)
    why_empty: str = ""
    cached: float | None = None
    late_ranks: LateRanks | None = None

    def excerpt(self, name: str, line: int | None) -> list[tuple[str, str]]:
        """Return the lines around a citation as (style, text).

        Without evidence, one line says so; an unknown source or line yields none.
        """
        source = self.sources.get(name)
        if source is None or line is None:
            why = "the evidence itself was not given" if not self.sources else ""
            return [("dim", why)] if why else []
        return excerpt(source, line)


NO_FRAMES = (
    "A saved report has the verdict and what it cites, and no calls to draw.\n"
    "For the timeline give the evidence itself, or an export with frames."
)
NO_CALLS = "No rank of this evidence made a call or printed a line that is known."


def load(
    request: Request,
    scratch: Path,
    tick: Tick,
    told: Callable[[Report], None] = lambda _: None,
) -> Loaded:
    """Analyze evidence, or read a saved report or an export.

    `tick` is called with a word, the amount done and the total; it raises Interrupted
    to end the work. `told` is called with the report, before anything is drawn. Raises
    UsageError on paths that cannot be used.
    """
    if len(request.paths) == 1:
        path = Path(request.paths[0])
        saved = load_report(path)
        if saved is not None:
            return Loaded(saved, why_empty=NO_FRAMES)
        found = exported.read(path, scratch)
        if found is not None:
            steps = job.steps(found.frames)
            made = build(
                found.frames, found.report, calls=found.calls, steps=steps, tick=tick
            )
            shown = _shown(found.report, made, {})
            return replace(shown, late_ranks=late_ranks(found.report, found.frames))
    tick("looking at files", 0, 0)
    known = _known(request, scratch)
    analysis = known or _analyzed(request, scratch, tick)
    told(analysis.report)
    tick("drawing", 0, 0)
    steps = job.steps(analysis.frames)
    made = build(analysis.frames, analysis.report, steps=steps, tick=tick)
    sources = {source.name: source for source in analysis.sources}
    shown = _shown(analysis.report, made, sources)
    shown = replace(shown, late_ranks=late_ranks(analysis.report, analysis.frames))
    return shown if known is None else replace(shown, cached=known.seconds)


def _known(request: Request, scratch: Path) -> answers.Again | None:
    """Return the analysis of an earlier run, before the parsers are loaded."""
    if request.kept is None:
        return None
    span = (None, None) if not (s := request.span) else (s.since, s.until)
    chosen = (request.world_size, request.select, request.ignore, None)
    seen = answers.look(request.paths, answers.asked(*chosen, *span))
    paths = request.paths
    return None if seen is None else answers.again(request.kept, seen, paths, scratch)


def _analyzed(request: Request, scratch: Path, tick: Tick) -> Analysis:
    # importing parsers is slow, and a saved report does not need them
    from ncclforensics.analysis import analyze
    from ncclforensics.model.span import ALWAYS

    def reading(done: int, whole: int) -> None:
        tick("reading files", done, whole)
        if done == whole:
            tick("looking for the cause", 0, 0)

    return analyze(
        request.paths,
        executor=request.executor,
        world_size=request.world_size,
        select=request.select,
        ignore=request.ignore,
        span=request.span or ALWAYS,
        progress=reading,
        scratch=scratch,
        kept=request.kept,
    )


def _shown(report: Report, made: Timeline, sources: Mapping[str, Source]) -> Loaded:
    empty = NO_CALLS if made.is_empty else ""
    if not recognised(report):
        empty = GIVE
    return Loaded(report, made, clock(made), sources, empty)
