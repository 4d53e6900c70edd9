"""Two small pictures for the HTML report: progress of ranks, first signs of failure.

They are built from elements, so nothing in a log can become markup. Colours are the
page's variables; whatever a colour means is also shown by a word or a shape.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from markupsafe import Markup

from ncclforensics.model.folding import count, unfold_ranks
from ncclforensics.model.words import lasted
from ncclforensics.report.text_layout import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.report.details import Progress, Sign

WIDTH, ROW, LABEL, TOP = 480, 30, 116, 26
MOST = 10  # characters of a set of ranks; longer ones become a count
WORDS = {
    "done": "done",
    "waits": "waits",
    "behind": "held up",
    "absent": "not made",
    "unseen": "unseen",
}
SECOND = 1_000_000_000


def progress(told: Progress) -> Markup:
    """Draw a row of calls per lane of ranks; the last column is the failing call."""
    step = (WIDTH - LABEL) / len(told.columns)
    height = TOP + ROW * len(told.lanes)
    last = told.columns[-1]
    svg = _svg(height, f"How far the ranks came in {told.group}, up to SeqNum={last}")
    _text(svg, LABEL - 10, 16, "SeqNum", "dim", "end")
    for i, column in enumerate(told.columns):
        weight = "now" if column == last else "dim"
        _text(svg, LABEL + step * (i + 0.5), 16, f"{column}", weight, "middle")
    for row, lane in enumerate(told.lanes):
        y = TOP + ROW * row
        _label(svg, y, lane.ranks, named=lane.named)
        for i, state in enumerate(lane.states):
            box = {"x": LABEL + step * i + 2, "y": y + 2, "width": step - 4}
            # a rank that is absent because it waits elsewhere is not a culprit
            kind = "missing" if state == "absent" and not lane.named else state
            _shape(svg, "rect", f"cell {kind}", **box, height=ROW - 4, rx=4)
            x = LABEL + step * (i + 0.5)
            _text(svg, x, y + 19, WORDS[state], f"on-{kind}", "middle")
    return _markup(svg)


def signs(told: Sequence[Sign]) -> Markup:
    """Draw a mark at the time of each first sign; earlier is further left."""
    start, end = told[0].t, told[-1].t
    span = max(end - start, SECOND)
    left, right = LABEL + 8, WIDTH - 216
    svg = _svg(TOP + ROW * len(told), "When the first signs of failure were printed")
    _text(svg, left, 16, f"{clock(start)} UTC", "dim", "start")
    if end - start >= SECOND:
        later = f"+{lasted((end - start) / SECOND)}"
        _text(svg, right + 16, 16, later, "dim", "start")
    for row, sign in enumerate(told):
        y = TOP + ROW * row
        x = left + (right - left) * (sign.t - start) / span
        _label(svg, y, sign.ranks, named=sign.named)
        track = {"x1": left, "x2": right, "y1": y + 15, "y2": y + 15}
        _shape(svg, "line", "track", **track)
        kind = "mark named" if sign.named else "mark"
        _shape(svg, "circle", kind, cx=x, cy=y + 15, r=6)
        _text(svg, right + 16, y + 19, shorten(sign.text, 31), "text", "start")
    return _markup(svg)


def clock(t: int) -> str:
    """Return UTC nanoseconds as `2026-01-02 03:04:05`."""
    return f"{datetime.fromtimestamp(t // SECOND, UTC):%Y-%m-%d %H:%M:%S}"


def _label(svg: ET.Element, y: float, ranks: str, *, named: bool) -> None:
    """Write the ranks of a row in front of it; culprits are highlighted."""
    if not ranks:
        told = "no rank"
    elif len(ranks) <= MOST:
        told = f"{'rank' if ranks.isdigit() else 'ranks'} {ranks}"
    else:
        told = count(len(unfold_ranks(ranks)), "rank")
    kind = "now" if named else "text"
    text = _text(svg, LABEL - 10, y + 19, told, kind, "end")
    ET.SubElement(text, "title").text = f"ranks {ranks}"


def _svg(height: float, name: str) -> ET.Element:
    attributes = {"viewBox": f"0 0 {WIDTH} {height:g}", "role": "img"}
    return ET.Element("svg", {**attributes, "aria-label": name})


def _shape(svg: ET.Element, tag: str, kind: str, **places: float) -> None:
    numbers = {name: f"{value:.4g}" for name, value in places.items()}
    ET.SubElement(svg, tag, {"class": kind, **numbers})


def _text(
    svg: ET.Element, x: float, y: float, text: str, kind: str, anchor: str
) -> ET.Element:
    place = {"x": f"{x:.4g}", "y": f"{y:.4g}", "text-anchor": anchor, "class": kind}
    element = ET.SubElement(svg, "text", place)
    element.text = text
    return element


def _markup(svg: ET.Element) -> Markup:
    # the serializer escapes text and attributes
    return Markup(ET.tostring(svg, encoding="unicode"))
