"""A diagnoser's docstring is its only documentation; this reads and prints it.

The first paragraph says the class in a line. Then come sections, each under a line that
holds one of HEADINGS and nothing else (a colon or a remark in brackets may follow). In
a section, paragraphs are filled to the width; lines indented deeper than the section,
and list items, stay as they are.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ncclforensics.report.layout import Row, paint, wrap

if TYPE_CHECKING:
    from collections.abc import Mapping

HEADINGS = ("What it means", "How we know", "What to do", "Looks like", "References")
_HEADING = re.compile(rf"({'|'.join(HEADINGS)})(?:\s+\(.*\))?:?", re.IGNORECASE)
_ITEM = re.compile(r"(?:[-*]|[0-9]+\.) ")


class Documented(Protocol):
    """What this module needs of a diagnoser."""

    @property
    def slug(self) -> str:
        """The class."""

    @property
    def family(self) -> str:
        """The section of the classes' list."""

    @property
    def doc(self) -> str:
        """The docstring of its module."""


@dataclass(frozen=True, slots=True)
class Page:
    """A docstring, split: the class in one line, and the sections that it has."""

    summary: str
    sections: Mapping[str, str]


def page(doc: str) -> Page:
    """Split a docstring at HEADINGS; a heading without text gives an empty section."""
    parts: dict[str, list[str]] = {"": []}
    current = ""
    for text in inspect.cleandoc(doc).splitlines():
        heading = _HEADING.fullmatch(text.strip()) if text[:1].strip() else None
        if heading:
            current = heading[1].capitalize()
            parts[current] = []
        else:
            parts[current].append(text)
    # a blank line in front keeps cleandoc from treating the first line apart
    sections = {
        name: inspect.cleandoc("\n".join(["", *p])) for name, p in parts.items()
    }
    first = sections.pop("").split("\n\n")[0]
    return Page(" ".join(first.split()), sections)


def references(doc: str) -> tuple[str, ...]:
    """Return the references, one per line or list item; indented lines continue one."""
    found: list[str] = []
    for text in page(doc).sections.get("References", "").splitlines():
        if text.startswith(" ") and found:
            found[-1] = f"{found[-1]} {text.strip()}"
        elif text.strip():
            found.append(_ITEM.sub("", text, count=1).strip())
    return tuple(found)


def render_class(entry: Documented, *, width: int = 80, colour: bool = False) -> str:
    """Return the page of one class as text, filled to `width` columns."""
    split = page(entry.doc)
    rows = [Row("", f"{entry.slug} ({entry.family})", "bold")]
    rows += [Row("", text) for text in wrap(split.summary, width)]
    for heading in HEADINGS:
        body = split.sections.get(heading)
        if body:
            rows += [Row("", ""), Row("", heading, "bold cyan")]
            rows += [Row("", f"  {text}".rstrip()) for text in fill(body, width - 2)]
    return paint(rows, colour=colour)


def render_classes(
    classes: Mapping[str, Documented], *, width: int = 80, colour: bool = False
) -> str:
    """Return the list of classes: slug, family, and the one line of each."""
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
    """Fill the paragraphs of `text`; list items hang, indented lines stay."""
    lines: list[str] = []
    for block in text.split("\n\n"):
        if lines:
            lines.append("")
        entry = ""
        for part in block.splitlines():
            item = bool(_ITEM.match(entry))
            verbatim = part.startswith(" ") and not item
            if (verbatim or _ITEM.match(part)) and entry:
                lines += wrap(entry, width, hang=2 if item else 0)
                entry = ""
            if verbatim:
                lines.append(part)
            else:
                entry = f"{entry} {part.strip()}" if entry else part
        if entry:
            lines += wrap(entry, width, hang=2 if _ITEM.match(entry) else 0)
    return lines
