"""Keys that prompt first: for a rank, a number, a group, a step of a chain."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from textual.actions import SkipAction
from textual.screen import ModalScreen

from ncclforensics.model.folding import count, some
from ncclforensics.report.timeline.start_position import worst
from ncclforensics.tui.cursor import Places
from ncclforensics.tui.dialogs import Choice, Prompt, Steps
from ncclforensics.tui.model import waits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ncclforensics.tui.model.waits import Step

Group = tuple[str | None, str | None]
T = TypeVar("T")


class Asks(Places):
    """The actions that prompt, and what their answers do."""

    async def ask(
        self,
        screen: ModalScreen[T | None],
        then: Callable[[T], Awaitable[None] | None],
    ) -> None:
        """Open a dialog, and call `then` with the answer, if there is one.

        The keys that open dialogs are priority bindings, so the application waits here
        before it processes another key: fast typing ends up in the dialog.
        """

        async def answered(found: T | None) -> None:
            if found is not None and (doing := then(found)) is not None:
                await doing

        await self.push_screen(screen, answered)
        screen.set_focus(screen.focus_chain[0] if screen.focus_chain else None)

    def leave_to_dialog(self) -> None:
        """Pass a key on to the open dialog, if there is one."""
        if isinstance(self.screen, ModalScreen):
            raise SkipAction

    async def action_group(self) -> None:
        """Ask for a process group or a kind of groups, and show only that."""
        self.leave_to_dialog()
        found, timeline = self.chart.view, self.timeline
        if found is None or timeline is None:
            return
        offered: list[tuple[str, Group]] = [("all groups", (None, None))]
        families = timeline.families()
        for kind, names in families:
            offered.append((f"{kind} ({count(len(names), 'group')})", (kind, None)))
        for kind, names in families:
            if len(names) > 1:
                offered += [
                    (f"{kind}: {pg} ({ranks})", (kind, pg)) for pg, ranks in names
                ]
        asked = Choice("process group", offered)
        await self.ask(asked, lambda group: self.choose_group(*group))

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
            col = worst(self.timeline, row, kind)
        self._show(made, (row, col))

    async def action_rank(self) -> None:
        """Ask for a rank and go there."""
        self.leave_to_dialog()
        await self.ask(Prompt("go to rank", "like 617"), self.go_to_rank)

    def go_to_rank(self, text: str) -> None:
        """Go to a rank, in the current column."""
        timeline = self.timeline
        row = timeline.row_of(int(text)) if timeline and text.isdecimal() else None
        if row is None:
            self.notify(f"no rank {some(text, 20)}", severity="warning")
        else:
            self.go(row, self.here()[1])

    async def action_seq(self) -> None:
        """Ask for a sequence number and go there."""
        self.leave_to_dialog()
        hint = "like 84925, or with a group: TP 84925"
        await self.ask(Prompt("go to sequence number", hint), self.go_to_seq)

    def go_to_seq(self, text: str) -> None:
        """Go to a call by its number, preferably in the group under the cursor."""
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

    async def action_waits(self) -> None:
        """Show the chain of waits that starts at the current rank."""
        self.leave_to_dialog()
        timeline = self.timeline
        if timeline is None:
            return
        rank = timeline.ranks[self.here()[0]]
        found = await asyncio.to_thread(waits.steps, timeline, rank)
        listed = [("  " * step.depth + step.text, step) for step in found]
        asked = Steps(f"who waits for whom, from rank {rank}", listed)
        await self.ask(asked, self.follow)

    def follow(self, step: Step) -> None:
        """Go to the place that a step of a chain points to."""
        timeline = self.timeline
        row = None if timeline is None else timeline.row_of(step.rank)
        if timeline is None or row is None:
            return
        col = None
        if step.kind is not None and step.n is not None:
            col = timeline.columns.find(step.kind, step.n)
        self.go(row, col)
