"""The panes beside the chart: the list of findings, and the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual import on
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from ncclforensics.report.text_layout import fold

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.app import ComposeResult

    from ncclforensics.tui.model.entries import Entry

LABEL, HANG, MOST = 9, 4, 100


def content(lines: Iterable[tuple[str, str]]) -> Content:
    """Return (style, text) lines as content; text is never parsed as markup."""
    parts = [
        Content(text) if not style else Content.styled(text, style)
        for style, text in lines
    ]
    return Content("\n").join(parts)


def broken(lines: Iterable[tuple[str, str]], width: int) -> list[tuple[str, str]]:
    """Wrap lines to `width` cells; continuation lines are indented."""
    return [
        (style, " " * HANG + part if at else part)
        for style, text in lines
        for at, part in enumerate(fold(text, max(width - HANG, 20), MOST))
    ]


class Entries(OptionList):
    """The list of what was found, ruled out and not checked, one entry per line."""

    @dataclass
    class Lit(Message):
        """An entry was highlighted in the focused list; `chosen` if by enter."""

        entry: Entry
        chosen: bool

    def __init__(self, *, id: str | None = None, classes: str = "") -> None:  # noqa: A002
        """Create an empty list."""
        super().__init__(id=id, classes=classes)
        self.entries: Sequence[Entry] = ()

    def show(self, entries: Sequence[Entry]) -> None:
        """List entries; a label is shown only where it changes."""
        self.entries = entries
        self.clear_options()
        last = ""
        for entry in entries:
            label = "" if entry.label == last else entry.label
            last = entry.label
            self.add_option(
                Option(Content.assemble((f"{label:<{LABEL}}", "bold"), entry.text))
            )
        if entries:
            self.highlighted = 0

    @on(OptionList.OptionHighlighted)
    def _light(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        if self.has_focus:
            self.post_message(self.Lit(self.entries[event.option_index], chosen=False))

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.post_message(self.Lit(self.entries[event.option_index], chosen=True))


class EvidencePane(VerticalScroll):
    """The evidence at the place under the cursor."""

    def __init__(self, *, id: str, classes: str) -> None:  # noqa: A002
        """Create an empty pane."""
        super().__init__(id=id, classes=classes)
        self.lines: Sequence[tuple[str, str]] = ()
        self.text = Static("", markup=False)

    def compose(self) -> ComposeResult:
        """Create the text."""
        yield self.text

    def show(self, lines: Sequence[tuple[str, str]]) -> None:
        """Show lines, scrolled to the top."""
        self.lines = lines
        self._write()
        self.scroll_home(animate=False)

    def on_resize(self) -> None:
        """Wrap long lines again."""
        self._write()

    def _write(self) -> None:
        # one cell is reserved for the scroll bar
        self.text.update(content(broken(self.lines, self.size.width - 1)))
