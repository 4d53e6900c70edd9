"""The keys that ask first: for a rank, a number, a word, a group, a step of a chain."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from textual import work

from ncclforensics.report.folding import count, some
from ncclforensics.tui.dialogs import Choice, Prompt, Steps
from ncclforensics.tui.model import waits
from ncclforensics.tui.model.find import search
from ncclforensics.tui.model.opening import worst
from ncclforensics.tui.places import Places

Group = tuple[str | None, str | None]


class Asks(Places):
    """Questions, and where their answers lead."""

    hits: tuple[tuple[int, int | None], ...] = ()
    hit = -1

    @work
    async def action_group(self) -> None:
        """Ask for a process group, or a kind of them, and show it alone."""
        found, timeline = self.chart.view, self.timeline
        if found is None or timeline is None:
            return
        offered: list[tuple[str, Group]] = [("all groups", (None, None))]
        for kind, names in timeline.families():
            offered.append((f"{kind} ({count(len(names), 'group')})", (kind, None)))
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
