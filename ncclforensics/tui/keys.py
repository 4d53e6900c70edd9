"""The key bindings of the application, with help texts; the footer shows a few.

The chart has its own bindings, which move its cursor. A key that opens a dialog is a
priority binding, so that it is processed before the next key.
"""

from __future__ import annotations

from functools import partial

from textual.binding import Binding, BindingType

_asks = partial(Binding, priority=True)
KEYS: list[BindingType] = [
    _asks("o", "open", "open log", tooltip="The whole log, at the line cited here"),
    _asks("slash", "search", "search", tooltip="The text of all files; the timeline"),
    Binding("e", "failure(1)", "next failure", tooltip="The next line with a failure"),
    Binding(
        "E", "failure(-1)", "failure above", show=False, tooltip="The one before it"
    ),
    Binding("n", "hit(1)", "next hit", show=False, tooltip="The next place found"),
    Binding("N", "hit(-1)", "hit before", show=False, tooltip="The place found before"),
    _asks("r", "rank", "go to rank", show=False, tooltip="Go to a rank"),
    _asks("s", "seq", "go to call", show=False, tooltip="Go to a sequence number"),
    _asks("p", "group", "show one group", show=False, tooltip="Show one group"),
    Binding(
        "g", "grouping", "group lines by", show=False, tooltip="Host, group, position"
    ),
    Binding(
        "f", "fold", "fold ranks", show=False, tooltip="Fold ranks that look alike"
    ),
    _asks("w", "waits", "follow waits", tooltip="Who waits for whom from here"),
    _asks(
        "d", "compare", "diff attempts", show=False, tooltip="What another attempt had"
    ),
    Binding("t", "time", "switch axis", show=False, tooltip="Time or sequence number"),
    Binding(
        "x", "explain", "explain class", show=False, tooltip="What the class means"
    ),
    _asks(
        "H", "slower", "who is slower", show=False, tooltip="Who is slower, over time"
    ),
    Binding("c", "copy", "copy", show=False, tooltip="Copy the verdict as Markdown"),
    Binding("S", "save", "save screen", show=False, tooltip="Save the screen as SVG"),
    Binding("m", "grow", "maximize pane", show=False, tooltip="Maximize this pane"),
    Binding("escape", "back", "go back", show=False, tooltip="Back to the timeline"),
    Binding("question_mark", "help", "help", tooltip="Keys and states"),
    Binding("q", "leave", "quit", tooltip="Leave"),
    Binding("ctrl+c", "leave", "stop", show=False, tooltip="Leave, or stop loading"),
]
