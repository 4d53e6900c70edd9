"""The pictures of the HTML page in their order, each with its heading and its notes.

A picture without anything to show is left out. What a picture leaves out is said below
it, with the command that shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncclforensics.model.folding import count
from ncclforensics.report.formats.svg import (
    late_ranks,
    lost_time,
    rank_calls,
    signs,
    waits,
)
from ncclforensics.report.late_ranks import legend as levels_of_late_ranks
from ncclforensics.report.text_layout import shorten

if TYPE_CHECKING:
    from markupsafe import Markup

    from ncclforensics.report.contract import Report
    from ncclforensics.report.details import Details
    from ncclforensics.report.rank_calls import RankCalls
    from ncclforensics.report.wait_groups import WaitGroups

NAME = 40  # characters of a kind of groups
TIMELINE = "`ncclforensics timeline` shows them"


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture: heading, drawing, (letter, word, meaning) of its states, notes."""

    title: str
    drawn: Markup
    legend: tuple[tuple[str, str, str], ...] = ()
    notes: tuple[str, ...] = ()


def pictures(report: Report, details: Details) -> list[Picture]:
    """Return the pictures of a page, those of the culprit before the first signs."""
    found = []
    notes: tuple[str, ...]
    if report.onset is not None and (bar := lost_time.lost_time(report.onset)):
        found.append(Picture("How long nobody noticed", bar))
    if (told := details.rank_calls) is not None:
        states = tuple(rank_calls.legend(told))
        drawn = rank_calls.rank_calls(told)
        found.append(Picture("What each rank did", drawn, states, _about(told)))
    if (late := details.late_ranks) is not None:
        more = f"{count(late.more_rows, 'row')} left out, of faster ranks"
        notes = ("the oldest calls are on the left", *(more,) * bool(late.more_rows))
        drawn, levels = late_ranks.late_ranks(late), tuple(levels_of_late_ranks())
        found.append(Picture("Who is slower than its peers", drawn, levels, notes))
    if (groups := details.waits) is not None:
        said = _leads(report, groups)
        drawn = waits.waits(groups, said)
        more = f"{_wait(count(groups.more_ranks, 'more rank'))}: {TIMELINE}"
        notes = (said, more) if groups.more_ranks else (said,)
        found.append(Picture("Where the waits lead", drawn, notes=notes))
    if details.signs:
        more = count(details.more_signs, "more sign")
        notes = (f"{more}: the exported frames have them",) * bool(details.more_signs)
        drawn = signs.signs(details.signs)
        found.append(Picture("When it was first noticed", drawn, notes=notes))
    return found


def _about(told: RankCalls) -> tuple[str, ...]:
    """Return the names of the columns, and what does not fit."""
    names = [f"{a} {shorten(name, NAME)}".strip() for a, name in told.kinds]
    cut = [
        (told.earlier, count(told.earlier, "earlier call")),
        (told.later, count(told.later, "later call")),
        (
            told.more_rows,
            f"{count(told.more_rows, 'row')} of {count(told.more_ranks, 'rank')}",
        ),
    ]
    left = ", ".join(words for many, words in cut if many)
    columns = f"A column is a call, by its number in: {' · '.join(names)}"
    return (columns, f"Left out: {left}; {TIMELINE}") if left else (columns,)


def _leads(report: Report, groups: WaitGroups) -> str:
    """Return who waits for whom in one line: the step of the chain, if it has one."""
    for step in report.chain:
        if step.part == "spread" and step.slug is None:
            return step.text
    last = " and ".join(box.lines[0] for box in groups.boxes if not box.level)
    return f"{_wait(count(groups.ranks, 'rank'))} for {last}"


def _wait(ranks: str) -> str:
    """Return "1 rank waits" or "2 ranks wait"."""
    return f"{ranks} wait" if ranks.endswith("s") else f"{ranks} waits"
