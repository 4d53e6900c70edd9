"""Headings that name the file below: `==> logs/rank_3.log <==` of tail and head.

People put such lines between what they collect in one file, too: `=== gpu0007 ===`,
`--- rank 3`. What the name tells of rank and host, as that of a file would, holds for
the lines below it up to the next heading, if they tell none themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from ncclforensics.parsers.logs.ascii_regex import ascii_only
from ncclforensics.sources import layouts

_NAME = r"([A-Za-z0-9_./][^\n<>=]{0,250}?)"
_OF_TAIL = ascii_only(rf"^==> {_NAME} <==\s*$")
_BY_HAND = ascii_only(rf"^[=#-]{{3,}} ?{_NAME}(?: ?[=#-]{{3,}})?\s*$")
MOST_WORDS = 2  # of a name that a person puts there


class Headings(NamedTuple):
    """The pattern of headings, and what to put in front of the lines below each."""

    form: str
    told: dict[str, str]


def may_be() -> pl.Expr:
    """Whether a line is a heading."""
    return pl.col("raw").str.contains(f"{_OF_TAIL}|{_BY_HAND}").any()


def found(lines: pl.DataFrame) -> Headings | None:
    """Return the headings that tell of a rank or host, None if none does.

    Below those of tail, others belong to the files.
    """
    for form in (_OF_TAIL, _BY_HAND):
        names = lines["raw"].str.extract(form).drop_nulls().unique().sort()
        told = {name: _ahead(name) for name in names}
        if told:
            return Headings(form, told) if any(told.values()) else None
    return None


def undone(lines: pl.DataFrame, how: Headings) -> pl.DataFrame:
    """Write rank and host in front of the lines below, as `framing` knows them."""
    name = pl.col("raw").str.extract(how.form)
    above = name.replace_strict(how.told, default="", return_dtype=pl.String)
    above = pl.when(name.is_not_null()).then(above).forward_fill().fill_null("")
    speaks = name.is_null() & pl.col("raw").str.contains(r"\S")
    raw = pl.when(speaks).then(above + pl.col("raw")).otherwise("raw")
    return lines.with_columns(raw.alias("raw"))


def says(_how: Headings) -> str:
    """Say nothing: a heading is no damage."""
    return ""


def _ahead(name: str) -> str:
    """Return what `framing` knows of the rank and host that a name tells."""
    words = name.split()
    if len(words) > MOST_WORDS:
        return ""
    told = layouts.read("".join(words), "log")
    host = f"[host/{told['host']}] " if "host" in told else ""
    return host + (f"[rank={told['rank']}] " if "rank" in told else "")
