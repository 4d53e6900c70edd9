"""A note: what a stage found damaged, skipped or assumed.

Damage is normal input, so no stage raises on it: it keeps what was readable and leaves
a note, which the report prints with the file and the line.
"""

from __future__ import annotations

from dataclasses import dataclass

INTERRUPTED = "interrupted"  # the stage that speaks where somebody ended the reading


@dataclass(frozen=True, slots=True, order=True)
class Note:
    """A row of the `notes` frame; `stage` is the package that speaks."""

    stage: str
    text: str
    source: str | None = None
    line: int | None = None
