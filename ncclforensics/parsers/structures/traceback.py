"""A Python traceback: what was raised, and the last line of the user's own code.

Of a chain (`During handling of …`, `The above exception was the direct cause of …`) the
first exception is the cause of the rest, and the one that is returned. Frames of torch,
of Python itself and of other installed packages are passed over, as the call site that
helps is the user's; a traceback without such a frame gives its last one.
"""

from __future__ import annotations

import pyparsing as pp

from ncclforensics.parsers.structures.limits import capped

MAX_FRAMES = 500
INSTALLED = ("site-packages/", "dist-packages/")
NOT_THE_USERS = ("<frozen ", "/lib/python3", "lib64/python3", *INSTALLED)
NEVER_THE_USERS = ("<frozen ", "-packages/torch/", "/torch/distributed/")
CHAINS = ("During handling of the above", "The above exception was the direct cause")

_LINE_REST = pp.Regex(r"[^\n]*")
_HEAD = pp.Regex(r"[^\n]*Traceback \(most recent call last\):?[^\n]*")
_FRAME = pp.Group(
    pp.Suppress("File")
    + pp.QuotedString('"')("file")
    + pp.Suppress(pp.Literal(",") + "line")
    + pp.Word(pp.nums, max=9).set_parse_action(lambda found: int(found[0]))("file_line")
    + pp.Opt(pp.Suppress(pp.Opt(",") + "in") + _LINE_REST("function"))
)
# code, carets and `[Previous line repeated …]`, all indented
_SOURCE = pp.Regex(r"(?m)^[ \t]+(?!File \"|Traceback \()[^\n]*")
_EXCEPTION = pp.Regex(
    r"(?P<exception>[A-Za-z_][\w.]*(?:\.[A-Za-z_]\w*)*)(?::(?: (?P<message>[^\n]*)|[ \t]*)"
    r"(?=\n|$)|(?=[ \t]*(?:\n|$)))"
)
_TRACEBACK = (
    pp.Suppress(_HEAD)
    + pp.ZeroOrMore(_FRAME | pp.Suppress(_SOURCE.copy().leave_whitespace()))("frames")
    + pp.Opt(_EXCEPTION("raised"))
)


def parse(text: str) -> list[dict[str, object]]:
    """Return one row for a traceback that `text` begins with, or an empty list.

    Row: `exception` (its type as printed), `message` (its first line), `file`,
    `file_line` and `function` of the user's last frame, `chained` (whether other
    exceptions followed from it). A traceback that is cut off has null for the rest.
    """
    text = capped(text)
    start = text.find("Traceback (most recent call last)")
    if start < 0:
        return []
    frames: list[tuple[str, int, str]] = []
    lines = text[start:].splitlines()
    exception: dict[str, str | None] = {"exception": None, "message": None}
    end = len(lines)
    for number, line in enumerate(lines[1:], 1):
        if frame := _frame(line):
            frames.append(frame)
        elif line[:1] not in (" ", "\t", ""):
            exception = _raised(line)
            end = number
            break
    if not frames and exception["exception"] is None:
        return []
    where = _users(frames[-MAX_FRAMES:])
    chained = any(line.startswith(CHAINS) for line in _until_next(lines[end + 1 :]))
    return [{**exception, **where, "chained": chained}]
