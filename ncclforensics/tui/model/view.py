"""What is on screen: a timeline, the selected part, its lines, its scale.

Labels and cells are computed only for the requested lines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.folding import count, fold_hosts, fold_ranks, some
from ncclforensics.report.sanitize import line as clean
from ncclforensics.report.timeline import outcomes
from ncclforensics.report.timeline.naming import brief_name
from ncclforensics.report.timeline.states import FIRST_FAILING
from ncclforensics.tui.model.scale import BySequence, ByTime, Scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.report.timeline.timeline import Shown, Timeline

HOST = 14
STAND = 200  # characters after the cells


@dataclass(frozen=True, slots=True)
class Label:
    """The text before and after the cells of a line; `brief` if space is short.

    `before` are the ranks, their host or group, and the outcomes that are told.
    """

    before: tuple[str, ...]
    stand: str
    brief: str
    is_suspected: bool = False


@dataclass(slots=True, eq=False)
class View:
    """`lines` are rows.lines of the part in `shown`; `scale` computes its cells."""

    timeline: Timeline
    shown: Shown
    scale: Scale
    lines: pl.DataFrame
    line_of: dict[int, int]
    has_sections: bool
    _labels: dict[int, Label] = field(default_factory=dict)
    _told: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        """Measure the outcomes that any rank has, if there are only logs."""
        known = self.timeline.is_logs_only
        self._told = outcomes.widths(self.timeline.rows) if known else {}

    @property
    def margin(self) -> int:
        """Return the width of all labels, with what separates them from the cells."""
        return sum(self.gutter) + len(self.gutter) + 1

    @property
    def titles(self) -> tuple[str, ...]:
        """Return the headings above the labels."""
        told = (outcomes.TITLES[column] for column in self._told)
        return "ranks", self.title, *told

    @property
    def after(self) -> str:
        """Return the heading above the texts after the cells."""
        return "first error" if self.timeline.is_logs_only else ""

    @property
    def gutter(self) -> tuple[int, ...]:
        """Return the widths of the labels: ranks, hosts or groups, and outcomes."""
        digits = len(str(self.timeline.ranks[-1])) if self.timeline.ranks else 1
        ranks = max(2 * digits + 1, 5)
        if self.shown.grouping == "position":
            ranks = max(ranks, 14)
        section = HOST if self.has_sections else len(self.title)
        return ranks, section, *self._told.values()

    def label(self, line: int) -> Label:
        """Return the label of a line; cached."""
        if line not in self._labels:
            self._labels[line] = self._label(line)
        return self._labels[line]

    def _label(self, line: int) -> Label:
        row = self.lines.row(line, named=True)
        wide, host = self.gutter[:2]
        names = [name for name in row["sections"] if name]
        if self.shown.grouping == "process group":
            section = names[0] if len(names) == 1 else f"{len(names):,} groups"
            section = section if names else ""
        else:
            section = fold_hosts(names)
            if len(section) > host:
                section = count(len(names), "host") if len(names) > 1 else section
        known = self.timeline.rows.select("stand", "brief", "suspected")
        stand, brief, suspected = known.row(row["row"])
        if self.scale_is_time:
            # the letters in `brief` are explained only on the other axis
            alone = len(row["ranks"]) == 1
            drawn = "" if alone else f"(drawn: rank {row['ranks'][0]})"
            stand = brief = f"{stand} {drawn}".strip()
        own = self.timeline.rows
        own = own.filter(pl.col("rank").is_in(row["ranks"]))
        told: list[str] = []
        if self.timeline.is_logs_only:
            texts = outcomes.told(own)
            told = [texts[column] for column in self._told]
            error = next(iter(own["error"].drop_nulls()), "")
            stand = brief = "  ".join(part for part in (stand, error) if part)
        if suspected:
            stand, brief = (f"suspected {text}".strip() for text in (stand, brief))
        return Label(
            (some(fold_ranks(row["ranks"]), wide), clean(section, host), *told),
            clean(stand, STAND),
            clean(brief, STAND),
            bool(suspected),
        )

    @property
    def title(self) -> str:
        """Return the heading above hosts or groups."""
        return "group" if self.shown.grouping == "process group" else "host"

    def caption(self) -> str:
        """Describe what is shown: groups, grouping, and the meaning of letters."""
        kinds = [kind for kind in self.timeline.columns.kinds if kind.is_call]
        if self.shown.pg is not None:
            what = f"{self.shown.kind} {self.shown.pg}"
        elif self.shown.kind is not None:
            what = self.shown.kind
        elif not self.scale_is_time and len(kinds) > 1:
            names = (brief_name(kind.name) for kind in kinds)
            named = zip(kinds, names, strict=True)
            what = " ".join(f"{kind.letter}={clean(name, 32)}" for kind, name in named)
        elif kinds:
            what = "all groups" if len(kinds) > 1 else clean(kinds[0].name, 32)
        else:
            what = "a column per log message"
        by = "time" if self.scale_is_time else "SeqNum"
        rows: str = self.shown.grouping
        if rows == "process group" and (kind := self.shown.kind or self.shown.by):
            rows = f"group of {clean(kind, 32)}"
        part = "part of the " if self.scale.is_part else ""
        back = " (escape: all)" if part else ""
        return f"{part}timeline by {rows}, {by}{back}: {what}"

    @property
    def scale_is_time(self) -> bool:
        """Whether the axis is time."""
        return isinstance(self.scale, ByTime)

    def row(self, line: int) -> int:
        """Return the first row of a line."""
        return int(self.lines["row"][line])

    def ranks(self, line: int) -> list[int]:
        """Return the ranks of a line."""
        ranks: list[int] = self.lines["ranks"][line].to_list()
        return ranks

    def cells(self, lines: Sequence[int], begin: int, width: int) -> list[bytes]:
        """Return `width` cells, from cell `begin` on, for each of `lines`."""
        rows = [self.row(line) for line in lines]
        scale, timeline = self.scale, self.timeline
        if isinstance(scale, BySequence):
            return [scale.cells(timeline.cells(row), begin, width) for row in rows]
        width = min(width, scale.size - begin)
        if width <= 0:
            return [b""] * len(rows)
        start = scale.time(begin)
        return scale.clock.paint(timeline, rows, start, scale.bucket, width)

    def failures(self, row: int) -> list[int]:
        """Return the visible columns in which a row has a failing state."""
        axis = self.timeline.axis(self.shown.kind)
        cells = self.timeline.cells(row)
        return [col for col in axis if cells[col] >= FIRST_FAILING]


def view(timeline: Timeline, shown: Shown, scale: Scale) -> View:
    """Lay out the lines of the part in `shown`."""
    lines = timeline.lines(shown)
    at = lines.with_row_index("line").select("line", "ranks").explode("ranks")
    line_of = dict(at.select("ranks", "line").iter_rows())
    named = bool(lines["sections"].explode().ne("").any())
    return View(timeline, shown, scale, lines, line_of, named)
