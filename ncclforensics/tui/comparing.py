"""The key that lays another attempt or job of the evidence beside this one."""

from __future__ import annotations

import asyncio

from ncclforensics.model.errors import UsageError
from ncclforensics.tui.dialogs import Choice, Page
from ncclforensics.tui.reading import Reads

WIDEST = 160


class Compares(Reads):
    """The action that compares attempts."""

    async def action_compare(self) -> None:
        """Ask for another attempt or job, if there are several, and compare it."""
        self.leave_to_dialog()
        if self.loaded is None:
            return
        others = self.loaded.report.others
        offered = [
            (f"attempt {other.attempt}", str(other.attempt))
            if other.job is None
            else (f"job {other.job}", other.job)
            for other in others
        ]
        if not offered:
            self.notify("this evidence holds one run: there is nothing to compare")
        elif self.request.compare is None or not self.loaded.sources:
            self.notify("to compare attempts, give the evidence itself")
        elif len(offered) == 1:
            self.compare(offered[0][1])
        else:
            await self.ask(Choice("compare this with", offered), self.compare)

    def compare(self, part: str) -> None:
        """Read another attempt or job, and show what differs."""
        loaded, compared = self.loaded, self.request.compare
        if loaded is None or compared is None:
            return
        width = min(self.size.width * 9 // 10 - 6, WIDEST)

        async def show() -> None:
            try:
                text = await asyncio.to_thread(
                    compared, self.request, part, loaded, self.scratch, width
                )
            except UsageError as caught:
                self.notify(str(caught), severity="error")
                return
            lines = [("", line) for line in text.splitlines()]
            await self.push_screen(Page("what is different", lines))

        self.notify("reading the other one …")
        self.run_worker(show(), exclusive=True, group="compare")
