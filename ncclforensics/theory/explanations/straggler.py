"""Ranks that joined a call after the timeout of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.evidence import common
from ncclforensics.theory.story import Story, culprits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.theory.case import Case
    from ncclforensics.theory.ends import End


def propose(case: Case, end: End) -> Iterator[Story]:
    """Blame the ranks that joined a call of the end later than its timeout."""
    for number in end.calls:
        call = case.calls[number]
        if number in case.late:
            ranks, what = common.numbers(case.late[number]["rank"]), ""
        else:
            ranks, what = case.late_at_work(number), "at work"
        if not ranks:
            continue
        came = sum(len(call[state] or ()) for state in CAME)
        yield Story(
            "straggler",
            ranks,
            call,
            what=what,
            costs=(
                ("straggler", 1.0),
                *culprits(case, ranks),
                ("unexplained wait", max(0, len(call["members"] or ()) - came)),
            ),
        )


CAME = ("waiting", "behind", "done", "unseen")
