"""The keys that read the files themselves: open a log, search all of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from ncclforensics.model.folding import count, some
from ncclforensics.tui import raw_search
from ncclforensics.tui.dialogs import Prompt
from ncclforensics.tui.log_file import GoneError, is_text, state
from ncclforensics.tui.model.log_line import last_line, line_of
from ncclforensics.tui.model.search import search
from ncclforensics.tui.prompts import Asks
from ncclforensics.tui.raw_search import Results
from ncclforensics.tui.results import Found
from ncclforensics.tui.viewer import Opened, Viewer

if TYPE_CHECKING:
    from pathlib import Path

    from ncclforensics.tui.load import Request

NO_FILES = "the evidence itself was not given: only its frames are here"


class Reads(Asks):
    """The actions that open files of the evidence, and search them."""

    scratch: Path
    request: Request
    places: tuple[tuple[int, int | None], ...] = ()
    place = -1
    results: Results | None = None

    async def action_open(self) -> None:
        """Open the whole log at the line that is cited under the cursor."""
        self.leave_to_dialog()
        at = self._cited()
        if isinstance(at, str):
            self.notify(at, severity="warning")
        elif (opened := self._to_show(*at)) is not None:
            await self.push_screen(self._viewer(opened))

    def _cited(self) -> tuple[str, int] | str:
        """Return source and line of what the focused pane cites, or why there is none.

        Where it cites a dump, it is the log of the rank that made the call.
        """
        loaded, timeline = self.loaded, self.timeline
        if loaded is None:
            return "nothing is read yet"
        if not loaded.sources:
            return NO_FILES
        logs = {name for name, source in loaded.sources.items() if is_text(source)}
        listed = self.listed
        at: tuple[str, int] | None = None
        if listed.has_focus and listed.highlighted is not None:
            entry = listed.entries[listed.highlighted]
            cites = [] if entry.cite is None else [entry.cite]
            cites += [] if entry.finding is None else entry.finding.evidence
            for cite in cites:
                if cite.source in logs and cite.counts == "line":
                    return cite.source, cite.line or 1
            ranks = () if entry.finding is None else entry.finding.culprits.ranks
            if timeline is not None and ranks:
                at = last_line(timeline, ranks[0], logs)
            return at or "no log line is cited here"
        if timeline is None:
            return "no log line is cited here"
        row, col = self.here()
        at = line_of(timeline, row, col, logs)
        rank = timeline.ranks[row]
        return at or f"no log in this evidence is known to be rank {rank}'s"

    def _to_show(self, name: str, line: int, word: str = "") -> Opened | None:
        """Return a file to show at a line; says why if it cannot be shown."""
        source = None if self.loaded is None else self.loaded.sources.get(name)
        if source is None:
            self.notify(f"{some(name, 60)} is not here", severity="warning")
            return None
        try:
            changed = state(source)
        except GoneError as caught:
            self.notify(str(caught), severity="warning")
            return None
        return Opened(source, line, changed, self._failing(name), word)

    def _failing(self, name: str) -> set[int]:
        """Return the lines of a file that a healthy job does not print."""
        if self.timeline is None:
            return set()
        marks = self.timeline.marks
        rows = marks.filter(marks["failing"], marks["source"] == name)
        return set(rows["line"].drop_nulls())

    def _viewer(self, opened: Opened) -> Viewer:
        return Viewer(opened, self.scratch, self._search_file, self._step)

    def _step(self, step: int) -> Opened | None:
        """Go to the next line that was found, for the viewer."""
        hit = None if self.results is None else self.results.step(step)
        if self.results is None or hit is None:
            self.notify("nothing to go to: search with /")
            return None
        total = len(self.results.hits)
        opened = self._to_show(hit.source, hit.line, self.results.word)
        told = f"found {self.results.at + 1:,} of {total:,}"
        return opened and replace(opened, found=told)

    def _search_file(self, viewer: Viewer, word: str) -> None:
        """Search the file of a viewer, and go to the next line that has the word."""
        source, line = viewer.opened.source, viewer.view.line

        async def look() -> None:
            results = Results(word)

            def find() -> None:
                for progress in raw_search.find(word, [source]):
                    results.hits += progress.hits
                    if not viewer.is_attached:
                        return

            await asyncio.to_thread(find)
            if not results.hits:
                self.notify(f"{some(word, 30)}: not found", severity="warning")
                return
            self.results = results
            later = (n for n, hit in enumerate(results.hits) if hit.line >= line)
            results.at = next(later, 0) - 1
            if (opened := self._step(1)) is not None:
                viewer.show(opened)

        viewer.run_worker(look(), exclusive=True, group="search")

    async def action_search(self) -> None:
        """Ask for a word, and search all files and the timeline for it."""
        self.leave_to_dialog()
        if self.loaded is None:
            self.notify("nothing is read yet")
            return
        asked = Prompt("search all files", "a host, a word of a log")
        await self.ask(asked, self.search)

    async def search(self, word: str) -> None:
        """Search for a word; a folded line of the timeline counts once per column."""
        timeline, found = self.timeline, self.chart.view
        if self.loaded is None:
            return
        places: dict[tuple[int, int | None], tuple[int, int | None]] = {}
        if timeline is not None and found is not None:
            for row, col in await asyncio.to_thread(search, timeline, word):
                line = found.line_of.get(timeline.ranks[row], -1 - row)
                places.setdefault((line, col), (row, col))
        self.places, self.place = tuple(places.values()), -1
        self.results = None
        sources = self.loaded.sources.values()
        if sources:
            self.results = Results(word)
            listed = Found(self.results, sources, len(places), self._open_hit)
            await self.push_screen(listed, self._chosen)
        elif places:
            self.action_hit(1)
        else:
            self.notify(f"{some(word, 30)}: not found", severity="warning")

    def _chosen(self, is_places: bool | None) -> None:
        """Go to the places in the timeline, if they were chosen from what was found."""
        if is_places:
            self.results = None
            self.action_hit(1)

    def _open_hit(self, at: int) -> None:
        if self.results is not None:
            self.results.at = at - 1
            if (opened := self._step(1)) is not None:
                self.push_screen(self._viewer(opened))

    def action_hit(self, step: int) -> None:
        """Go to the next (1) or the previous (-1) search result."""
        if self.results is not None and self.results.hits:
            if (opened := self._step(step)) is not None:
                self.push_screen(self._viewer(opened))
            return
        if not self.places:
            self.notify("nothing to go to: search with /")
            return
        self.place = (self.place + step) % len(self.places) if self.place >= 0 else 0
        row, col = self.places[self.place]
        told = f"{self.place + 1:,} of {count(len(self.places), 'place')}"
        self.notify(told, timeout=1.5)
        self.go(row, self.here()[1] if col is None else col)
