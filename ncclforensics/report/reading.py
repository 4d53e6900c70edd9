"""Whether there was any evidence: what was recognised, and what was not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.notes import INTERRUPTED

if TYPE_CHECKING:
    from ncclforensics.report.contract import Note, Report, SourceFile

_UNREAD = frozenset({"unknown", "empty", "pickle"})


def was_read(source: SourceFile) -> bool:
    """Say whether anything of a file was recognised."""
    return source.kind not in _UNREAD and (source.rows is None or source.rows > 0)


def interrupted(report: Report) -> Note | None:
    """Return the note on a reading that was interrupted, if it was."""
    return next((note for note in report.notes if note.stage == INTERRUPTED), None)


def recognised(report: Report) -> bool:
    """Say whether there was any evidence at all; if not, the exit code is 3."""
    return bool(report.findings) or any(was_read(source) for source in report.sources)
