"""Typographic quotes, no-break spaces and HTML entities in the place of plain text.

Word processors, chats and web pages replace what a program printed. An `&amp;` alone
proves nothing: programs print it in addresses of web pages.
"""

from __future__ import annotations

import re

import polars as pl

TYPOGRAPHIC = {
    **dict.fromkeys("\u201c\u201d\u201e\u2033", '"'),
    **dict.fromkeys("\u2018\u2019\u201a\u2032", "'"),
    **dict.fromkeys("\u00a0\u2007\u202f", " "),
    **dict.fromkeys("\u200b\u200c\u200d\ufeff\u00ad", ""),
    "\u2026": "...",
}
# the entities of `html.escape`, and of what web pages put for a blank
ENTITIES = {
    "&lt;": "<",
    "&gt;": ">",
    "&quot;": '"',
    "&nbsp;": " ",
    **dict.fromkeys(("&#x27;", "&#39;", "&apos;"), "'"),
}
AMPERSAND = {"&amp;": "&"}  # replaced last: `&amp;lt;` is `&lt;`
# where none is there, a pattern takes a tenth of the time of `contains_any`
_EACH = "|".join(map(re.escape, [*TYPOGRAPHIC, *ENTITIES]))


def may_be() -> pl.Expr:
    """Whether any of them is there."""
    return pl.col("raw").str.contains(_EACH).any()


def found(lines: pl.DataFrame) -> dict[str, str] | None:
    """Return what is to be replaced by what."""
    raw = lines["raw"]
    used: dict[str, str] = {}
    for known, more in ((TYPOGRAPHIC, {}), (ENTITIES, AMPERSAND)):
        if raw.str.contains_any(list(known)).any():
            used |= known | more
    return used or None


def undone(lines: pl.DataFrame, how: dict[str, str]) -> pl.DataFrame:
    """Replace them; all at once, so that nothing is replaced twice."""
    return lines.with_columns(pl.col("raw").str.replace_many(how))


def says(how: dict[str, str]) -> str:
    """Say what was replaced."""
    what = [
        "HTML entities" if "&lt;" in how else "",
        "typographic quotes and blanks" if "\u2026" in how else "",
    ]
    return f"{' and '.join(filter(None, what))} are read as plain text"
