"""`Stack trace of the failed collective:` of torch 2.6 and later.

`#0 all_reduce from /…/distributed_c10d.py:2778`, innermost first: the call site of the
operation that timed out, as the Flight Recorder kept it (ProcessGroupNCCL.cpp).
"""

from __future__ import annotations

import pyparsing as pp

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("depth", "function", "file", "file_line")

_INT = pp.Word(pp.nums, max=9).set_parse_action(lambda found: int(found[0]))
_FRAME = (
    pp.Suppress(pp.Regex(r"(?m)^[ \t]*#"))
    + _INT("depth")
    + pp.SkipTo(pp.Literal(" from "), fail_on="\n")("function")
    + pp.Suppress(pp.Literal("from"))
    + pp.Regex(r"(?P<file>[^\n]+):(?P<file_line>\d{1,9})")
).leave_whitespace(recursive=False)


def parse(text: str) -> list[dict[str, object]]:
    """Return a row per frame: `depth` (0 innermost), `function`, `file`, `file_line`.

    An unreadable text yields an empty list.
    """
    return [
        {
            "depth": found["depth"],
            "function": str(found["function"]).strip(),
            "file": found["file"],
            "file_line": int(str(found["file_line"])),
        }
        for found, _, _ in _FRAME.scan_string(capped(text))
    ]
