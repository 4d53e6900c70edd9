"""The states of a cell: one byte each, with a character that works without colour.

If a cell represents several calls, the highest number wins, so that zooming out never
hides a failure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

BLANK, DONE, UNSEEN, QUEUED, AWAY, LOGGED, EXITED = range(7)
RUNNING, WAITING, LATE, ABSENT, MISMATCHED = range(7, 12)
FIRST_FAILING = LOGGED


@dataclass(frozen=True, slots=True)
class State:
    """How a state is drawn, and what it means."""

    char: str
    word: str
    meaning: str
    style: str


STATES = (
    State(" ", "nothing", "no such call on this rank", ""),
    State("·", "done", "the call finished", "dim"),
    State("?", "unseen", "no evidence: no dump, or evicted from the ring", "dim"),
    State("q", "queued", "made, and held up behind an earlier call", "blue"),
    State("x", "away", "not made, because the rank waits in another call", "yellow"),
    State("!", "logged", "a log line of a failure, or one that accuses", "yellow"),
    State("E", "exited", "the process ended with an error", "bold red"),
    State("r", "running", "started on the GPU, and not finished", "bold cyan"),
    State("w", "waiting", "made, not finished; waits for others", "bold yellow"),
    State("L", "late", "came half a second or more after the others", "bold magenta"),
    State("X", "absent", "never made a call that others wait in", "bold white on red"),
    State("#", "mismatched", "made another call there", "bold white on magenta"),
)
CHARS = "".join(state.char for state in STATES)
_TABLE = dict(enumerate(CHARS))


def text(cells: bytes) -> str:
    """Return cells as text, one character each."""
    return cells.decode("latin-1").translate(_TABLE)


def occurring(rows: Iterable[bytes]) -> list[State]:
    """Return the states that occur in rows of cells, the worst first."""
    seen = bytes([BLANK])
    for row in rows:
        seen += bytes(set(row.translate(None, seen)))
    return [STATES[code] for code in sorted(seen, reverse=True) if code != BLANK]
