"""Run the diagnosers: what they find and rule out, and what they could not check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.diagnosers import CLASSES, FAMILIES
from ncclforensics.model.errors import reason
from ncclforensics.model.findings import Finding, NotChecked
from ncclforensics.verdict import ruled_out

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAULT = "a fault of this tool ended the check"
REPORT = "report it as a bug of ncclforensics"


def statements(
    frames: Frames,
    select: frozenset[str] = frozenset(),
    ignore: frozenset[str] = frozenset(),
) -> Iterator[Statement]:
    """Yield the statements of the wanted classes whose evidence is present.

    `select` and `ignore` are slugs; an empty `select` means all. Then come the answers
    of `ruled_out.asked`, and last the classes that could not be checked for lack of
    evidence, or for a fault of the check itself, which loses no other class; both in
    the order of `FAMILIES`.
    """
    told: list[Statement] = []
    blind: list[NotChecked] = []
    wanted = [c for c in CLASSES if (not select or c in select) and c not in ignore]
    for diagnoser in map(CLASSES.__getitem__, wanted):
        lacking = NotChecked(diagnoser.slug, diagnoser.missing, diagnoser.next_time)
        seeing = frames.tells(diagnoser.needs)
        try:
            said = list(diagnoser.diagnose(frames)) if seeing else [lacking]
        except Exception as error:  # evidence has forms that nobody has tried
            said = [lacking := failed(diagnoser.slug, error)]
        if lacking in said:
            blind.append(lacking)
            said.remove(lacking)
        told.extend(said)
    # a class's own statement is better than the answer to a general question
    own_words = {s.slug for s in told if not isinstance(s, Finding)}
    own_words |= {s.slug for s in blind if s.is_fault}
    answers = [s for s in ruled_out.asked(frames, told) if s.slug in wanted]
    answers = [s for s in answers if s.slug not in own_words]
    answered = {s.slug for s in answers}
    yield from told
    yield from sorted(answers, key=lambda s: FAMILIES.index(CLASSES[s.slug].family))
    for own in sorted(blind, key=lambda s: FAMILIES.index(CLASSES[s.slug].family)):
        if own.slug not in answered:
            yield own


def failed(slug: str, error: Exception) -> NotChecked:
    """Return that the check of a class failed, by an error of its own code."""
    fault = f"{FAULT} ({type(error).__name__}: {reason(error)})"
    return NotChecked(slug, fault, REPORT, is_fault=True)
