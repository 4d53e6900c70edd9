"""The whole way, start to end: evidence in, one report out.

    sources -> parsers -> frames -> correlate -> diagnosers -> ranking -> report

Parsing is a pure function of one source, so an executor is the only seam for going
wider; everything after it works on frames of the whole job.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from ncclforensics import diagnosers, excerpts, pool, ranking, tables
from ncclforensics.correlate import correlate, job
from ncclforensics.correlate.outline import outlined
from ncclforensics.notes import Note
from ncclforensics.parsers import parse_all
from ncclforensics.report.build import build
from ncclforensics.sources import discover

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Executor

    from ncclforensics.findings import Ranked
    from ncclforensics.report.contract import Report
    from ncclforensics.report.details import Excerpt
    from ncclforensics.sources import Source
    from ncclforensics.tables import Frames

# sources that one process reads at a time: logs are read by threads, side by side
BATCH_BYTES = 4 * 1024**2
BATCH_LOG_BYTES = 64 * 1024**2
HERE_LOG_BYTES = 1024**3


@dataclass(frozen=True, slots=True)
class Analysis:
    """What came of one run: the frames, the findings in order, and the report.

    `excerpts` are the lines around what the report cites, where they were asked for.
    `sources` can be opened for as long as their scratch folder is there.
    """

    frames: Frames
    ranked: Ranked
    report: Report
    excerpts: tuple[Excerpt, ...] = ()
    sources: tuple[Source, ...] = ()


def analyze(
    paths: Sequence[str],
    *,
    executor: Executor | None = None,
    world_size: int | None = None,
    select: frozenset[str] = frozenset(),
    ignore: frozenset[str] = frozenset(),
    progress: Callable[[int, int], None] | None = None,
    quote: bool = False,
    scratch: Path | None = None,
) -> Analysis:
    """Analyze evidence: directories, files, globs, archives, or `-` for stdin.

    `executor` parses sources elsewhere than in this process. `world_size` overrides
    what the evidence says of it. `select` and `ignore` are classes. `progress` is
    called with the sources read and all of them; what it raises ends the analysis.
    `quote` also reads the lines around what is cited. `scratch` is a folder to unpack
    archives in that outlives the call. Raises UsageError on a path that does not exist,
    and nothing on what lies in the evidence.
    """
    with ExitStack() as stack:
        if scratch is None:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        found = discover(paths, scratch)
        frames = read(found.sources, found.notes, executor, progress)
        joined = correlate(frames)
        ranked, built = conclude(joined, world_size, select, ignore)
        quoted = excerpts.read(built, found.sources) if quote else ()
    return Analysis(joined, ranked, built, quoted, tuple(found.sources))


def conclude(
    joined: Frames,
    world_size: int | None = None,
    select: frozenset[str] = frozenset(),
    ignore: frozenset[str] = frozenset(),
) -> tuple[Ranked, Report]:
    """Return what correlated frames, just made or exported once, say of the failure."""
    told = job.facts(joined, world_size)
    statements = diagnosers.diagnose(joined, select, ignore)
    signs = job.signs_of_failure(joined)
    ranked = ranking.rank(statements, diagnosers.CLASSES, signs, told)
    return ranked, build(ranked, joined, diagnosers.CLASSES)


def read(
    sources: Sequence[Source],
    notes: Iterable[Note] = (),
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Frames:
    """Parse every source, in order, and stack what they give; `notes` come first.

    Without an executor, processes are started where there is enough to read.
    """
    told = list(notes)
    parts = []
    done = 0
    with ExitStack() as stack:
        if executor is None:
            others = [source for source in sources if source.kind != "log"]
            much = sum(source.bytes for source in others) >= pool.PAYS_BYTES
            jobs = None if much and len(others) > 1 else 1
            executor = stack.enter_context(pool.processes(jobs))
        here = isinstance(executor, pool.Here)
        batches = [
            batch
            for is_log, run in groupby(sources, lambda source: source.kind == "log")
            for batch in _batches(
                run,
                (HERE_LOG_BYTES if here else BATCH_LOG_BYTES)
                if is_log
                else (0 if here else BATCH_BYTES),
            )
        ]
        read_by = pool.spread(
            parse_all if here else parsed,
            batches,
            executor,
            lambda error: told.append(_lost(error)),
        )
        for batch, part in zip(batches, read_by, strict=True):
            parts.append(part)
            for _ in batch:
                done += 1
                if progress is not None:
                    progress(done, len(sources))
    return tables.join([tables.Frames({"notes": tables.noted(told)}), *parts])


def parsed(sources: Sequence[Source]) -> Frames:
    """Parse some sources, stack what they give and outline their calls."""
    return outlined(parse_all(sources))


def _batches(sources: Iterable[Source], most: int) -> Iterator[Sequence[Source]]:
    """Cut sources into runs of `most` bytes, worth a message between processes."""
    batch: list[Source] = []
    for source in sources:
        if batch and sum(s.bytes for s in (*batch, source)) > most:
            yield batch
            batch = []
        batch.append(source)
    if batch:
        yield batch


def _lost(error: BaseException) -> Note:
    why = str(error) or type(error).__name__
    return Note("parsers", f"a process that read was lost, its work done again: {why}")
