"""Draws the wait-for graph: the crowd on top, arrows down to whom they wait for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ncclforensics.report.formats.svg.elements import markup, path, picture, shape, text
from ncclforensics.report.text_layout import shorten

if TYPE_CHECKING:
    from markupsafe import Markup

    from ncclforensics.report.wait_groups import WaitGroups

WIDE, TALL, ASIDE, BELOW, EDGE = 292, 64, 16, 36, 6
TEXT = 42  # characters of a line in a box
# a group in few words: descriptions are in capitals, which are wide
_NAMED = re.compile(r"process group (\S+) \((.+?)(?:_GROUP)?\)")


def waits(told: WaitGroups, title: str) -> Markup:
    """Draw a box for each group of ranks, and an arrow for each wait."""
    levels = [
        [n for n, box in enumerate(told.boxes) if box.level == level]
        for level in range(told.boxes[-1].level, -1, -1)
    ]
    places = {
        n: (EDGE + at * (WIDE + ASIDE), EDGE + row * (TALL + BELOW))
        for row, numbers in enumerate(levels)
        for at, n in enumerate(numbers)
    }
    width = max(map(len, levels)) * (WIDE + ASIDE) - ASIDE + 2 * EDGE
    height = len(levels) * (TALL + BELOW) - BELOW + 2 * EDGE
    said = [
        " ".join(box.lines)
        + "".join(f", for {told.boxes[n].lines[0]}" for n in box.waits_for)
        for box in reversed(told.boxes)
    ]
    svg = picture(width, height, title, ". ".join(said))
    for number, box in enumerate(told.boxes):
        x, y = places[number]
        for other in box.waits_for:
            to, end = places[other][0] + WIDE / 2, places[other][1]
            start = x + WIDE / 2
            path(svg, "arrow", f"M{start:g} {y + TALL}L{to:g} {end - 7}")
            path(svg, "head", f"M{to:g} {end - 1}l-5-9h10z")
        last = "" if box.level else " end"
        shape(svg, "rect", f"box{last}", x=x, y=y, width=WIDE, height=TALL, rx=6)
        for at, words in enumerate(box.lines):
            text(
                svg,
                x + 12,
                y + 21 + 17 * at,
                shorten(_NAMED.sub(r"\2 group \1", words), TEXT),
                "" if at else f"who{last}",
            )
    return markup(svg)
