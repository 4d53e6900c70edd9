"""The cursor: its position, how it moves, and the evidence at that place."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from textual import on, work
from textual.content import Content
from textual.message import Message

from ncclforensics.report.timeline.start_position import (
    place_of,
    suspected_place,
    worst,
)
from ncclforensics.report.timeline.timeline import Shown
from ncclforensics.tui.chart import Chart
from ncclforensics.tui.model import column_at
from ncclforensics.tui.model.details import cite, place
from ncclforensics.tui.model.scale import BySequence, ByTime, Scale
from ncclforensics.tui.model.view import View, view
from ncclforensics.tui.outputs import Outputs
from ncclforensics.tui.panes import Entries, EvidencePane

if TYPE_CHECKING:
    from ncclforensics.report.timeline.timeline import Timeline

PAUSE = 0.1  # seconds that the cursor has to rest before evidence is read


@dataclass
class Told(Message):
    """The evidence at the place under the cursor, as lines."""

    lines: list[tuple[str, str]]


AFTER = 18  # cells that are left for the text after the columns
LAYOUT = 0.02  # seconds between checks whether the chart has a size


class Places(Outputs):
    """The part of the application that knows and changes the position."""

    chart: Chart
    evidence: EvidencePane
    row = 0
    opened_at = (0, 0)
    # the last jump to a column, and that column, because a cell may hold several
    gone_to: tuple[Scale | None, int, int, int] = (None, 0, 0, 0)

    @property
    def timeline(self) -> Timeline | None:
        """Return the timeline, None while loading or if it is empty."""
        found = None if self.loaded is None else self.loaded.timeline
        return None if found is None or found.is_empty else found

    def open_at(self, at: tuple[int, int]) -> None:
        """Show everything, by sequence number, with the cursor at a row and column."""
        assert self.timeline is not None
        if not self.chart.size.width:
            # A hidden chart has no size before a layout, which may not happen as long
            # as the terminal is too small.
            self.set_timer(LAYOUT, partial(self.open_at, at))
            return
        self.opened_at = at
        axis = self.timeline.axis(None)
        found = view(self.timeline, Shown(), BySequence(axis))
        room = self.chart.size.width - found.margin - AFTER
        if len(axis) <= room:
            found.scale = found.scale.fitted(room)
        self._show(found, at)

    def go(self, row: int, col: int | None) -> None:
        """Move to a row and column; resets filters that hide them."""
        found = self.chart.view
        if found is None or self.timeline is None:
            return
        rank = self.timeline.ranks[row]
        if rank not in found.line_of:
            found = self._viewed(replace(found.shown, pg=None), found.scale)
        if col is not None and col not in self.timeline.axis(found.shown.kind):
            found = self._viewed(replace(found.shown, kind=None, pg=None), found.scale)
        scale = found.scale
        if isinstance(scale, BySequence) and col is not None and col not in scale.axis:
            found = self._whole(found)
        col = worst(self.timeline, row) if col is None else col
        self._show(found, (row, col))

    def _viewed(self, shown: Shown, scale: Scale) -> View:
        """Return a view of `shown`, with the scale adapted to its axis."""
        assert self.timeline is not None
        before = self.chart.view
        if before is None or before.shown.kind != shown.kind:
            return self._whole(view(self.timeline, shown, scale))
        return view(self.timeline, shown, scale)

    def _whole(self, found: View) -> View:
        """Return a view of all columns, or of all time."""
        assert self.timeline is not None
        scale = found.scale
        if isinstance(scale, BySequence):
            axis = self.timeline.axis(found.shown.kind)
            scale = replace(scale, axis=axis, is_part=False)
        elif self.loaded is not None and self.loaded.clock is not None:
            scale = replace(scale, clock=self.loaded.clock, is_part=False)
        return view(self.timeline, found.shown, scale)

    def _room(self, found: View) -> int:
        """Return how many cells fit beside the labels."""
        return max(self.chart.size.width - found.margin - 1, 10)

    @on(Chart.Selected)
    def _select(self, event: Chart.Selected) -> None:
        """Show only the columns, or the time, that the mouse was dragged over."""
        found = self.chart.view
        if found is None:
            return
        row, col = self.here()
        part = found.scale.between(event.first, event.last)
        if isinstance(part, BySequence):
            part = part.fitted(self._room(found) - AFTER)
            col = col if col in part.axis else part.axis[-1]
        else:
            part = part.fitted(self._room(found))
        self._show(view(found.timeline, found.shown, part), (row, col))

    def show_all(self) -> bool:
        """Show everything again after a selection; False if nothing was selected."""
        found = self.chart.view
        if found is None or not found.scale.is_part:
            return False
        at = self.here()
        whole = self._whole(found)
        room = self._room(found)
        is_time = isinstance(whole.scale, ByTime)
        whole.scale = whole.scale.fitted(room if is_time else room - AFTER)
        self._show(whole, at)
        return True

    def _show(self, found: View, at: tuple[int, int]) -> None:
        """Draw a view with the cursor at a row and column."""
        assert self.timeline is not None
        assert self.loaded is not None
        row, col = at
        self.row = row
        line = found.line_of.get(self.timeline.ranks[row], 0)
        if isinstance(found.scale, BySequence):
            cell = found.scale.cell(col)
        else:
            clock = found.scale.clock
            cell = found.scale.cell(column_at.time_of(self.timeline, clock, row, col))
        new = found is not self.chart.view
        cell = found.scale.size - 1 if cell is None else cell
        self.gone_to = (found.scale, line, cell, col)
        if new:
            self.chart.show(found, line, cell, centre=True)
        else:
            self.chart.place(line, cell)
        self.chart.border_title = Content(found.caption())

    def here(self) -> tuple[int, int]:
        """Return the row and column under the cursor."""
        found, chart = self.chart.view, self.chart
        if found is None:
            return 0, 0
        if chart.line != found.line_of.get(found.timeline.ranks[self.row]):
            self.row = found.row(chart.line)
        scale, line, cell, col = self.gone_to
        if scale is found.scale and (line, cell) == (chart.line, chart.cell):
            return self.row, col
        return self.row, column_at.column(found, self.row, chart.line, chart.cell)

    @on(Chart.Moved)
    def _moved(self) -> None:
        if self.chart.view is not None:
            row, col = self.here()
            self._read(row, self.chart.view.ranks(self.chart.line), col)

    @work(exclusive=True, group="evidence", exit_on_error=False)
    async def _read(self, row: int, ranks: list[int], col: int) -> None:
        """Read the evidence at a place after a pause, and post it."""
        await asyncio.sleep(PAUSE)
        lines = await asyncio.to_thread(self._told, row, ranks, col)
        self.post_message(Told(lines))

    def _told(self, row: int, ranks: list[int], col: int) -> list[tuple[str, str]]:
        timeline, loaded = self.timeline, self.loaded
        if timeline is None or loaded is None:
            return []
        lines = place(timeline, row, ranks, col)
        at = cite(timeline, timeline.ranks[row], col)
        return lines if at is None else [*lines, *loaded.excerpt(*at)]

    @on(Entries.Lit)
    def _lit(self, event: Entries.Lit) -> None:
        entry = event.entry
        if entry.suspect is not None and event.chosen and self.timeline is not None:
            at = suspected_place(self.timeline, entry.suspect)
            if at is not None:
                self.go(*at)
                self.chart.focus()
                return
        if entry.finding is not None and event.chosen and self.timeline is not None:
            at = place_of(self.timeline, entry.finding)
            if at is not None:
                self.go(*at)
                self.chart.focus()
                return
        self._quote(entry)

    @work(exclusive=True, group="evidence", exit_on_error=False)
    async def _quote(self, entry: Any) -> None:
        """Read the lines around a citation, and post them below the entry's text."""
        lines = [("", text) for text in entry.whole.splitlines()]
        if entry.cite is not None and self.loaded is not None:
            at = entry.cite.source, entry.cite.line
            lines += await asyncio.to_thread(self.loaded.excerpt, *at)
        self.post_message(Told(lines))

    @on(Told)
    def _tell(self, event: Told) -> None:
        self.evidence.show(event.lines)
