"""Runs the analysis for a command, or finds the answer of an earlier run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ncclforensics.cli import console, options
from ncclforensics.model.words import cached

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.analysis import Analysis
    from ncclforensics.report.contract import Report
    from ncclforensics.sources import Source


def report(
    paths: Sequence[str],
    jobs: int | None,
    no_cache: bool,
    world_size: int | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    since: str | None = None,
    until: str | None = None,
    *,
    hushed: bool,
) -> tuple[Report, bool, Sequence[Source]]:
    """Return the report, whether reading was interrupted, and the files of evidence.

    An answer that is there is told before polars and the parsers are loaded.
    """
    # the commands are imported to build the manual, where nothing else is installed
    from ncclforensics.engine import answers
    from ncclforensics.report import coverage

    chosen = (world_size, select, ignore, since, until)
    if not any(chosen) and (found := answers.report(options.kept(no_cache), paths)):
        _say(found.seconds, hushed=hushed)
        interrupted = coverage.interrupted(found.report) is not None
        return found.report, interrupted, found.files() or ()
    made = analysis(paths, jobs, no_cache, *chosen, hushed=hushed)
    return made.report, made.interrupted, made.sources


def analysis(
    paths: Sequence[str],
    jobs: int | None,
    no_cache: bool,
    world_size: int | None,
    select: Sequence[str],
    ignore: Sequence[str],
    since: str | None,
    until: str | None,
    *,
    hushed: bool,
    quote: bool = False,
    **_: Any,
) -> Analysis:
    """Analyze the evidence as the options say, with progress unless it is `hushed`."""
    from ncclforensics.analysis import analyze

    with options.processes(jobs) as executor:
        made = analyze(
            paths,
            executor=executor,
            world_size=world_size,
            select=options.classes(select),
            ignore=options.classes(ignore),
            span=options.span(since, until),
            progress=console.progress(enabled=not hushed),
            kept=options.kept(no_cache),
            quote=quote,
        )
    console.wipe()
    if made.cached is not None:
        _say(made.cached, hushed=hushed)
    return made


def _say(seconds: float, *, hushed: bool) -> None:
    if not hushed:
        console.say(cached(seconds))
