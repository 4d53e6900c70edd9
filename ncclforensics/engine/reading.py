"""Reads all sources: in this process, in a pool, or on a given executor.

The result for a source does not depend on which process reads it or on other sources;
the parts are joined in the order of the sources. The work of a lost process is repeated
in this process, where each dump is probed in a child first, because a dump may have
killed the worker.
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import accumulate, groupby
from typing import TYPE_CHECKING

from ncclforensics.correlate.traces.call_summary import outlined
from ncclforensics.engine import pool
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames, PartialRead, join
from ncclforensics.model.notes import INTERRUPTED, Note
from ncclforensics.parsers import parse_all
from ncclforensics.parsers.logs import grammar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Executor

    from ncclforensics.sources import Source

# Bytes of sources that are read together, because much work is per batch. More evidence
# makes larger batches, but PARTS per process, so that all processes finish together.
BATCH_BYTES = 4 * 1024**2
MOST_BYTES = 16 * 1024**2
PARTS = 16
# logs are read in parallel by threads, so their batches are larger
MOST_LOG_BYTES = 512 * 1024**2
HERE_LOG_BYTES = 1024**3
MUCH_LOG_BYTES = 32 * 1024**2  # of which each block takes the memory of the last one


def read(
    sources: Sequence[Source],
    notes: Iterable[Note] = (),
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Frames:
    """Parse all sources and return their joined frames, in order; `notes` come first.

    Without an executor, starts processes if there is enough to read. A keyboard
    interrupt ends reading; what was read so far is returned, with a note. It is
    re-raised if nothing was read. `progress` is called with (files read, files in
    total) after each file.
    """
    told = list(notes)
    lost: dict[Note, None] = {}  # once each, for whatever was lost by it
    parts = []
    done = shown = 0
    with ExitStack() as stack:
        if any(source.kind == "log" for source in sources):
            grammar.load()  # before forking, so that the workers inherit it
        if executor is None:
            executor = stack.enter_context(pool.processes(_worker_count(sources)))
        here = isinstance(executor, pool.Here)
        if here and sum(s.bytes for s in sources if s.kind == "log") > MUCH_LOG_BYTES:
            pool.keep_memory()
        batches = [
            batch
            for is_log, run in groupby(sources, lambda source: source.kind == "log")
            for batch in _batches(list(run), is_log, here)
        ]
        read_by = pool.spread(
            parse_all if here else parsed,
            batches,
            executor,
            lambda error: lost.update({_lost(error): None}),
        )
        try:
            for batch, part in zip(batches, read_by, strict=True):
                parts.append(part)
                done += len(batch)
                while progress is not None and shown < done:
                    shown += 1
                    progress(shown, len(sources))
        except KeyboardInterrupt as interrupt:
            if isinstance(interrupt, PartialRead):
                parts.append(interrupt.frames)
                done += interrupt.done
            if not parts:
                raise
            read_ = f"{done:,} of {len(sources):,} files were read"
            told.append(Note(INTERRUPTED, f"reading was interrupted: {read_}"))
    return join([Frames({"notes": tables.noted([*told, *lost])}), *parts])


def _worker_count(sources: Sequence[Source]) -> int:
    logs = [source.bytes for source in sources if source.kind == "log"]
    others = [source.bytes for source in sources if source.kind != "log"]
    for_logs = pool.worker_count(logs, pool.PAYS_LOG_BYTES)
    return max(for_logs, pool.worker_count(others, pool.pays_bytes()))


def parsed(sources: Sequence[Source]) -> Frames:
    """Parse sources, join their frames and add the outline of their calls."""
    return outlined(parse_all(sources))


def _batches(
    sources: Sequence[Source], is_log: bool, here: bool
) -> Iterator[Sequence[Source]]:
    """Split sources into runs of similar size, large enough to send to a process."""
    ends = list(accumulate(source.bytes for source in sources))
    if not is_log:
        share = ends[-1] // (pool.cores() * PARTS)
        each = min(MOST_BYTES, max(share, BATCH_BYTES))
    elif here:
        each = HERE_LOG_BYTES
    else:
        rounds = 1 + ends[-1] // (pool.cores() * MOST_LOG_BYTES)
        each = 1 + ends[-1] // (pool.cores() * rounds)
    numbered = zip([0, *ends], sources, strict=False)
    for _, run in groupby(numbered, lambda told: told[0] // max(each, 1)):
        yield [source for _, source in run]


def _lost(error: BaseException) -> Note:
    why = str(error) or type(error).__name__
    told = f"it {why}" if isinstance(error, pool.LostError) else why
    return Note("parsers", f"a worker process was lost and its work done again: {told}")
