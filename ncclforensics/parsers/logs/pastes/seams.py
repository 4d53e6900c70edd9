"""Whether a blank stood where a line was broken, told by words that programs use.

`timed | out` is either; `wait | ing` is one word, `for | send` are two. The words are
those of the samples and patterns of the grammars.
"""

from __future__ import annotations

import re
from functools import cache

import polars as pl

from ncclforensics.parsers.logs import grammar

_WORD = re.compile(r"[A-Za-z]+")
_LAST, _FIRST = r"([A-Za-z]+)$", r"^([A-Za-z]+)"
_NUMBER = r"^0x[0-9a-f]"  # has a name and a blank in front
# a blank follows these more often than not
_PAUSE, _LETTER = r"[,;)\]]$|[a-z]:$", r"^[A-Za-z0-9]"
_FILE, _LINE = r"\.[a-z]{1,4}:$", r"^[0-9]"  # `socket.cc:207`


def is_one_word() -> pl.Expr:
    """Whether `raw` ends and `below` begins within one word."""
    one, two = _known()
    return (one & ~two).fill_null(False)


def are_two_words() -> pl.Expr:
    """Whether `raw` ends and `below` begins with a whole word."""
    one, two = _known()
    number = pl.col("below").str.contains(_NUMBER)
    named = pl.col("raw").str.extract(_LAST).is_in(_words().implode())
    return ((two & ~one) | (named & number)).fill_null(False)


def is_pause() -> pl.Expr:
    """Whether `raw` ends with a sign that a blank mostly follows."""
    raw, below = pl.col("raw"), pl.col("below")
    pause = raw.str.contains(_PAUSE) & below.str.contains(_LETTER)
    place = raw.str.contains(_FILE) & below.str.contains(_LINE)
    return (pause & ~place).fill_null(False)


def _known() -> tuple[pl.Expr, pl.Expr]:
    """Whether both parts together are a known word, and whether both parts are."""
    last = pl.col("raw").str.extract(_LAST)
    first = pl.col("below").str.extract(_FIRST)
    known = _words().implode()
    one = pl.concat_str(last, first).is_in(known)
    return one, last.is_in(known) & first.is_in(known)


@cache
def _words() -> pl.Series:
    texts = [
        text
        for message in grammar.load()
        for text in (message.pattern, *(str(s["line"]) for s in message.samples))
    ]
    return pl.Series(sorted(set(_WORD.findall("\n".join(texts)))), dtype=pl.String)
