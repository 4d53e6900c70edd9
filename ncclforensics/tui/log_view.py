"""The widget that shows the lines of a file, with a cursor; reads the visible ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

if TYPE_CHECKING:
    from collections.abc import Collection

    from textual import events

    from ncclforensics.tui.log_file import LogFile

PAGE = 256  # lines that are read at once
SHIFT = 16  # cells that a key scrolls sideways
NUMBER, FAILING = Style(dim=True), Style(color="yellow")
CHOSEN, FOUND = Style(bold=True, reverse=True), Style(bold=True, underline=True)


class LogView(ScrollView, can_focus=True):
    """Numbered lines, the failing ones and the found word marked."""

    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup,b", "page(-1)", "Page up", show=False),
        Binding("pagedown,space", "page(1)", "Page down", show=False),
        Binding("home,g", "edge(0)", "First line", show=False),
        Binding("end,G", "edge(1)", "Last line", show=False),
        Binding("left,h", "shift(-1)", "Left", show=False),
        Binding("right,l", "shift(1)", "Right", show=False),
    ]

    @dataclass
    class Moved(Message):
        """The cursor is on another line, or more of the file is known."""

        line: int

    def __init__(self, *, id: str) -> None:  # noqa: A002
        """Create an empty view."""
        super().__init__(id=id)
        self.file: LogFile | None = None
        self.line, self.word = 1, ""
        self.failing: Collection[int] = ()
        self._page: tuple[int, list[str]] = (0, [])
        self._widest = 0

    def show(
        self, file: LogFile | None, failing: Collection[int] = (), word: str = ""
    ) -> None:
        """Show a file from its first line, or nothing."""
        self.file, self.failing, self.word = file, failing, word.lower()
        self._page, self._widest, self.line = (0, []), 0, 1
        self.scroll_to(0, 0, animate=False, force=True)
        self.grown()

    def grown(self) -> None:
        """Take account of more lines."""
        count = self.file.count if self.file is not None else 0
        self.virtual_size = Size(self._gutter() + self._widest, count)
        self.refresh()

    def text(self, number: int) -> str:
        """Return a line; neighbouring lines are read with it."""
        first, lines = self._page
        if self.file is None or number < 1:
            return ""
        if not first <= number < first + len(lines):
            first = max(number - PAGE // 2, 1)
            lines = self.file.lines(first, PAGE)
            # a page that ends with the known lines is read again once there are more
            is_over = len(lines) == PAGE or self.file.is_whole
            self._page = (first, lines) if is_over else (0, [])
            widest = max(map(cell_len, lines), default=0)
            if widest > self._widest:
                self._widest = widest
                self.call_after_refresh(self.grown)
        at = number - first
        return lines[at] if 0 <= at < len(lines) else ""

    def go(self, line: int, *, centre: bool = True) -> None:
        """Move the cursor to a line, as far as the file is known."""
        count = self.file.count if self.file is not None else 1
        self.line = min(max(line, 1), max(count, 1))
        top, height = int(self.scroll_offset.y), max(self.size.height, 1)
        if not top < self.line <= top + height:
            away = height // 3 if centre else 1 if self.line <= top else height
            self.scroll_to(y=max(self.line - away, 0), animate=False, force=True)
        self.refresh()
        self.post_message(self.Moved(self.line))

    def render_line(self, y: int) -> Strip:
        """Draw line `y` of the widget."""
        number = y + int(self.scroll_offset.y) + 1
        width = self.size.width
        if self.file is None or number > self.file.count:
            return Strip.blank(width, self.rich_style)
        gutter = self._gutter()
        label = f"{number:>{gutter - 2},}  "
        style = CHOSEN if number == self.line else NUMBER
        left = int(self.scroll_offset.x)
        text = Strip(self._marked(number)).crop(left, left + width - gutter)
        strip = Strip([Segment(label[:-1], style), Segment(" "), *text])
        return strip.adjust_cell_length(width).apply_style(self.rich_style)

    def _marked(self, number: int) -> list[Segment]:
        """Return the segments of a line, with the found word marked."""
        text = self.text(number)
        style = FAILING if number in self.failing else Style()
        style += Style(bold=True) if number == self.line else Style()
        # lower case may be of another length: then nothing is marked
        low = text.lower()
        if not self.word or len(low) != len(text):
            return [Segment(text, style)]
        parts, at = [], 0
        while (start := low.find(self.word, at)) >= 0:
            end = start + len(self.word)
            parts += [Segment(text[at:start], style)]
            parts += [Segment(text[start:end], style + FOUND)]
            at = end
        return [*parts, Segment(text[at:], style)]

    def _gutter(self) -> int:
        count = self.file.count if self.file is not None else 0
        return max(len(f"{count:,}"), 4) + 2

    def on_resize(self) -> None:
        """Keep the cursor visible."""
        self.go(self.line, centre=False)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the click position."""
        self.go(event.y + int(self.scroll_offset.y) + 1)

    def action_move(self, step: int) -> None:
        """Move by a line."""
        self.go(self.line + step, centre=False)

    def action_page(self, step: int) -> None:
        """Move by a screen."""
        self.go(self.line + step * max(self.size.height - 1, 1), centre=False)

    def action_edge(self, last: int) -> None:
        """Move to the first or the last known line."""
        self.go(self.file.count if last and self.file else 1, centre=False)

    def action_shift(self, step: int) -> None:
        """Scroll sideways."""
        self.scroll_relative(x=step * SHIFT, animate=False, force=True)
