"""A table of ranks and hosts, with a line of column names: CSV, Markdown or aligned.

    rank,local_rank,hostname        | Rank | Node    |        RANK   HOST      PID
    19,3,gpu0003                    |   19 | gpu0003 |        19     gpu0003   4711

Each column is found by its name. The table ends at the first line that does not fit.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("on", "first", "turn", "pid")
KINDS = {"first": "int", "turn": "int", "pid": "int"}
_NAMES = {
    "first": re.compile(r"(?:global|world)?[_ -]?rank", re.IGNORECASE),
    "on": re.compile(r"(?:host|node)(?:[_ -]?name)?|server|machine", re.IGNORECASE),
    "turn": re.compile(r"local[_ -]?rank", re.IGNORECASE),
    "pid": re.compile(r"pid", re.IGNORECASE),
}
_RULE = re.compile(r"[\s|+:=-]*$")
_HOST = re.compile(r"(?=[^\d]*[A-Za-z]|[\d.]+$)[A-Za-z0-9][\w.-]*")


def parse(text: str) -> list[dict[str, object]]:
    """Return one row per rank: its number `first`, its host `on`, `turn` and `pid`.

    `turn` is the local rank; what no column tells is null. Without a column of ranks
    and one of hosts there are no rows.
    """
    lines = capped(text).splitlines()
    cut = separator(lines[0]) if lines else None
    places: dict[str, int] = {}
    for at, name in enumerate(cells(lines[0], cut) if lines else ()):
        for column, shape in _NAMES.items():
            if shape.fullmatch(name):
                places.setdefault(column, at)
    if not {"first", "on"} <= places.keys():
        return []
    rows: list[dict[str, object]] = []
    for line in lines[1:]:
        if _RULE.match(line) and line.strip():
            continue
        told = cells(line, cut)
        if max(places.values()) >= len(told):
            break
        named = {column: told[at] for column, at in places.items()}
        if not named["first"].isdecimal() or not _HOST.fullmatch(named["on"]):
            break
        rows.append(
            {
                "on": named["on"],
                "first": int(named["first"][:9]),
                "turn": _number(named.get("turn", "")),
                "pid": _number(named.get("pid", "")),
            }
        )
    return rows


def _number(cell: str) -> int | None:
    return int(cell[:9]) if cell.isdecimal() else None


def separator(names: str) -> str | None:
    """Return what stands between the names of columns; None if only blanks do."""
    return next((cut for cut in "|,\t;" if cut in names), None)


def cells(line: str, cut: str | None) -> list[str]:
    """Return the cells of a row, without the bars at its ends."""
    return [cell.strip() for cell in line.strip().strip("|").split(cut)]
