"""Lines of a chat between the lines of a log: a time of day, and who wrote.

Slack, Teams and mail put `Jane Doe  10:42 AM` or `[10:42] Jane Doe` above each message.
Such a line has nothing else, so no program's line is one.
"""

from __future__ import annotations

import polars as pl

LEAST = 2
_CLOCK = r"[\[(]?[0-9]{1,2}:[0-9]{2}(?: ?[AaPp]\.?[Mm]\.?)?[\])]?"


def _line(word: str) -> str:
    name = f"{word}(?: {word}){{0,3}}"
    return rf"^\s*(?:{name}[,:]?\s+(?:APP\s+)?)?{_CLOCK}(?:\s+{name}:?)?\s*$"


_LINE = _line(r"\p{L}[\p{L}.'-]*")
# finds these lines and more; letters of all languages take long to prepare
_LIKELY = _line(r"[^\s0-9]+")


def may_be() -> pl.Expr:
    """Whether several lines are short and end or begin with a time."""
    return pl.col("raw").str.contains(_LIKELY).sum() >= LEAST


def found(lines: pl.DataFrame) -> str | None:
    """Return the pattern of such lines, if several are among others."""
    count = int(lines["raw"].str.contains(_LINE).sum())
    return _LINE if LEAST <= count < lines.height / 2 else None


def undone(lines: pl.DataFrame, how: str) -> pl.DataFrame:
    """Drop these lines."""
    return lines.filter(~pl.col("raw").str.contains(how))


def says(how: str) -> str:
    """Say what was dropped."""
    return "lines of a chat between those of the log are left out"
