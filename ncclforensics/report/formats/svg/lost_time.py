"""Draws the time from the standstill to its first notice as a bar, with its cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.report import phrases
from ncclforensics.report.formats.svg.elements import markup, path, picture, shape, text

if TYPE_CHECKING:
    from markupsafe import Markup

    from ncclforensics.report.contract import Onset

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BAR = 352, 106, 62, 290, 28, 24


def lost_time(onset: Onset) -> Markup | None:
    """Draw the bar; None if nobody is known to have noticed, or it was at once."""
    if not onset.hidden_seconds or onset.noticed is None:
        return None
    words = phrases.onset(onset)
    svg = picture(WIDTH, HEIGHT, "From the standstill to its first notice", words)
    middle, low = (LEFT + RIGHT) / 2, TOP + BAR
    shape(svg, "line", "track", x1=0, x2=WIDTH, y1=low, y2=low)
    shape(svg, "rect", "lost", x=LEFT, y=TOP, width=RIGHT - LEFT, height=BAR)
    # stripes, so that the bar is told from the page without colour
    steps = range(LEFT, RIGHT - BAR + 1, 20)
    path(svg, "stripes", "".join(f"M{x} {low}l{BAR}-{BAR}" for x in steps))
    for x, word, time in (
        (LEFT, "stopped", onset.stopped),
        (RIGHT, "noticed", onset.noticed),
    ):
        shape(svg, "line", "edge", x1=x, x2=x, y1=TOP - 8, y2=low + 8)
        text(svg, x, TOP - 14, f"{word} {time[11:19]}", "now", "middle")
        text(svg, x, low + 22, f"{time[:10]} UTC", "dim", "middle")
    text(svg, middle, low + 22, phrases.hidden(onset), "", "middle")
    if lost := phrases.lost(onset):
        text(svg, middle, low + 46, f"lost: {lost}", "now", "middle")
    return markup(svg)
