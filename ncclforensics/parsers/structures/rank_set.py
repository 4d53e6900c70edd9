"""Sets of ranks as programs print them: `[1, 2]`, `0-3,7`, `Ranks 1, 2`, `rank 5`.

Ranges are Slurm's and torch's own folding. A range wider than MAX_RANKS is no set of
ranks of a job and is left out.
"""

from __future__ import annotations

import re

import pyparsing as pp

from ncclforensics.parsers.limits import MAX_RANKS
from ncclforensics.parsers.structures.limits import capped

COLUMNS = ("group_rank",)
_NUMBER = pp.Word(pp.nums, max=9).set_parse_action(lambda found: int(found[0]))
_SPAN = pp.Group(_NUMBER + pp.Opt(pp.Suppress("-") + _NUMBER))
SPANS = pp.DelimitedList(_SPAN)("spans")
BRACKETED = pp.Suppress("[") + SPANS + pp.Suppress("]")


def ranks(text: str) -> list[int]:
    """Return the ranks of the first set in `text`, in the order printed."""
    begin = re.search(r"\d", text)
    if begin is None:
        return []
    try:
        found = SPANS.parse_string(capped(text[begin.start() :]))
    except pp.ParseException:
        return []
    return expanded(found["spans"])


def expanded(spans: pp.ParseResults) -> list[int]:
    """Return the numbers of parsed spans: `0-3,7` gives 0, 1, 2, 3, 7."""
    numbers: list[int] = []
    for span in spans:
        first, last = span[0], span[-1]
        if first <= last and last - first + len(numbers) < MAX_RANKS:
            numbers.extend(range(first, last + 1))
    return numbers


def parse(text: str) -> list[dict[str, object]]:
    """Return one row `group_rank` per rank of the first set in `text`."""
    return [{"group_rank": rank} for rank in ranks(text)]
