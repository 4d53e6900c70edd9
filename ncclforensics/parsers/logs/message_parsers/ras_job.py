"""The line of numbers in the ncclras job summary: nodes, processes and GPUs.

Only the form for a regular job is supported, where all nodes have the same number of
processes and all processes the same number of GPUs; the last two numbers are totals.
"""

from __future__ import annotations

import pyparsing as pp

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("nodes", "processes", "gpus")
KINDS = dict.fromkeys(COLUMNS, "int")
_NUMBER = pp.Word(pp.nums, max=9).set_parse_action(lambda found: int(found[0]))
_TABLE = _NUMBER("nodes") + _NUMBER + _NUMBER + _NUMBER("processes") + _NUMBER("gpus")


def parse(text: str) -> list[dict[str, object]]:
    """Return one row `nodes`, `processes`, `gpus`, or an empty list."""
    below = capped(text).partition("\n")[2]
    try:
        return [_TABLE.parse_string(below).as_dict()]
    except pp.ParseException:
        return []
