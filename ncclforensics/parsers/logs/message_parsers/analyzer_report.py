"""What torch's Flight Recorder analyzer (`torchfrtrace`, fr_trace.py) prints of a call.

`name: value` lines stand under the line with the sequence number: the group, the call,
the ranks that did not join it, and in `error msg` each rank whose call does not match
that of the first rank of the group, with the kind of the difference.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.limits import MAX_RANKS
from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = (
    *("pg", "pg_desc", "op", "missing", "expected", "size"),
    *("differing", "differ_in"),
)
KINDS = {**dict.fromkeys(("missing", "expected", "differing"), "ints"), "size": "int"}
_VALUE = re.compile(r"\s*(?P<name>[a-z][a-z ]{2,24}): (?P<value>.*?)\s*$")
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
_ERROR = re.compile(r"Culprit rank (\d{1,9}); Error type: ([A-Z_]+)", re.ASCII)


def parse(text: str) -> list[dict[str, object]]:
    """Return one row for the call: lists of global ranks, null if they are not printed.

    `missing` did not join, `expected` are all `size` members, which up to torch 2.5 are
    only counted; `differing` called something else than the first rank, and `differ_in`
    is the kind of the first difference.
    """
    told: dict[str, str] = {}
    for line in capped(text).splitlines()[1:]:
        if not (found := _VALUE.match(line)):
            break
        told.setdefault(found["name"], found["value"])
    errors = _ERROR.findall(told.get("error msg", told.get("error message", "")))
    members = told.get("expected ranks", "")
    size = members if members.isdigit() else told.get("world size", "")
    pg, _, desc = told.get("group info", "").partition(":")
    op = told.get("collective", "").rpartition(":")[2]
    return [
        {
            "pg": pg or None,
            "pg_desc": desc or None,
            "op": op or None,
            "missing": _ranks(told.get("missing ranks")),
            "expected": None if members.isdigit() else _ranks(members),
            "size": int(size) if size.isdigit() and len(size) < 8 else None,
            "differing": sorted({int(rank) for rank, _ in errors}) or None,
            "differ_in": errors[0][1] if errors else None,
        }
    ]


def _ranks(text: str | None) -> list[int] | None:
    """Return the ranks of a printed set `{0, 1}`, or None."""
    ranks = [int(number) for number in _NUMBER.findall(text or "")]
    return ranks if 0 < len(ranks) <= MAX_RANKS else None
