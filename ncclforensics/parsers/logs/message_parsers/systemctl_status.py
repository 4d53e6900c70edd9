"""`systemctl status` of one unit: its first line, and the `Active:` line under it.

`     Active: failed (Result: exit-code) since Fri 2026-11-20 11:00:00 UTC; 2min ago`.
"""

from __future__ import annotations

import pyparsing as pp

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("unit", "active", "sub")
_UNIT = pp.Suppress(pp.Regex(r"\W*")) + pp.Word(pp.alphanums + "@:_.-")("unit") + "- "
_STATE = (
    pp.Suppress("Active:")
    + pp.Word(pp.alphas)("active")
    + pp.Opt(pp.Suppress("(") + pp.SkipTo(")")("sub"))
)


def parse(text: str) -> list[dict[str, object]]:
    """Return one row: `unit`, `active` (active, inactive, failed, …), `sub`.

    A text without an `Active:` line yields an empty list.
    """
    row: dict[str, object] = {"unit": None, "active": None, "sub": None}
    for line in capped(text).splitlines():
        element = _UNIT if row["unit"] is None else _STATE
        try:
            row |= element.parse_string(line).as_dict()
        except pp.ParseException:
            continue
        if row["active"] is not None:
            return [row]
    return []
