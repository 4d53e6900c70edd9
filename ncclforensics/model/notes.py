"""A note: what a stage found damaged, skipped or assumed.

Damaged input is normal, so no stage raises on it: it keeps what is readable and leaves
a note, which the report prints with file and line.
"""

from __future__ import annotations

from dataclasses import dataclass

UNKNOWN = "unknown"  # a line that reads as a failure
INTERRUPTED = "interrupted"  # the stage of the note left by Ctrl-C during reading


@dataclass(frozen=True, slots=True, order=True)
class Note:
    """A row of the `notes` frame; `stage` is the package that left it."""

    stage: str
    text: str
    source: str | None = None
    line: int | None = None
