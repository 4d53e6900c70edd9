"""The pages of `serve`: an index, the report in its formats, and the frames.

Pure: a path and a query give a type and bytes, or None. Nothing is read from disk here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import polars as pl
from jinja2 import Environment, PackageLoader, StrictUndefined

from ncclforensics.model.frame_docs import ROWS
from ncclforensics.parsers.logs import grammar
from ncclforensics.report.export import encoded
from ncclforensics.report.formats.archive import named
from ncclforensics.report.opening_lines import opening
from ncclforensics.report.sanitize import line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncclforensics.report.bundle import Paper

MOST = 200  # rows of a page
CELL = 300  # characters
BY = ("rank", "source")  # columns that a page can be narrowed by
FILES = {
    "report.html": "Report",
    "report.json": "JSON",
    "report.md": "Markdown",
    "report.zip": "all as a zip",
}
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".md": "text/plain; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
    ".zip": "application/zip",
    ".parquet": "application/octet-stream",
}
Page = tuple[str, bytes]  # content type, body
TEMPLATES = Environment(
    loader=PackageLoader("ncclforensics.servers"),
    undefined=StrictUndefined,
    autoescape=True,
    trim_blocks=True,
)


@dataclass(frozen=True)
class Pages:
    """The pages of one paper, which is redacted already."""

    paper: Paper

    @cached_property
    def frames(self) -> Mapping[str, pl.DataFrame]:
        """The frames that have rows."""
        return {} if self.paper.frames is None else named(self.paper.frames)

    def page(self, path: str, query: Mapping[str, str]) -> Page | None:
        """Return the page at a path below the root, None if there is none."""
        if path == "":
            return TYPES[".html"], self._index().encode()
        stem, _, suffix = path.rpartition(".")
        if path in FILES:
            return TYPES[f".{suffix}"], self.paper.render(f".{suffix}")[0]
        name = stem.removeprefix("frames/")
        if f"frames/{name}" != stem or name not in self.frames:
            return None
        match suffix:
            case "html":
                return TYPES[".html"], self._frame(name, query).encode()
            case "csv" | "parquet":
                return TYPES[f".{suffix}"], encoded(self.frames[name], suffix)
        return None

    def _index(self) -> str:
        first, second = opening(self.paper.report)
        return TEMPLATES.get_template("page.html").render(
            title=" ".join(first.split()),
            opening=(" ".join(first.split()), second),
            files=FILES.items(),
            frames=[(n, _about(n), f.height) for n, f in self.frames.items()],
        )

    def _frame(self, name: str, query: Mapping[str, str]) -> str:
        """Return MOST rows of a frame from the row `from`, narrowed by columns."""
        frame = self.frames[name]
        asked = {c: query[c] for c in BY if query.get(c) and c in frame.columns}
        for column, value in asked.items():
            frame = frame.filter(pl.col(column).cast(pl.String) == value)
        told = query.get("from", "")
        first = min(int(told), frame.height) if told.isdecimal() else 0
        before = urlencode({**asked, "from": max(first - MOST, 0)})
        after = urlencode({**asked, "from": first + MOST})
        return TEMPLATES.get_template("frame.html").render(
            title=f"{name}: ncclforensics",
            name=name,
            about=_about(name),
            by=[column for column in BY if column in frame.columns],
            asked=asked,
            columns=frame.columns,
            rows=[[_cell(v) for v in row] for row in frame.slice(first, MOST).rows()],
            first=first,
            whole=frame.height,
            before=before if first else None,
            after=after if first + MOST < frame.height else None,
        )


def _about(name: str) -> str:
    """Return what a row of a frame is; of a message, what the message means."""
    return ROWS.get(name) or _meanings().get(name.removeprefix("message."), "")


@cache
def _meanings() -> dict[str, str]:
    return {message.id: message.meaning for message in grammar.load()}


def _cell(value: object) -> str:
    return "" if value is None else line(str(value), CELL)
