"""The texts to post: full, without excerpts, or only the headline.

`fitting` selects the versions that fit, and records what they leave out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncclforensics.report import suspect_phrases
from ncclforensics.report.formats.text import render_text
from ncclforensics.report.opening_lines import opening
from ncclforensics.report.sanitize import ELLIPSIS
from ncclforensics.tickets.model import Body, File, length

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ncclforensics.report.bundle import Paper
    from ncclforensics.tickets.model import Level

ROOM = 600  # characters reserved for the mark and the line that names the files
EXCERPTS = "the cited lines and what stands around them"
ALL = "everything but the headline"


@dataclass(frozen=True, slots=True)
class Post:
    """A redacted paper, a link to the full report (if any), and a key for the mark."""

    paper: Paper
    link: str | None = None
    key: str = "report"

    def files(self) -> tuple[File, ...]:
        """Return the files to upload, for services that take files."""
        name = f"ncclforensics-{self.paper.fingerprint()}"
        html, _ = self.paper.render(".html")
        archive, _ = self.paper.render(".zip")
        return (
            File(f"{name}.html", "text/html", html),
            File(f"{name}.zip", "application/zip", archive),
        )

    def headline(self) -> str:
        """Return the two opening lines and the link as plain text."""
        first, second = opening(self.paper.report)
        link = [f"full report: {self.link}"] if self.link else []
        return "\n".join([" ".join(first.split()), second, *link])

    def suspects(self) -> list[str]:
        """Return the heading and the lines of suspects, empty without suspects."""
        report = self.paper.report
        told = [
            f"  {suspect_phrases.told(s)}" for s in suspect_phrases.suspects(report)
        ]
        return [suspect_phrases.title(report), *told] if told else []

    def plain(self) -> tuple[tuple[Level, str], ...]:
        """Return the report as plain text, from the whole answer to the headline."""
        text = render_text(self.paper.report)
        brief = render_text(self.paper.report, quiet=True)
        verdict = self.paper.report.verdict
        parts = [] if verdict is None else [verdict.explanation]
        parts += self.paper.report.earlier
        parts += [] if verdict is None else [f"  {r}" for r in verdict.remedy]
        suspects = self.suspects()
        if parts or suspects:
            at = 0 if suspect_phrases.comes_first(self.paper.report) else len(parts)
            brief = "\n".join([brief, *parts[:at], *suspects, *parts[at:]])
        link = f"full report: {self.link}\n" if self.link else ""
        return (
            ("full", link + text),
            ("without excerpts", link + brief),
            ("headline and link", self.headline()),
        )


def fitting(
    versions: Iterable[tuple[Level, str]], limit: int, room: int = ROOM
) -> tuple[Body, ...]:
    """Return the versions that fit `limit`, longest first.

    If none fits, the last one is truncated.
    """
    bodies: list[Body] = []
    for level, text in versions:
        left = {"full": (), "without excerpts": (EXCERPTS,)}.get(level, (ALL,))
        if length(text) <= limit - room:
            bodies.append(Body(level, text.strip(), left))
    if not bodies:
        cut = shortened(text, limit - room)
        bodies.append(Body(level, cut, (*left, "the end of the headline")))
    return tuple(bodies)


def shortened(text: str, limit: int) -> str:
    """Truncate a text to `limit` UTF-16 units, ending with … if it was longer."""
    if length(text) <= limit:
        return text
    head = text.encode("utf-16-le", "replace")[: 2 * (limit - 1)]
    return head.decode("utf-16-le", "ignore") + ELLIPSIS


def sized(files: Sequence[File]) -> str:
    """Name files with their sizes."""
    return ", ".join(f"{f.name} ({len(f.data):,} bytes)" for f in files)
