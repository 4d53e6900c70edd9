"""The screen that lists the lines found by a search of all files, while it goes on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Footer, OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import get_current_worker

from ncclforensics.model.folding import count
from ncclforensics.report.sanitize import line as clean
from ncclforensics.tui import raw_search
from ncclforensics.tui.dialogs import REDRAW
from ncclforensics.tui.log_file import is_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from textual.app import ComposeResult

    from ncclforensics.sources import Source
    from ncclforensics.tui.raw_search import Hit, Progress, Results


class Found(ModalScreen[bool]):
    """Lists lines as `file:line text`; True if places in the timeline are chosen."""

    AUTO_FOCUS = "OptionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "stop, then back"),
        Binding("q", "dismiss", "Back", show=False),
        Binding("n,j", "step(1)", "Down", show=False),
        Binding("N,k", "step(-1)", "Up", show=False),
        Binding("c", "copy", "copy list"),
    ]

    class Batch(Message):
        """What a search found since the last message."""

        def __init__(self, made: list[Progress], *, is_over: bool) -> None:
            """Take a batch; `is_over` with the last one."""
            super().__init__()
            self.made, self.is_over = made, is_over

    def __init__(
        self,
        results: Results,
        sources: Collection[Source],
        places: int,
        open_hit: Callable[[int], None],
    ) -> None:
        """Search `sources`, and fill `results`; `open_hit` shows a line in its file.

        `places` counts the places of the timeline that have the word.
        """
        super().__init__()
        self.results, self.sources = results, sources
        self.places, self.open_hit = places, open_hit
        self.files = self.skipped = 0
        self.reading = ""
        self.is_over = self.is_full = False

    def compose(self) -> ComposeResult:
        """Create the list."""
        with Vertical() as box:
            box.border_title = Content(f"search {clean(self.results.word, 60)}")
            yield OptionList()
            yield Static(id="said", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Start the search."""
        if self.places:
            told = count(self.places, "place") + " in the timeline: enter goes there"
            self.query_one(OptionList).add_option(Option(Content(told)))
        self._say()
        self._search()

    @work(thread=True, exclusive=True, group="search", exit_on_error=False)
    def _search(self) -> None:
        """Search, and post batches of what is found."""
        worker = get_current_worker()
        made: list[Progress] = []
        drawn = 0.0
        for progress in raw_search.find(self.results.word, self.sources):
            if worker.is_cancelled:
                return
            made.append(progress)
            if time.monotonic() - drawn >= REDRAW:
                drawn = time.monotonic()
                self.post_message(self.Batch(made, is_over=False))
                made = []
        self.post_message(self.Batch(made, is_over=True))

    @on(Batch)
    def _more(self, event: Batch) -> None:
        if self.is_over:
            return  # it was stopped
        hits = [hit for progress in event.made for hit in progress.hits]
        for progress in event.made:
            self.files, self.reading = progress.files, progress.reading
            self.skipped += progress.skipped
            self.is_full |= progress.is_full
        self.results.hits += hits
        options = self.query_one(OptionList)
        options.add_options([Option(self._row(hit)) for hit in hits])
        if options.highlighted is None and options.option_count:
            options.highlighted = 0
        self.is_over = event.is_over
        self._say()

    def _row(self, hit: Hit) -> Content:
        """Return a line of the list, with the word marked."""
        place = f"{clean(hit.source, 400)}:{hit.line} "
        most = max(self.app.size.width // 3, 20)
        # the end of a path tells more than its start
        place = place if len(place) <= most else f"…{place[-most:]}"
        low, word = hit.text.lower(), self.results.word.lower()
        start = low.find(word) if len(low) == len(hit.text) else -1
        if start < 0:
            return Content.assemble((place, "dim"), hit.text)
        end = start + len(word)
        parts = hit.text[:start], (hit.text[start:end], "bold reverse"), hit.text[end:]
        return Content.assemble((place, "dim"), *parts)

    def _say(self) -> None:
        """Tell how much was found, and whether the search goes on."""
        told = count(len(self.results.hits), "line")
        if self.skipped:
            told += f" and {self.skipped:,} more in the same files"
        whole = len([source for source in self.sources if is_text(source)])
        if not self.is_over:
            told += f", {self.files:,} of {count(whole, 'file')} read"
            told += f", reading {clean(self.reading, 200)}" if self.reading else ""
        elif self.is_full:
            told += f"; the search ended there, after {count(self.files, 'file')}"
        elif self.files < whole:
            told += f"; stopped after {self.files:,} of {count(whole, 'file')}"
        else:
            told += f" in {count(whole, 'file')}"
        self.query_one("#said", Static).update(Content(told))

    def action_back(self) -> None:
        """Stop the search if it goes on, else go back."""
        if self.is_over:
            self.dismiss(False)
            return
        self.is_over = True
        self.workers.cancel_group(self, "search")
        self._say()

    def action_step(self, step: int) -> None:
        """Move through the list."""
        options = self.query_one(OptionList)
        options.action_cursor_down() if step > 0 else options.action_cursor_up()

    def action_copy(self) -> None:
        """Copy what was found, as grep prints it."""
        hits = self.results.hits
        said = (f"{clean(hit.source, 200)}:{hit.line}:{hit.text}" for hit in hits)
        self.app.copy_to_clipboard("\n".join(said) + "\n")
        self.notify(f"{count(len(hits), 'line')} copied to the clipboard")

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        at = event.option_index - bool(self.places)
        if at < 0:
            self.dismiss(True)
            return
        self.open_hit(at)
