"""Draws when the first signs of failure were printed; earlier is further left."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ncclforensics.model.folding import count, name_folded, unfold_ranks
from ncclforensics.model.words import lasted
from ncclforensics.report.formats.svg.elements import markup, picture, shape, text
from ncclforensics.report.text_layout import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from ncclforensics.report.details import Sign

ROW, LABEL, TOP = 26, 116, 26
TRACK, WORDS = 148, 84  # pixels of the axis, characters of a line
MOST = 10  # characters of a set of ranks; longer ones become a count
SECOND = 1_000_000_000


def signs(told: Sequence[Sign]) -> Markup:
    """Draw a mark at the time of each first sign, and its words beside it."""
    start, end = told[0].t, told[-1].t
    span = max(end - start, SECOND)
    left, right = LABEL + 8, LABEL + 8 + TRACK
    said = [f"{_who(s)} at {clock(s.t)} UTC: {s.text}" for s in told]
    svg = picture(
        right + 16 + WORDS * 6.4,
        TOP + ROW * len(told),
        "When the first signs of failure were printed",
        ". ".join(said),
    )
    text(svg, left, 16, f"{clock(start)} UTC", "dim")
    if end - start >= SECOND:
        text(svg, right + 16, 16, f"+{lasted((end - start) / SECOND)}", "dim")
    for row, sign in enumerate(told):
        y = TOP + ROW * row + 13
        x = left + TRACK * (sign.t - start) / span
        text(svg, LABEL - 10, y + 4, _who(sign), "now" if sign.named else "", "end")
        shape(svg, "line", "track", x1=left, x2=right, y1=y, y2=y)
        shape(svg, "circle", "mark named" if sign.named else "mark", cx=x, cy=y, r=6)
        text(svg, right + 16, y + 4, shorten(sign.text, WORDS))
    return markup(svg)


def clock(t: int) -> str:
    """Return UTC nanoseconds as `2026-01-02 03:04:05`."""
    return f"{datetime.fromtimestamp(t // SECOND, UTC):%Y-%m-%d %H:%M:%S}"


def _who(sign: Sign) -> str:
    if not sign.ranks:
        return "no rank"
    if len(sign.ranks) <= MOST:
        return name_folded(sign.ranks)
    return count(len(unfold_ranks(sign.ranks)), "rank")
