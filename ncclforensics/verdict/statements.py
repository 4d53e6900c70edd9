"""What the diagnosers find and rule out, and what they lack the evidence to see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.diagnosers import CLASSES, FAMILIES
from ncclforensics.model.findings import Finding, NotChecked
from ncclforensics.verdict import ruled_out

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames


def statements(
    frames: Frames,
    select: frozenset[str] = frozenset(),
    ignore: frozenset[str] = frozenset(),
) -> Iterator[Statement]:
    """Run the diagnosers of the classes wanted, each if it has anything to see.

    Then come the answers to what everybody asks, and at last what could not be checked
    for want of any evidence; both in the order in which it most often would have told.
    """
    told: list[Statement] = []
    blind: list[Statement] = []
    wanted = [c for c in CLASSES if (not select or c in select) and c not in ignore]
    for diagnoser in map(CLASSES.__getitem__, wanted):
        lacking = NotChecked(diagnoser.slug, diagnoser.missing, diagnoser.next_time)
        seeing = can_see(frames, diagnoser.needs)
        said = list(diagnoser.diagnose(frames)) if seeing else [lacking]
        (blind if lacking in said else told).extend(said)
    # what one class says of itself is better than the answer to a general question
    own_words = {s.slug for s in told if not isinstance(s, Finding)}
    answers = [s for s in ruled_out.asked(frames, told) if s.slug in wanted]
    answers = [s for s in answers if s.slug not in own_words]
    answered = {s.slug for s in answers}
    yield from told
    yield from sorted(answers, key=lambda s: FAMILIES.index(CLASSES[s.slug].family))
    for own in sorted(blind, key=lambda s: FAMILIES.index(CLASSES[s.slug].family)):
        if own.slug not in answered:
            yield own


def can_see(frames: Frames, needs: tuple[str, ...]) -> bool:
    """Whether any of these frames has rows, or any message of these ids was read."""
    return any(
        frames.has(need) or any(found.startswith(need) for found in frames.messages)
        for need in needs
    )
