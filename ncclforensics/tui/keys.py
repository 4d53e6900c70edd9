"""The key bindings of the application, with help texts; the footer shows a few.

The chart has its own bindings, which move its cursor. A key that opens a dialog is a
priority binding, so that it is processed before the next key.
"""

from __future__ import annotations

from functools import partial

from textual.binding import Binding, BindingType

_asks = partial(Binding, priority=True)
KEYS: list[BindingType] = [
    Binding("e", "failure(1)", "Failure", tooltip="The next line with a failure"),
    Binding(
        "E", "failure(-1)", "Failure above", show=False, tooltip="The one before it"
    ),
    _asks("slash", "search", "Search", tooltip="Hosts, log lines, calls, stacks"),
    Binding("n", "hit(1)", "Next hit", show=False, tooltip="The next place found"),
    Binding("N", "hit(-1)", "Hit before", show=False, tooltip="The place found before"),
    _asks("r", "rank", "Go to rank", show=False, tooltip="Go to a rank"),
    _asks("s", "seq", "Go to call", show=False, tooltip="Go to a sequence number"),
    _asks("p", "group", "Process group", show=False, tooltip="Show one group"),
    Binding("g", "grouping", "Group by", show=False, tooltip="Host, group, position"),
    Binding("f", "fold", "Fold", show=False, tooltip="Fold ranks that look alike"),
    _asks("w", "waits", "Waits", tooltip="Who waits for whom from here"),
    Binding("t", "time", "Time", tooltip="Time or sequence number"),
    Binding("x", "explain", "Explain", tooltip="What the class means"),
    Binding("c", "copy", "Copy", show=False, tooltip="Copy the verdict as Markdown"),
    Binding("S", "save", "Save", show=False, tooltip="Save the screen as SVG"),
    Binding("m", "grow", "Maximize", show=False, tooltip="Maximize this pane"),
    Binding("escape", "back", "Back", show=False, tooltip="Back to the timeline"),
    Binding("question_mark", "help", "Help", tooltip="Keys and states"),
    Binding("q", "leave", "Quit", tooltip="Leave"),
    Binding("ctrl+c", "leave", "Stop", show=False, tooltip="Leave, or stop loading"),
]
