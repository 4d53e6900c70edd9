"""Sets of ranks as programs print them: `[1, 2]`, `0-3,7`, `Ranks 1, 2`, `rank 5`.

Slurm and torch fold consecutive ranks to ranges. A range that makes a set wider than
MAX_RANKS cannot be a rank set of a job and is left out; `refuses` detects that. One
regex matches a whole set, because pyparsing elements would be slow for each number.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyparsing as pp

from ncclforensics.parsers.limits import MAX_RANKS
from ncclforensics.parsers.logs.message_parsers.limits import capped

if TYPE_CHECKING:
    from collections.abc import Iterable

COLUMNS = ("group_rank",)
_NUMBER = r"\d{1,9}(?!\d)"
_SPAN = rf"{_NUMBER}(?:\s*-\s*{_NUMBER})?"
_SET = re.compile(rf"{_SPAN}(?:\s*,\s*{_SPAN})*", re.ASCII)
_IN_BRACKETS = re.compile(r"\[([\d\s,-]+)\]")

Span = tuple[int, int]


def _spans(text: str) -> list[Span]:
    """Return the first and last number of each range in a set."""
    ends = (part.split("-") for part in text.split(","))
    return [(int(end[0]), int(end[-1])) for end in ends]


SPANS = pp.Regex(_SET).set_parse_action(lambda found: [_spans(found[0])])("spans")
BRACKETED = pp.Suppress("[") + SPANS + pp.Suppress("]")


def ranks(text: str) -> list[int]:
    """Return the ranks of the first set in `text`, in the order printed."""
    return expanded(_first(text))


def _first(text: str) -> list[Span]:
    cut = capped(text)
    begin = re.search(r"\d", cut)
    found = begin and _SET.match(cut, begin.start())
    return _spans(found[0]) if found else []


def expanded(spans: Iterable[Span]) -> list[int]:
    """Return the numbers of parsed spans: `0-3,7` gives 0, 1, 2, 3, 7."""
    numbers: list[int] = []
    for first, last in spans:
        if first <= last and last - first + len(numbers) < MAX_RANKS:
            numbers.extend(range(first, last + 1))
    return numbers


def refuses(text: str) -> bool:
    """Whether the first set in `text` is wider than MAX_RANKS and so not read whole."""
    return sum(max(b - a + 1, 0) for a, b in _first(text)) > MAX_RANKS


def refuses_one(text: str) -> bool:
    """Whether any bracketed set in `text` is wider than MAX_RANKS."""
    return any(map(refuses, _IN_BRACKETS.findall(capped(text))))


def parse(text: str) -> list[dict[str, object]]:
    """Return one row `group_rank` per rank of the first set in `text`."""
    return [{"group_rank": rank} for rank in ranks(text)]
