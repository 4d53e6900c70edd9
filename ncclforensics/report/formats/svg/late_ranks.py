"""Draws how much longer each rank works than its peers: rows of levels over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.report.formats.svg.elements import markup, path, picture, text

if TYPE_CHECKING:
    from markupsafe import Markup

    from ncclforensics.report.late_ranks import LateRanks

CELL, ROW, LETTER = 17, 20, 7.4


def late_ranks(told: LateRanks) -> Markup:
    """Draw a row for each rank or host, a column for each stretch of time."""
    left = 14 + LETTER * max(len(name) for name, _ in told.rows)
    width = left + CELL * max(len(levels) for _, levels in told.rows) + 8
    words = ". ".join(
        f"{name}: level {max(levels)} at most" for name, levels in told.rows
    )
    svg = picture(width, ROW * len(told.rows) + 4, "Who is slower, over time", words)
    for number, (name, levels) in enumerate(told.rows):
        y = ROW * number
        text(svg, left - 10, y + 15, name, "", "end")
        for level in sorted(set(levels)):
            starts = [left + CELL * at for at, own in enumerate(levels) if own == level]
            kind = f"heat l{level}"
            path(svg, kind, "".join(f"M{x + 1:g} {y + 3:g}h15v15h-15z" for x in starts))
            if level:
                label = text(svg, 0, y + 15, str(level) * len(starts), "in", "middle")
                label.set("x", " ".join(f"{x + 8.5:g}" for x in starts))
    return markup(svg)
