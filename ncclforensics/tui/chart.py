"""The timeline widget: draws the visible lines, and moves a cursor through them.

Two lines on top and the labels on the left stay in place; only cells scroll. Lines are
computed when they are drawn, so the cost depends on the visible part, not on the job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ncclforensics.tui import rendering
from ncclforensics.tui.model.scale import BySequence, ByTime

if TYPE_CHECKING:
    from textual import events

    from ncclforensics.tui.model.view import View

HEAD = 2


class Chart(ScrollView, can_focus=True):
    """Lines of ranks over columns of calls or time, with a cursor."""

    ALLOW_SELECT = False  # of text: dragging selects columns

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1,0)", "Up", show=False, tooltip="The line above"),
        Binding("down,j", "move(1,0)", "Down", show=False, tooltip="The line below"),
        Binding("left,h", "move(0,-1)", "Left", show=False, tooltip="The cell before"),
        Binding("right,l", "move(0,1)", "Right", show=False, tooltip="The next cell"),
        Binding(
            "ctrl+left,H", "pan(-1)", "Pan left", show=False, tooltip="Half a screen"
        ),
        Binding(
            "ctrl+right,L", "pan(1)", "Pan right", show=False, tooltip="Half a screen"
        ),
        Binding("pageup", "page(-1)", "Page up", show=False, tooltip="A screen up"),
        Binding(
            "pagedown", "page(1)", "Page down", show=False, tooltip="A screen down"
        ),
        Binding("home", "edge(0)", "First", show=False, tooltip="The first column"),
        Binding("end", "edge(1)", "Last", show=False, tooltip="The last column"),
        Binding("plus,equals_sign", "zoom(1)", "Closer", show=False, tooltip="Zoom in"),
        Binding("minus", "zoom(-1)", "Farther", show=False, tooltip="Zoom out"),
        Binding("0", "zoom(0)", "Fit", show=False, tooltip="Fit all columns"),
        Binding("enter", "choose", "read", tooltip="The evidence behind this cell"),
    ]

    @dataclass
    class Moved(Message):
        """The cursor moved to another line or cell."""

        line: int
        cell: int

    @dataclass
    class Selected(Message):
        """The mouse was dragged from one cell to another, the first to the last."""

        first: int
        last: int

    class Chosen(Message):
        """The user requested the evidence of the cell under the cursor."""

    def __init__(self, *, id: str, classes: str) -> None:  # noqa: A002
        """Create an empty chart."""
        super().__init__(id=id, classes=classes)
        self.view: View | None = None
        self.line = 0
        self.cell = 0
        self._centre = False
        self._painted: tuple[object, list[bytes]] = (None, [])
        self._dragged: tuple[int, int] | None = None  # cells, from and to

    def show(self, view: View, line: int, cell: int, *, centre: bool = False) -> None:
        """Draw a view with the cursor at a line and a cell."""
        self.view = view
        self._painted = (None, [])
        self._measure()
        self.line, self.cell, self._centre = line, cell, centre
        # the scroll range is known only after the layout
        self.call_after_refresh(self._settle)
        self.refresh()

    def _settle(self) -> None:
        """Scroll to the cursor after a layout; centres it if `show` requested that."""
        if self.size.height:
            self.place(self.line, self.cell, centre=self._centre)
            self._centre = False

    def place(self, line: int, cell: int, *, centre: bool = False) -> None:
        """Move the cursor, and scroll as far as necessary to show it."""
        if self.view is None:
            return
        self.line = min(max(line, 0), self.view.lines.height - 1)
        self.cell = min(max(cell, 0), self.view.scale.size - 1)
        rows, cells = self._rows(), self._cells()
        top, left = self._top(), self._left()
        if not top <= self.line < top + rows or centre:
            away = rows // 2 if centre or abs(self.line - top) > 2 * rows else None
            top = (
                self.line - away
                if away is not None
                else (self.line if self.line < top else self.line - rows + 1)
            )
        if not left <= self.cell < left + cells or centre:
            away = (
                cells * 2 // 3 if centre or abs(self.cell - left) > 2 * cells else None
            )
            left = (
                self.cell - away
                if away is not None
                else (self.cell if self.cell < left else self.cell - cells + 1)
            )
        if centre:
            # the call that a rank waits in follows the last cell, if there is space
            tail = min(rendering.TAIL, self._room() // 3) // self.view.scale.wide
            behind = self.view.scale.size + tail
            left = max(left, min(behind - cells, self.cell - cells // 3))
        # forced, because scroll bars allow scrolling only after a layout
        x = max(left, 0) * self.view.scale.wide
        self.scroll_to(x, max(top, 0), animate=False, force=True)
        self.refresh()
        self.post_message(self.Moved(self.line, self.cell))

    def render_line(self, y: int) -> Strip:
        """Draw line `y` of the widget."""
        width = self._wide()
        if self.view is None or not self.view.lines.height:
            return Strip.blank(width, self.rich_style)
        widths, room = self.view.gutter, self._room()
        left, cells = self._left(), self._cells() + 1
        scale = self.view.scale
        if y < HEAD:
            texts = scale.ticks(self.view.timeline.columns, left, cells)
            titles = self.view.titles if y == 0 else ("",) * len(widths)
            label = rendering.gutter(titles, widths)
            text = texts[y]
            used = (scale.size - left) * scale.wide + 2
            if y == 0 and room - used > len(self.view.after):
                text = text.ljust(used) + self.view.after
            if y and self._dragged is not None:
                first, last = (cell - left for cell in sorted(self._dragged))
                marked = (last - max(first, 0) + 1) * scale.wide
                text = " " * (max(first, 0) * scale.wide) + "^" * marked
            strip = rendering.head(
                label, text, room, rendering.DIM if y else rendering.NORMAL
            )
        else:
            number = y - HEAD + self._top()
            if number >= self.view.lines.height:
                return Strip.blank(width, self.rich_style)
            strip = rendering.line(
                self.view.label(number),
                self._paint(number, left, cells)[: -(-room // scale.wide)],
                widths=widths,
                wide=scale.wide,
                room=room,
                cursor=self.cell - left,
                chosen=number == self.line,
                plain=self.app.no_color,
            )
        return strip.crop(0, width).apply_style(self.rich_style)

    def _paint(self, number: int, left: int, cells: int) -> bytes:
        """Return a line's cells; all visible lines are computed together and cached."""
        assert self.view is not None
        top = self._top()
        lines = range(top, min(top + self._rows(), self.view.lines.height))
        key = (lines, left, cells)
        if self._painted[0] != key:
            self._painted = (key, self.view.cells(lines, left, cells))
        at = number - top
        return self._painted[1][at] if 0 <= at < len(self._painted[1]) else b""

    def _measure(self) -> None:
        """Set the virtual size, for the scroll bars."""
        if self.view is not None:
            scale = self.view.scale
            width = self._gutter() + scale.size * scale.wide
            width += rendering.TAIL if width > self._wide() else 0
            self.virtual_size = Size(width, self.view.lines.height + HEAD)
            # one more line for the border
            self.styles.max_height = self.view.lines.height + HEAD + 1

    def _wide(self) -> int:
        """Return the width without the scroll bar."""
        return max(self.size.width - 1, 1)

    def _gutter(self) -> int:
        return 0 if self.view is None else self.view.margin

    def _room(self) -> int:
        return max(self._wide() - self._gutter(), 1)

    def _rows(self) -> int:
        return max(self.size.height - HEAD, 1)

    def _cells(self) -> int:
        return max(self._room() // (self.view.scale.wide if self.view else 1), 1)

    def _top(self) -> int:
        return int(self.scroll_offset.y)

    def _left(self) -> int:
        return -(
            -int(self.scroll_offset.x) // (self.view.scale.wide if self.view else 1)
        )

    def on_resize(self) -> None:
        """Keep the cursor visible."""
        self._measure()
        self.call_after_refresh(self._settle)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the click position."""
        if self.view is not None and event.y >= HEAD:
            cell = self._cell_at(event.x)
            at = self.cell if cell is None else cell
            self.place(event.y - HEAD + self._top(), at)

    def _cell_at(self, x: int) -> int | None:
        """Return the cell at a position in the widget, None in front of the cells."""
        if self.view is None or x < self._gutter():
            return None
        cell = self._left() + (x - self._gutter()) // self.view.scale.wide
        return min(cell, self.view.scale.size - 1)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Begin to select cells."""
        if event.button == 1 and (cell := self._cell_at(event.x)) is not None:
            self._dragged = (cell, cell)
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Extend the selection, and mark it above the cells."""
        if self._dragged is not None:
            cell = self._cell_at(event.x)
            self._dragged = (self._dragged[0], cell or self._left())
            self.refresh()

    def on_mouse_up(self) -> None:
        """Select the cells that were dragged over, if it is more than one."""
        if self._dragged is None:
            return
        first, last = sorted(self._dragged)
        self._dragged = None
        self.release_mouse()
        self.refresh()
        if first < last:
            self.post_message(self.Selected(first, last))

    def action_move(self, lines: int, cells: int) -> None:
        """Move the cursor."""
        self.place(self.line + lines, self.cell + cells)

    def action_pan(self, step: int) -> None:
        """Move by half a screen left or right."""
        self.place(self.line, self.cell + step * max(self._cells() // 2, 1))

    def action_page(self, step: int) -> None:
        """Move by a screen up or down."""
        self.place(self.line + step * self._rows(), self.cell)

    def action_edge(self, last: int) -> None:
        """Move to the first or the last column."""
        self.place(self.line, self.view.scale.size if last and self.view else 0)

    def action_zoom(self, step: int) -> None:
        """Zoom in (1), out (-1), or to fit everything (0), around the cursor."""
        if self.view is None:
            return
        before = self.view.scale
        scale = before.zoomed(step) if step else before.fitted(self._room() - 1)
        cell = 0
        if isinstance(before, BySequence) and isinstance(scale, BySequence):
            cell = self.cell * before.per // scale.per
        elif isinstance(before, ByTime) and isinstance(scale, ByTime):
            cell = scale.cell(before.time(self.cell) + before.bucket // 2)
        self.view.scale = scale
        self.show(self.view, self.line, cell, centre=step != 0)

    def action_choose(self) -> None:
        """Request the evidence of the cell under the cursor."""
        self.post_message(self.Chosen())
