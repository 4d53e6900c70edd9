"""What keys and commands do: move through the timeline, choose what it shows."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from textual import on, work
from textual.message import Message

from ncclforensics.report.folding import some
from ncclforensics.tui.chart import Chart
from ncclforensics.tui.dialogs import Choice, Prompt, Steps
from ncclforensics.tui.model import point, waits
from ncclforensics.tui.model.details import cite, place
from ncclforensics.tui.model.find import search
from ncclforensics.tui.model.opening import place_of, worst
from ncclforensics.tui.model.rows import GROUPINGS
from ncclforensics.tui.model.scale import BySequence, ByTime
from ncclforensics.tui.model.timeline import Shown
from ncclforensics.tui.model.view import View, view
from ncclforensics.tui.outputs import Outputs
from ncclforensics.tui.panes import Entries, EvidencePane

if TYPE_CHECKING:
    from ncclforensics.tui.model.timeline import Timeline

PAUSE = 0.1  # seconds that the cursor rests before evidence is read
Group = tuple[str | None, str | None]


@dataclass
class Told(Message):
    """What the evidence tells of the place under the cursor."""

    lines: list[tuple[str, str]]


class Actions(Outputs):
    """The actions of the application; state is what is loaded, and where we are."""

    chart: Chart
    evidence: EvidencePane
    row = 0
    hits: tuple[tuple[int, int | None], ...] = ()
    hit = -1

    @property
    def timeline(self) -> Timeline | None:
        """Return the timeline, or None while and where there is none."""
        found = None if self.loaded is None else self.loaded.timeline
        return None if found is None or found.is_empty else found

    def open_at(self, at: tuple[int, int]) -> None:
        """Show everything, by sequence number, with the cursor at a row and column."""
        assert self.timeline is not None
        if not self.chart.size.width:
            # the chart was hidden, and has its size only after a layout
            self.call_after_refresh(self.open_at, at)
            return
        axis = self.timeline.axis(None)
        shown = Shown()
        scale = BySequence(axis)
        room = self.chart.size.width - 40
        if len(axis) <= room:
            scale = scale.fitted(room)
        self._show(view(self.timeline, shown, scale), at)

    def go(self, row: int, col: int | None) -> None:
        """Move to a row and column; what hides them is shown again."""
        found = self.chart.view
        if found is None or self.timeline is None:
            return
        rank = self.timeline.ranks[row]
        if rank not in found.line_of:
            found = self._viewed(replace(found.shown, pg=None), found.scale)
        if col is not None and col not in self.timeline.axis(found.shown.kind):
            found = self._viewed(replace(found.shown, kind=None, pg=None), found.scale)
        col = worst(self.timeline, row) if col is None else col
        self._show(found, (row, col))

    def _viewed(self, shown: Shown, scale: BySequence | ByTime) -> View:
        """Return a view of something else at the scale there is."""
        assert self.timeline is not None
        if isinstance(scale, BySequence):
            scale = replace(scale, axis=self.timeline.axis(shown.kind))
        return view(self.timeline, shown, scale)

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
            cell = found.scale.cell(point.time_of(self.timeline, clock, row, col))
        new = found is not self.chart.view
        cell = found.scale.size - 1 if cell is None else cell
        if new:
            self.chart.show(found, line, cell, centre=True)
        else:
            self.chart.place(line, cell)
        self.chart.border_title = found.caption()

    def here(self) -> tuple[int, int]:
        """Return the row and column under the cursor."""
        found, chart = self.chart.view, self.chart
        if found is None:
            return 0, 0
        if chart.line != found.line_of.get(found.timeline.ranks[self.row]):
            self.row = found.row(chart.line)
        return self.row, point.column(found, self.row, chart.line, chart.cell)

    @on(Chart.Moved)
    def _moved(self) -> None:
        if self.chart.view is not None:
            row, col = self.here()
            self._read(row, self.chart.view.ranks(self.chart.line), col)

    @work(exclusive=True, group="evidence", exit_on_error=False)
    async def _read(self, row: int, ranks: list[int], col: int) -> None:
        """Read what the evidence tells of a place, and post it."""
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
        if entry.finding is not None and event.chosen and self.timeline is not None:
            at = place_of(self.timeline, entry.finding)
            if at is not None:
                self.go(*at)
                self.chart.focus()
                return
        self._quote(entry)

    @work(exclusive=True, group="evidence", exit_on_error=False)
    async def _quote(self, entry: Any) -> None:
        """Read the lines around a cite, and post them below what an entry says."""
        lines = [("", text) for text in entry.whole.splitlines()]
        if entry.cite is not None and self.loaded is not None:
            at = entry.cite.source, entry.cite.line
            lines += await asyncio.to_thread(self.loaded.excerpt, *at)
        self.post_message(Told(lines))

    @on(Told)
    def _tell(self, event: Told) -> None:
        self.evidence.show(event.lines)

    async def action_back(self) -> None:
        """Go back to the timeline; interrupt loading that is not over."""
        if self.loaded is None:
            await self.run_action("leave")
        elif self.screen.maximized is not None:
            self.screen.minimize()
        elif self.timeline is not None:
            self.chart.focus()

    @on(Chart.Chosen)
    def _evidence(self) -> None:
        self.evidence.focus()

    def action_failure(self, step: int) -> None:
        """Move to the next line with a failure (1), or the one before (-1)."""
        found = self.chart.view
        if found is None or self.timeline is None:
            return
        ends = (found.lines.height, -1)
        for line in range(self.chart.line + step, ends[step < 0], step):
            row = found.row(line)
            failing = found.failures(row)
            if failing:
                cells = self.timeline.cells(row)
                self.go(row, max(failing, key=lambda col: cells[col]))
                return
        self.notify(f"no more failures {'below' if step > 0 else 'above'}")

    def action_time(self) -> None:
        """Switch between time and sequence number, and stay where we are."""
        found = self.chart.view
        if found is None or self.timeline is None or self.loaded is None:
            return
        at = self.here()
        room = max(self.chart.size.width - sum(found.gutter) - 4, 10)
        if isinstance(found.scale, ByTime):
            scale: BySequence | ByTime = BySequence(
                self.timeline.axis(found.shown.kind)
            )
            if scale.size <= room - 20:
                scale = scale.fitted(room - 20)
        elif self.loaded.clock is None:
            self.notify("nothing in this evidence has a time")
            return
        else:
            scale = ByTime(self.loaded.clock, 1).fitted(room)
        self._show(view(self.timeline, found.shown, scale), at)

    def action_grouping(self) -> None:
        """Group by the next of host, process group, position."""
        if (found := self.chart.view) is not None:
            after = GROUPINGS[(GROUPINGS.index(found.shown.grouping) + 1) % 3]
            row, col = self.here()
            kind = found.timeline.columns.kind_of(col)
            by = kind.name if kind.is_call else None
            shown = replace(found.shown, grouping=after, by=by)
            self._show(self._viewed(shown, found.scale), (row, col))

    def action_fold(self) -> None:
        """Fold ranks that look alike, or show each."""
        if (found := self.chart.view) is not None:
            shown = replace(found.shown, fold=not found.shown.fold)
            at = self.here()
            self._show(self._viewed(shown, found.scale), at)

    @work
    async def action_group(self) -> None:
        """Ask for a process group, or a kind of them, and show it alone."""
        found, timeline = self.chart.view, self.timeline
        if found is None or timeline is None:
            return
        offered: list[tuple[str, Group]] = [("all groups", (None, None))]
        for kind, names in timeline.families():
            offered.append((f"{kind} ({len(names):,} groups)", (kind, None)))
            if len(names) > 1:
                offered += [
                    (f"{kind}: {pg} ({ranks})", (kind, pg)) for pg, ranks in names
                ]
        asked = await self.push_screen_wait(Choice("process group", offered))
        if asked is not None:
            self.choose_group(*asked)

    def choose_group(self, kind: str | None, pg: str | None) -> None:
        """Show the groups of one kind, or one group of it."""
        found = self.chart.view
        if found is None or self.timeline is None:
            return
        row, col = self.here()
        made = self._viewed(replace(found.shown, kind=kind, pg=pg), found.scale)
        if self.timeline.ranks[row] not in made.line_of:
            row = made.row(0)
        if col not in self.timeline.axis(kind):
            col = worst(self.timeline, row)
        self._show(made, (row, col))

    @work
    async def action_rank(self) -> None:
        """Ask for a rank and go there."""
        asked = await self.push_screen_wait(Prompt("go to rank", "617"))
        if asked is not None:
            self.go_to_rank(asked)

    def go_to_rank(self, text: str) -> None:
        """Go to a rank, in the column where we are."""
        timeline = self.timeline
        row = timeline.row_of(int(text)) if timeline and text.isdecimal() else None
        if row is None:
            self.notify(f"no rank {some(text, 20)}", severity="warning")
        else:
            self.go(row, self.here()[1])

    @work
    async def action_seq(self) -> None:
        """Ask for a sequence number and go there."""
        asked = await self.push_screen_wait(
            Prompt("go to sequence number", "84925, or with a group: TP 84925")
        )
        if asked is not None:
            self.go_to_seq(asked)

    def go_to_seq(self, text: str) -> None:
        """Go to a call by its number, in the group of the cursor where it has one."""
        timeline = self.timeline
        name, _, number = text.rpartition(" ")
        if timeline is None or not number.isdecimal():
            self.notify("a sequence number is a number", severity="warning")
            return
        row, col = self.here()
        kinds = [timeline.columns.kind_of(col), *timeline.columns.kinds]
        for kind in kinds:
            if name.lower() in kind.name.lower():
                found = timeline.columns.find(kind.name, int(number))
                if found is not None:
                    self.go(row, found)
                    return
        self.notify(f"no call {some(text, 30)} in this evidence", severity="warning")

    @work
    async def action_search(self) -> None:
        """Ask for a word and go to the first place that holds it."""
        asked = await self.push_screen_wait(Prompt("search", "a host, a word of a log"))
        if asked is None or self.timeline is None:
            return
        self.hits = tuple(await asyncio.to_thread(search, self.timeline, asked))
        self.hit = -1
        if self.hits:
            self.action_hit(1)
        else:
            self.notify(f"{some(asked, 30)}: not found", severity="warning")

    def action_hit(self, step: int) -> None:
        """Go to the next place found (1), or the one before (-1)."""
        if not self.hits:
            self.notify("nothing was searched for: /")
            return
        self.hit = (self.hit + step) % len(self.hits) if self.hit >= 0 else 0
        row, col = self.hits[self.hit]
        self.notify(f"{self.hit + 1:,} of {len(self.hits):,} places", timeout=1.5)
        self.go(row, self.here()[1] if col is None else col)

    @work
    async def action_waits(self) -> None:
        """Show who waits for whom from here."""
        timeline = self.timeline
        if timeline is None:
            return
        rank = timeline.ranks[self.here()[0]]
        found = await asyncio.to_thread(waits.steps, timeline, rank)
        listed = [("  " * step.depth + step.text, step) for step in found]
        step = await self.push_screen_wait(
            Steps(f"who waits for whom, from rank {rank}", listed)
        )
        if step is not None and (row := timeline.row_of(step.rank)) is not None:
            col = None
            if step.kind is not None and step.n is not None:
                col = timeline.columns.find(step.kind, step.n)
            self.go(row, col)
