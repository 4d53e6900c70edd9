"""Parses the docstring of a diagnoser, which is its only documentation.

The first paragraph describes the class in one line. Sections follow, each under a line
with nothing but one of HEADINGS (a colon or a remark in brackets may follow). The text
of a section may be indented as a whole.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

HEADINGS = ("What it means", "How we know", "What to do", "Looks like", "References")
_HEADING = re.compile(rf"({'|'.join(HEADINGS)})(?:\s+\(.*\))?:?", re.IGNORECASE)
ITEM = re.compile(r"(?:[-*]|[0-9]+\.) ")


class Located(Protocol):
    """Where a failure lies, and what that means for the next start."""

    @property
    def domain(self) -> str:
        """Where such a failure lies."""

    @property
    def restart(self) -> str:
        """Whether to start again, with HOST for the hosts of the finding."""


class Placed(Located, Protocol):
    """Where a failure lies if its evidence shows more than its class."""

    @property
    def shown_by(self) -> str:
        """Which evidence shows it."""


class Documented(Located, Protocol):
    """The interface of a diagnoser that this module needs."""

    @property
    def slug(self) -> str:
        """The name of the failure class."""

    @property
    def family(self) -> str:
        """The family of the failure class."""

    @property
    def variants(self) -> Mapping[str, Placed]:
        """The same by the `variant` of a finding, if its evidence shows more."""

    @property
    def doc(self) -> str:
        """The docstring of the diagnoser's module."""


@dataclass(frozen=True, slots=True)
class Page:
    """A parsed docstring: the class in one line, and its sections."""

    summary: str
    sections: Mapping[str, str]


def page(doc: str) -> Page:
    """Split a docstring at HEADINGS; a heading without text yields an empty section."""
    parts: dict[str, list[str]] = {"": []}
    current = ""
    for text in inspect.cleandoc(doc).splitlines():
        heading = _HEADING.fullmatch(text.strip()) if text[:1].strip() else None
        if heading:
            current = heading[1].capitalize()
            parts[current] = []
        else:
            parts[current].append(text)
    # a leading blank line keeps cleandoc from treating the first line specially
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
            found.append(ITEM.sub("", text, count=1).strip())
    return tuple(reference.rstrip(" ;") for reference in found)
