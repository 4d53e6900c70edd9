"""Reads one side of a comparison: evidence, a saved report, or an export with frames.

`PATH#NAME` is one attempt, or one job, of several in the evidence at PATH.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ncclforensics.model.errors import UsageError
from ncclforensics.report.formats.as_json import load

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from ncclforensics.model.frames import Frames
    from ncclforensics.report.contract import Report


@dataclass(frozen=True, slots=True)
class Side:
    """One side by the name that was typed; a saved report has no frames."""

    name: str
    report: Report
    frames: Frames | None
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """How evidence is read: processes, cache, progress, and a folder for archives."""

    scratch: Path
    executor: Executor | None = None
    kept: Path | None = None
    progress: Callable[[int, int], None] | None = None


def side(name: str, reading: Reading) -> Side:
    """Read one side; raises UsageError on a path or a part that is not there."""
    path, mark, part = name.rpartition("#")
    if not mark or Path(name).exists():
        path, part = name, ""
    if not part and (saved := load(Path(path))) is not None:
        return Side(name, saved, None)
    from ncclforensics.tui import exported

    folder = Path(tempfile.mkdtemp(dir=reading.scratch))
    if not part and (found := exported.read(Path(path), folder)) is not None:
        calls = {exported.CALLS: found.calls.collect()}
        frames = found.frames.adding(**calls)
        return Side(name, found.report, frames)
    from ncclforensics.analysis import analyze

    told = analyze(
        [path],
        executor=reading.executor,
        progress=reading.progress,
        scratch=folder,
        kept=reading.kept,
        part=part or None,
    )
    return Side(name, told.report, told.frames, told.interrupted)


def parts(found: Side) -> list[str]:
    """Return the names of the other jobs and attempts in the evidence of a side."""
    told = ((other.job, other.attempt) for other in found.report.others)
    return [str(attempt) if job is None else job for job, attempt in told]


def pair(names: tuple[str, ...], reading: Reading) -> tuple[Side, Side]:
    """Read both sides; a single path stands for the last two attempts or jobs in it."""
    if len(names) == 2:
        return side(names[0], reading), side(names[1], reading)
    after = side(names[0], reading)
    if not (others := parts(after)):
        raise UsageError(f"{names[0]} holds one run: give another to compare it with")
    return side(f"{names[0]}#{others[-1]}", reading), after
