"""The modal screens: a prompt, a choice, a page to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from ncclforensics.tui.panes import content

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

T = TypeVar("T")
MOST = 200
REDRAW = 0.1  # seconds between updates while a worker is busy
BACK: list[BindingType] = [Binding("escape", "dismiss", "back")]


class Prompt(ModalScreen[str | None]):
    """Prompts for one line of text, at the bottom of the screen."""

    AUTO_FOCUS = "*"
    BINDINGS: ClassVar[list[BindingType]] = BACK

    def __init__(self, title: str, placeholder: str, value: str = "") -> None:
        """Prompt for `title`; `value` is the initial text."""
        super().__init__()
        self.asked, self.placeholder, self.value = title, placeholder, value

    def compose(self) -> ComposeResult:
        """Create the input."""
        with Vertical() as box:
            box.border_title = Content(self.asked)
            yield Input(self.value, placeholder=self.placeholder)

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)


class Choice(ModalScreen[T | None], Generic[T]):
    """Lets the user choose an entry from a list; typing filters it."""

    AUTO_FOCUS = "*"
    BINDINGS: ClassVar[list[BindingType]] = [
        *BACK,
        Binding("down", "step(1)", "Down", show=False),
        Binding("up", "step(-1)", "Up", show=False),
    ]

    def __init__(self, title: str, entries: Sequence[tuple[str, T]]) -> None:
        """Offer entries: (text, value)."""
        super().__init__()
        self.asked, self.entries = title, entries
        self.shown: list[tuple[str, T]] = []

    def compose(self) -> ComposeResult:
        """Create the filter and the list."""
        with Vertical() as box:
            box.border_title = Content(self.asked)
            yield Input(placeholder="type to narrow, enter to choose")
            yield OptionList()

    def on_mount(self) -> None:
        """List all entries."""
        self._list("")

    @on(Input.Changed)
    def _narrow(self, event: Input.Changed) -> None:
        self._list(event.value)

    def _list(self, word: str) -> None:
        low = word.lower().strip()
        self.shown = [entry for entry in self.entries if low in entry[0].lower()][:MOST]
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options([Option(Content(text)) for text, _ in self.shown])
        options.highlighted = 0 if self.shown else None

    def action_step(self, step: int) -> None:
        """Move through the list while the filter has the focus."""
        options = self.query_one(OptionList)
        if self.shown:
            at = (options.highlighted or 0) + step
            options.highlighted = min(max(at, 0), len(self.shown) - 1)

    @on(Input.Submitted)
    def _submit(self) -> None:
        at = self.query_one(OptionList).highlighted
        self.dismiss(None if at is None else self.shown[at][1])

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self.shown[event.option_index][1])


def plain(lines: Sequence[tuple[str, str]]) -> str:
    """Return (style, text) lines as text."""
    return "".join(f"{text}\n" for _, text in lines)


class Steps(ModalScreen[T | None], Generic[T]):
    """Shows a list of lines; the user can follow one of them."""

    AUTO_FOCUS = "*"
    BINDINGS: ClassVar[list[BindingType]] = [
        *BACK,
        Binding("q,w", "dismiss", "Back", show=False),
        Binding("c", "copy", "copy", show=False),
        Binding("j", "step(1)", "Down", show=False),
        Binding("k", "step(-1)", "Up", show=False),
    ]

    def __init__(self, title: str, steps: Sequence[tuple[str, T]]) -> None:
        """Show lines: (text, where it leads)."""
        super().__init__()
        self.asked, self.steps = title, steps

    def compose(self) -> ComposeResult:
        """Create the list."""
        with Vertical() as box:
            box.border_title = Content(self.asked)
            box.border_subtitle = "enter goes there, c copies, escape goes back"
            yield OptionList(*(Option(Content(text)) for text, _ in self.steps))

    def action_copy(self) -> None:
        """Copy what is shown."""
        self.app.copy_to_clipboard(plain([("", text) for text, _ in self.steps]))
        self.notify("this is on the clipboard")

    def action_step(self, step: int) -> None:
        """Move through the list."""
        options = self.query_one(OptionList)
        options.action_cursor_down() if step > 0 else options.action_cursor_up()

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self.steps[event.option_index][1])


class Page(ModalScreen[None]):
    """Shows text to read."""

    AUTO_FOCUS = "*"
    BINDINGS: ClassVar[list[BindingType]] = [
        *BACK,
        Binding("q,x,d,question_mark", "dismiss", "Back", show=False),
        Binding("c", "copy", "copy", show=False),
        Binding("j", "scroll(1)", "Down", show=False),
        Binding("k", "scroll(-1)", "Up", show=False),
    ]

    def __init__(self, title: str, lines: Sequence[tuple[str, str]]) -> None:
        """Show (style, text) lines."""
        super().__init__()
        self.asked, self.lines = title, lines

    def compose(self) -> ComposeResult:
        """Create the text."""
        with Vertical() as box:
            box.border_title = Content(self.asked)
            box.border_subtitle = "c copies, escape goes back"
            with VerticalScroll():
                yield Static(content(self.lines), markup=False)

    def action_copy(self) -> None:
        """Copy what is shown."""
        self.app.copy_to_clipboard(plain(self.lines))
        self.notify("this is on the clipboard")

    def action_scroll(self, step: int) -> None:
        """Scroll by a line."""
        self.query_one(VerticalScroll).scroll_relative(y=step, animate=False)
