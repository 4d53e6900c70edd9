"""Whether there was any evidence: what was recognised, and what was not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ncclforensics.model.notes import INTERRUPTED, UNKNOWN

if TYPE_CHECKING:
    from ncclforensics.report.contract import Note, Report, SourceFile

_UNREAD = frozenset({"unknown", "empty", "pickle"})
_NUMBER = re.compile(r"\d+")


def was_read(source: SourceFile) -> bool:
    """Whether anything in a file was recognised."""
    return source.kind not in _UNREAD and (source.rows is None or source.rows > 0)


def refused(report: Report) -> int:
    """Count the files of the job that could not be read completely, or at all.

    Such a file counts if its name equals that of a file that was read, except for
    numbers. Others, such as a log that only root may read, need not belong to the job.
    """
    names = {_unnumbered(s) for s in report.sources if was_read(s) and s.sha256}
    return sum(s.sha256 is None and _unnumbered(s) in names for s in report.sources)


def _unnumbered(source: SourceFile) -> str:
    return _NUMBER.sub("0", source.source)


def interrupted(report: Report) -> Note | None:
    """Return the note on interrupted reading, or None."""
    return _noted(report, INTERRUPTED)


def unknown(report: Report) -> Note | None:
    """Return the note on lines that read as a failure and are not known, or None."""
    return _noted(report, UNKNOWN)


def _noted(report: Report, stage: str) -> Note | None:
    return next((note for note in report.notes if note.stage == stage), None)


def recognised(report: Report) -> bool:
    """Whether there was any evidence at all; if not, the exit code is 3."""
    return bool(report.findings) or any(was_read(source) for source in report.sources)
