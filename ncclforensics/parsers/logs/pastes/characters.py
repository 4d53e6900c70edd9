"""Typographic and full-width characters and HTML entities in the place of plain text.

Word processors, chats and web pages replace what a program printed. An `&amp;` alone
proves nothing: programs print it in addresses of web pages.
"""

from __future__ import annotations

import html
import re

import polars as pl

TYPOGRAPHIC = {
    **dict.fromkeys("\u201c\u201d\u201e\u2033", '"'),
    **dict.fromkeys("\u2018\u2019\u201a\u2032", "'"),
    **dict.fromkeys("\u00a0\u2007\u202f", " "),
    **dict.fromkeys("\u200b\u200c\u200d\ufeff\u00ad", ""),
    "\u2026": "...",
    # full-width punctuation, as people who write Chinese or Japanese put it
    **dict(zip("\uff1a\uff0c\uff1b", (": ", ", ", "; "), strict=True)),
    **dict(zip("\uff08\uff09\uff01\uff1f", "()!?", strict=True)),
}
# an entity that stands for a character that programs print
_ENTITY = r"&(?:#[0-9]{1,6}|#[xX][0-9A-Fa-f]{1,5}|[A-Za-z]{2,8});"
AMPERSAND = {"&amp;": "&"}  # replaced last: `&amp;lt;` is `&lt;`
# where none is there, a pattern takes a tenth of the time of `contains_any`
_EACH = "|".join([*map(re.escape, TYPOGRAPHIC), _ENTITY])


def may_be() -> pl.Expr:
    """Whether any of them is there."""
    return pl.col("raw").str.contains(_EACH).any()


def found(lines: pl.DataFrame) -> dict[str, str] | None:
    """Return what is to be replaced by what."""
    raw = lines["raw"]
    used: dict[str, str] = {}
    if raw.str.contains_any(list(TYPOGRAPHIC)).any():
        used |= TYPOGRAPHIC
    if entities := _entities(raw):
        used |= entities | AMPERSAND
    return used or None


def _entities(raw: pl.Series) -> dict[str, str]:
    """Return the entities of some lines, except `&amp;`, with what they stand for."""
    told = raw.filter(raw.str.contains(_ENTITY)).str.extract_all(_ENTITY)
    each = told.explode().unique().drop_nulls().sort()
    plain = {name: TYPOGRAPHIC.get(c := html.unescape(name), c) for name in each}
    return {
        name: to
        for name, to in plain.items()
        if to.isascii() and to.isprintable() and name not in {to, *AMPERSAND}
    }


def undone(lines: pl.DataFrame, how: dict[str, str]) -> pl.DataFrame:
    """Replace them; all at once, so that nothing is replaced twice."""
    return lines.with_columns(pl.col("raw").str.replace_many(how))


def says(how: dict[str, str]) -> str:
    """Say what was replaced."""
    what = [
        "HTML entities" if AMPERSAND.keys() <= how.keys() else "",
        "typographic quotes and blanks" if "\u2026" in how else "",
    ]
    return f"{' and '.join(filter(None, what))} are read as plain text"
