"""Actions without a prompt: the next failure, another axis, another grouping."""

from __future__ import annotations

from dataclasses import replace

from textual import on

from ncclforensics.report.timeline.rows import GROUPINGS
from ncclforensics.tui.chart import Chart
from ncclforensics.tui.comparing import Compares
from ncclforensics.tui.model.scale import BySequence, ByTime, Scale
from ncclforensics.tui.model.view import view


class Actions(Compares):
    """The actions of the application that do not prompt."""

    async def action_back(self) -> None:
        """Go back to the timeline; interrupt loading if it is not finished."""
        if self.loaded is None:
            await self.run_action("leave")
        elif self.screen.maximized is not None:
            self.screen.minimize()
        elif self.timeline is not None and not (
            self.chart.has_focus and self.show_all()
        ):
            self.chart.focus()

    @on(Chart.Chosen)
    def _evidence(self) -> None:
        self.evidence.focus()

    def action_failure(self, step: int) -> None:
        """Move to the next (1) or the previous (-1) line with a failure."""
        found = self.chart.view
        if found is None or self.timeline is None:
            return
        ends = (found.lines.height, -1)
        for line in range(self.chart.line + step, ends[step < 0], step):
            row = found.row(line)
            failing = found.failures(row)
            if failing:
                cells = self.timeline.cells(row)
                worst = max(failing, key=lambda col: cells[col])
                self.go(row, self.opened_at[1] if row == self.opened_at[0] else worst)
                return
        self.notify(f"no more failures {'below' if step > 0 else 'above'}")

    def action_time(self) -> None:
        """Switch the axis between time and sequence number; keeps the position."""
        found = self.chart.view
        if found is None or self.timeline is None or self.loaded is None:
            return
        at = self.here()
        room = self._room(found)
        if isinstance(found.scale, ByTime):
            scale: Scale = BySequence(self.timeline.axis(found.shown.kind))
            if scale.size <= room - 20:
                scale = scale.fitted(room - 20)
        elif self.loaded.clock is None:
            self.notify("nothing in this evidence has a time")
            return
        else:
            scale = ByTime(self.loaded.clock, 1).fitted(room)
        self._show(view(self.timeline, found.shown, scale), at)

    def action_grouping(self) -> None:
        """Switch to the next grouping: host, process group, position."""
        if (found := self.chart.view) is not None:
            after = GROUPINGS[(GROUPINGS.index(found.shown.grouping) + 1) % 3]
            row, col = self.here()
            kind = found.timeline.columns.kind_of(col)
            by = kind.name if kind.is_call else None
            shown = replace(found.shown, grouping=after, by=by)
            self._show(self._viewed(shown, found.scale), (row, col))

    def action_fold(self) -> None:
        """Toggle folding of ranks that look alike."""
        if (found := self.chart.view) is not None:
            shown = replace(found.shown, fold=not found.shown.fold)
            at = self.here()
            self._show(self._viewed(shown, found.scale), at)
