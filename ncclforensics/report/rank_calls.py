"""The chart of the page: what each rank did in the calls around the one that failed.

Ranks that look alike in these calls share a row. Calls are in the order in which the
job made them, over all kinds of groups, as in the timeline. Whatever does not fit is
counted, so that the page can say how much is left out.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from msgspec import Struct

from ncclforensics.model.folding import fold_ranks
from ncclforensics.report.sanitize import line
from ncclforensics.report.timeline.axis import EXIT
from ncclforensics.report.timeline.build import build
from ncclforensics.report.timeline.naming import brief_name
from ncclforensics.report.timeline.start_position import opening_place
from ncclforensics.report.timeline.states import (
    BLANK,
    EXITED,
    RUNNING,
    STATES,
    UNSEEN,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ncclforensics.model.frames import Frames
    from ncclforensics.report.contract import Report
    from ncclforensics.report.timeline.timeline import Timeline

MOST_COLUMNS, MOST_ROWS = 32, 28
BEFORE = 24  # columns to the left of the call that the report is about
NAME, STAND = 300, 40  # characters; names are cut to fit only once they are redacted
SUSPECTED = "suspected"
FAILED = range(RUNNING, len(STATES))
Key = tuple[str, tuple[int, ...]]


class Row(Struct, frozen=True):
    """Ranks that look alike: who they are, a state for each column, where they stand.

    `who` is "culprit", "possible culprit", "suspected" or "". `cells` has the numbers
    of `timeline.states`.
    """

    ranks: str
    many: int
    who: str
    cells: tuple[int, ...]
    stand: str


class RankCalls(Struct, frozen=True):
    """Rows of ranks over columns of calls; `at` is the column of the failed call.

    `kinds` has the letter and the name of each kind of group; without letters there is
    one kind. The other numbers count what is left out.
    """

    columns: tuple[str, ...]
    at: int
    kinds: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]
    earlier: int = 0
    later: int = 0
    more_rows: int = 0
    more_ranks: int = 0


def rank_calls(report: Report, frames: Frames) -> RankCalls | None:
    """Return the chart; None without calls, or if no rank waits, lacks or ended."""
    timeline = build(frames, report)
    columns = timeline.columns
    # a call that only a log tells of may have no number
    calls = [
        col
        for col in columns.merged
        if columns.kind_of(col).is_call and columns.numbers[col] is not None
    ]
    place = opening_place(timeline, report)
    if not calls or place is None:
        return None
    at = calls.index(place[1]) if place[1] in calls else len(calls) - 1
    first = max(min(at - BEFORE, len(calls) - MOST_COLUMNS), 0)
    shown = calls[first : first + MOST_COLUMNS]
    found = _rows(report, timeline, shown)
    states = {state for row in found for state in row.cells}
    if states <= {BLANK, UNSEEN, EXITED} or not states & {EXITED, *FAILED}:
        return None
    rows = _most_telling(found)
    several = sum(kind.is_call for kind in columns.kinds) > 1
    kinds = {kind.name: kind for kind in map(columns.kind_of, shown)}.values()
    letters = {kind.name: kind.letter if several else "" for kind in kinds}
    names = [
        f"{letters[columns.kind_of(col).name]}{columns.numbers[col]}" for col in shown
    ]
    named = ((letters[name], line(brief_name(name), NAME)) for name in letters)
    return RankCalls(
        columns=(*names, *(["exit"] if columns.kind(EXIT) else [])),
        at=at - first,
        kinds=tuple(sorted(named)),
        rows=tuple(rows),
        earlier=first,
        later=len(calls) - first - len(shown),
        more_rows=len(found) - len(rows),
        more_ranks=sum(row.many for row in found) - sum(row.many for row in rows),
    )


def _rows(report: Report, timeline: Timeline, shown: Sequence[int]) -> list[Row]:
    """Fold the ranks that are the same person and look the same in `shown`."""
    named = accused(report)
    ends = timeline.columns.kind(EXIT)
    picked = itemgetter(*shown, shown[0])  # of one column it would give no tuple
    alike: dict[Key, list[int]] = {}
    stands: dict[Key, set[str]] = {}
    for rank, cells, suspected, brief in timeline.rows.select(
        "rank", "cells", "suspected", "brief"
    ).iter_rows():
        who = named.get(rank, SUSPECTED if suspected else "")
        states = picked(cells)[:-1]
        if ends is not None:
            states += (max(cells[ends.first : ends.end]),)
        alike.setdefault((who, states), []).append(rank)
        stands.setdefault((who, states), set()).add(brief)
    return [
        Row(fold_ranks(ranks), len(ranks), *key, _only(stands[key]))
        for key, ranks in alike.items()
        if key[0] or any(state != BLANK for state in key[1])
    ]


def accused(report: Report) -> dict[int, str]:
    """Return the ranks that the verdict names, and how surely it does."""
    verdict = report.verdict
    if verdict is None:
        return {}
    sure = report.outcome == "failure" and verdict.confidence != "possible"
    word = "culprit" if sure else "possible culprit"
    return dict.fromkeys(verdict.culprits.ranks, word)


def _most_telling(rows: Sequence[Row]) -> list[Row]:
    """Return MOST_ROWS rows: who is named, then the largest; small ones on top."""
    kept = sorted(rows, key=lambda row: (_order(row), -row.many))[:MOST_ROWS]
    return sorted(kept, key=lambda row: (_order(row), row.many))


def _order(row: Row) -> int:
    return 2 if not row.who else int(row.who == SUSPECTED)


def _only(texts: Iterable[str]) -> str:
    """Return the text that all ranks of a row have in common, or ""."""
    found = list(texts)
    return line(found[0], STAND) if len(found) == 1 else ""
