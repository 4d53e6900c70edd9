"""The screen that shows a whole file of the evidence, opened at one of its lines."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Footer, Static
from textual.worker import get_current_worker

from ncclforensics.model.errors import reason
from ncclforensics.model.folding import count
from ncclforensics.report.sanitize import line as clean
from ncclforensics.tui.dialogs import BACK, REDRAW, Prompt
from ncclforensics.tui.log_file import LogFile, copied
from ncclforensics.tui.log_view import LogView

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from textual.app import ComposeResult

    from ncclforensics.sources import Source


@dataclass(frozen=True, slots=True)
class Opened:
    """A file at a line: what changed since it was read, and what is marked in it."""

    source: Source
    line: int
    changed: str = ""
    failing: Collection[int] = ()
    word: str = ""
    found: str = ""  # which of the lines that were found it is


class Viewer(ModalScreen[None]):
    """A file, read on demand, and the line under the cursor in full below it."""

    AUTO_FOCUS = "LogView"
    BINDINGS: ClassVar[list[BindingType]] = [
        *BACK,
        Binding("q,o", "dismiss", "Back", show=False),
        Binding("slash", "search", "search here"),
        Binding("n", "hit(1)", "next hit"),
        Binding("N", "hit(-1)", "hit before", show=False),
        Binding("colon", "line", "go to line"),
        Binding("c", "copy", "copy"),
        Binding("e", "pager", "run $PAGER"),
    ]

    @dataclass
    class Read(Message):
        """More of the file is known; `wrong` says why no more will be."""

        file: LogFile | None
        wrong: str = ""

    def __init__(
        self,
        opened: Opened,
        scratch: Path,
        search: Callable[[Viewer, str], None],
        hit: Callable[[int], Opened | None],
    ) -> None:
        """Show a file. `search` looks for a word in it, `hit` steps to what was found.

        `scratch` is a folder for unpacked copies.
        """
        super().__init__()
        self.opened, self.scratch = opened, scratch
        self.search, self.hit = search, hit
        self.view = LogView(id="log")
        self.asked = opened.line  # to go to once it is known, 0 if done

    def compose(self) -> ComposeResult:
        """Create the lines, the line in full, and the keys."""
        with Vertical():
            yield self.view
            yield Static(id="whole", markup=False)
            yield Static(id="said", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Start reading."""
        self.show(self.opened)

    def on_unmount(self) -> None:
        """Close the file."""
        if self.view.file is not None:
            self.view.file.close()

    def show(self, opened: Opened) -> None:
        """Show a file at a line; the same file is not read again."""
        same = self.view.file is not None and opened.source == self.opened.source
        self.opened, self.asked = opened, opened.line
        if same:
            self.view.word = opened.word.lower()
            self._go()
            return
        box = self.query_one(Vertical)
        box.border_title = Content(clean(opened.source.name, 400))
        self._say("reading …")
        if self.view.file is not None:
            self.view.file.close()
        self.view.show(None)
        self._read(opened.source)

    @work(thread=True, exclusive=True, group="file", exit_on_error=False)
    def _read(self, source: Source) -> None:
        """Unpack the file if necessary, and index its lines."""
        worker = get_current_worker()
        try:
            path = source.path
            for made in copied(source, self.scratch):
                path = made
                if worker.is_cancelled:
                    return
            file = LogFile(path)
            drawn = 0.0
            for _ in file.indexed():
                if worker.is_cancelled:
                    return
                if file.is_whole or time.monotonic() - drawn >= REDRAW:
                    drawn = time.monotonic()
                    self.post_message(self.Read(file))
        except Exception as caught:  # damaged evidence may raise any exception
            why = reason(caught) if isinstance(caught, OSError) else str(caught)
            self.post_message(self.Read(None, clean(f"cannot be read: {why}", 200)))

    @on(Read)
    def _known(self, event: Read) -> None:
        if event.file is None:
            self._say(event.wrong)
            return
        if self.view.file is None:
            self.view.show(event.file, self.opened.failing, self.opened.word)
        self.view.grown()
        self._go()

    def _go(self) -> None:
        """Go to the line that was asked for, once it is known; tell the position."""
        file = self.view.file
        if (
            file is not None
            and self.asked
            and (file.is_whole or file.count > self.asked)
        ):
            if self.asked > file.count:
                self.notify(f"there is no line {self.asked:,}", severity="warning")
            asked, self.asked = self.asked, 0
            # the view has no height before its first layout
            self.view.call_after_refresh(self.view.go, asked)
        self._moved()

    @on(LogView.Moved)
    def _moved(self) -> None:
        view = self.view
        if view.file is None:
            return
        more = "" if view.file.is_whole else " so far"
        at = f"line {view.line:,} of {view.file.count:,}{more}"
        opened = self.opened
        self._say(
            "  ".join(part for part in (at, opened.found, opened.changed) if part)
        )
        text = view.text(view.line)
        is_long = len(text) > view.size.width - 8
        whole = self.query_one("#whole", Static)
        whole.display = is_long
        whole.update(Content(text) if is_long else "")

    def _say(self, text: str) -> None:
        self.query_one("#said", Static).update(Content(text))

    def action_search(self) -> None:
        """Ask for a word and go to the next line that has it."""

        def found(word: str | None) -> None:
            if word:
                self.search(self, word)

        asked = f"search in {clean(self.opened.source.name, 60)}"
        self.app.push_screen(Prompt(asked, "a word"), found)

    def action_hit(self, step: int) -> None:
        """Go to the next or the previous line found, also in another file."""
        opened = self.hit(step)
        if opened is not None:
            self.show(opened)

    def action_line(self) -> None:
        """Ask for a number and go to that line."""

        def go(text: str | None) -> None:
            if text and text.isdecimal():
                self.asked = int(text)
                self._go()

        self.app.push_screen(Prompt("go to line", "like 48211"), go)

    def action_copy(self) -> None:
        """Copy the visible lines from the cursor's line on, under the file's name."""
        view = self.view
        last = int(view.scroll_offset.y) + view.size.height
        known = view.file.count if view.file is not None else 0
        lines = range(view.line, min(last, known) + 1)
        said = [f"{clean(self.opened.source.name, 400)}:{view.line}"]
        self.app.copy_to_clipboard("\n".join([*said, *map(view.text, lines)]) + "\n")
        self.notify(f"{count(len(lines), 'line')} copied to the clipboard")

    def action_pager(self) -> None:
        """Open the file in the program that $PAGER names; nothing else runs one."""
        pager = shlex.split(os.environ.get("PAGER", ""))
        if not pager or self.view.file is None:
            self.notify("PAGER is not set", severity="warning")
            return
        at = [f"+{self.view.line}"] if pager[0].endswith(("less", "more")) else []
        path = str(self.view.file.path.absolute())
        try:
            with self.app.suspend():
                subprocess.run([*pager, *at, path], check=False)
        except (SuspendNotSupported, OSError) as caught:
            self.notify(f"$PAGER cannot be run: {caught}", severity="error")
