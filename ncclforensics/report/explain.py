"""Renders the documentation of a class, and the list of all classes.

Paragraphs are filled to the width, and list items get a hanging indent. Lines indented
deeper than their section stay as they are, because they are commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.report.class_docs import HEADINGS, ITEM, Documented, page
from ncclforensics.report.text_layout import Row, paint, wrap

if TYPE_CHECKING:
    from collections.abc import Mapping


def render_class(entry: Documented, *, width: int = 80, colour: bool = False) -> str:
    """Return the documentation of one class as text, filled to `width` columns."""
    split = page(entry.doc)
    rows = [Row("", f"{entry.slug} ({entry.family})", "bold")]
    rows += [Row("", text) for text in wrap(split.summary, width)]
    rows += [Row("", f"domain: {entry.domain} · restart: {entry.restart}")]
    for lies in entry.variants.values():
        told = f"{lies.domain} · {lies.restart}: if {lies.shown_by}"
        rows += [Row("", f"  {text}") for text in wrap(told, width - 2, hang=2)]
    for heading in HEADINGS:
        body = split.sections.get(heading)
        if body:
            rows += [Row("", ""), Row("", heading, "bold cyan")]
            rows += [Row("", f"  {text}".rstrip()) for text in fill(body, width - 2)]
    return paint(rows, colour=colour)


def render_classes(
    classes: Mapping[str, Documented], *, width: int = 80, colour: bool = False
) -> str:
    """Return the list of classes: slug, family and summary of each."""
    slugs = max((len(slug) for slug in classes), default=0)
    families = max((len(entry.family) for entry in classes.values()), default=0)
    indent = slugs + families + 4
    rows = []
    for slug, entry in classes.items():
        head = f"{slug:<{slugs}}  {entry.family:<{families}}  "
        lines = wrap(page(entry.doc).summary, max(width - indent, 24)) or [""]
        rows.append(Row("", (head + lines[0]).rstrip()))
        rows += [Row("", " " * indent + text) for text in lines[1:]]
    return paint(rows, colour=colour)


def fill(text: str, width: int) -> list[str]:
    """Fill the paragraphs and list items of `text`; indented lines stay as they are."""
    lines: list[str] = []
    for block in text.split("\n\n"):
        if lines:
            lines.append("")
        entry = ""
        for part in block.splitlines():
            item = bool(ITEM.match(entry))
            verbatim = part.startswith(" ") and not item
            if (verbatim or ITEM.match(part)) and entry:
                lines += wrap(entry, width, hang=2 if item else 0)
                entry = ""
            if verbatim:
                lines.append(part)
            else:
                entry = f"{entry} {part.strip()}" if entry else part
        if entry:
            lines += wrap(entry, width, hang=2 if ITEM.match(entry) else 0)
    return lines
