"""The lines below torch's `NCCL error in: …`: the error class and NCCL's last error.

`ncclRemoteError: A call failed …`, then `Last error:` and the text of the process's
last WARN, which may belong to another communicator or predate the failure.
"""

from __future__ import annotations

import pyparsing as pp

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("error_class", "explanation", "last_error")
_CLASS = (
    pp.Combine("nccl" + pp.Word(pp.alphas))("error_class")
    + pp.Suppress(":")
    + pp.Regex(r".*")("explanation")
)
_LAST = pp.Literal("Last error:")


def parse(text: str) -> list[dict[str, object]]:
    """Return one row: `error_class`, `explanation`, `last_error`; null if absent."""
    row: dict[str, object] = dict.fromkeys(("error_class", "explanation", "last_error"))
    lines = iter(capped(text).splitlines())
    for line in lines:
        if _LAST.matches(line):
            rest = line.partition(":")[2].strip()
            row["last_error"] = rest or next(lines, "").strip() or None
        elif row["error_class"] is None and _CLASS.matches(line):
            row |= _CLASS.parse_string(line).as_dict()
    return [row]
