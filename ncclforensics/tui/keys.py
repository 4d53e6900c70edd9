"""The keys of the application, each with the words of the help; the footer shows few.

The chart has its own: they move its cursor.
"""

from __future__ import annotations

from textual.binding import Binding, BindingType

KEYS: list[BindingType] = [
    Binding("e", "failure(1)", "Failure", tooltip="The next line with a failure"),
    Binding(
        "E", "failure(-1)", "Failure above", show=False, tooltip="The one before it"
    ),
    Binding("slash", "search", "Search", tooltip="Hosts, log lines, calls, stacks"),
    Binding("n", "hit(1)", "Next hit", show=False, tooltip="The next place found"),
    Binding("N", "hit(-1)", "Hit before", show=False, tooltip="The place found before"),
    Binding("r", "rank", "Go to rank", show=False, tooltip="Go to a rank"),
    Binding("s", "seq", "Go to call", show=False, tooltip="Go to a sequence number"),
    Binding("p", "group", "Process group", show=False, tooltip="Show one group"),
    Binding("g", "grouping", "Group by", show=False, tooltip="Host, group, position"),
    Binding("f", "fold", "Fold", show=False, tooltip="Fold ranks that look alike"),
    Binding("w", "waits", "Waits", tooltip="Who waits for whom from here"),
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
