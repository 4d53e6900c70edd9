"""A table of the parts of steps, with a line of column names and a row a rank or step.

     rank  node     data   forward  backward  |  rank |   data |    fwd |    bwd |
        0  gpu0003   5.7     371.6     665.8  | ------+--------+--------+--------+
        1  gpu0003   8.0     376.0     666.1  |     0 |   31.7 |  219.2 |  403.0 |

The table ends at the first line that does not fit.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.message_parsers.limits import capped
from ncclforensics.parsers.logs.message_parsers.rank_table import cells, separator

COLUMNS = ("timer", "of_rank", "of_step", "on", "took", "unit", "below")
KINDS = {"of_rank": "int", "of_step": "int", "took": "float", "below": "int"}
_WHOSE = {
    "of_rank": re.compile(r"(?:global|world)?[_ -]?rank", re.IGNORECASE),
    "of_step": re.compile(r"(?:global[_ -]?)?(?:step|iter|iteration)", re.IGNORECASE),
    "on": re.compile(r"host(?:name)?|node", re.IGNORECASE),
}
_UNIT = re.compile(r"[(\[#] ?(m?s)(?:econds)?\b[)\]]?")
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,9})?", re.ASCII)
_RULE = re.compile(r"[\s|+:=-]+$")
_COMMENT = re.compile(r"\s*#.*$")


def parse(text: str) -> list[dict[str, object]]:
    """Return a row a number: `timer` is its column, `below` how many lines below it is.

    `of_rank` or `of_step` is whose row it is, `on` the host that the row names, `unit`
    "s", "ms", or None if the line of names tells none.
    """
    lines = capped(text).splitlines()
    if not lines:
        return []
    cut = separator(lines[0])
    names = cells(_UNIT.sub("", _COMMENT.sub("", lines[0])), cut)
    at = _leading(names)
    if not {"of_rank", "of_step"} & at.keys():
        return []
    told = _UNIT.search(lines[0])
    timers = {n: name for n, name in enumerate(names) if n not in at.values()}
    rows: list[dict[str, object]] = []
    for below, line in enumerate(lines[1:], 1):
        if _RULE.match(line):
            continue
        row = cells(line, cut)
        whose = {w: row[n] for w, n in at.items() if n < len(row)}
        numbers = {w: n for w, n in whose.items() if w != "on"}
        if len(row) != len(names) or not all(map(str.isdecimal, numbers.values())):
            break
        rows += [
            {
                "timer": name,
                **dict.fromkeys(_WHOSE),
                **{w: int(number[:9]) for w, number in numbers.items()},
                "on": whose.get("on"),
                "took": float(row[n]),
                "unit": told and told[1],
                "below": below,
            }
            for n, name in timers.items()
            if _NUMBER.fullmatch(row[n])
        ]
    return rows


def _leading(names: list[str]) -> dict[str, int]:
    """Return at which place the columns stand that tell whose row it is.

    They lead: a `step` behind the first time is a time itself.
    """
    at: dict[str, int] = {}
    for n, name in enumerate(names):
        what = next((w for w, form in _WHOSE.items() if form.fullmatch(name)), None)
        if what is None or what in at:
            break
        at[what] = n
    return at
