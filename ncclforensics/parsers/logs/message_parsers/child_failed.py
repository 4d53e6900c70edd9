"""torchelastic's table of failed children (ChildFailedError, `errors/__init__.py`).

One per agent: `Failures:`, then `Root Cause (first observed failure):`, each with
entries of `name : value` lines, where `traceback` may span many. Up to torch 1.9 the
root cause came first, without `time`, and with `msg` in place of `traceback`. The "root
cause" is the child that this agent saw die first, which is often a victim. Values
missing from a truncated table are null. Times are the agent's, read as UTC like all
stamps without a zone.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pyparsing as pp

from ncclforensics.parsers.logs.message_parsers import traceback
from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = (
    "entry",
    "rank",
    "local_rank",
    "host",
    "pid",
    "code",
    "signal",
    "reason",
    "t",
    "error_file",
    "called_root_cause",
    "said_at",
)
KINDS = {"entry": "int"}
TIME = "%Y-%m-%d_%H:%M:%S"
MARGIN = "  "  # in front of every line under `traceback :`

_INT = pp.Combine(pp.Opt("-") + pp.Word(pp.nums, max=9)).set_parse_action(
    lambda found: int(found[0])
)
_REST = pp.Regex(r".*")


def _field(name: str) -> pp.ParserElement:
    return pp.Suppress(pp.Keyword(name) + ":")


_RANK = _field("rank") + _INT("rank")
_RANK += pp.Opt(pp.Suppress("(local_rank:") + _INT("local_rank") + pp.Suppress(")"))
_EXIT = _field("exitcode") + _INT("code")
_EXIT += pp.Opt(pp.Suppress("(pid:") + _INT("pid") + pp.Suppress(")"))
_EXIT += pp.Opt(pp.Suppress("(") + pp.Word(pp.alphanums)("signal") + pp.Suppress(")"))
_LINE = (
    (pp.Regex(r"\[(?P<number>\d{1,7})\]:")("entry") + pp.StringEnd())
    | (pp.Keyword("Root Cause") + _REST)("root")
    | (pp.Opt("Other") + pp.Literal("Failures:") + pp.StringEnd())("others")
    | pp.Regex(r"[-=*]{20,}")("rule")
    | (_field("time") + _REST("time"))
    | (_field("host") + _REST("host"))
    | _RANK
    | _EXIT
    | (_field("error_file") + _REST("error_file"))
    | ((_field("traceback") | _field("msg")) + _REST("reason"))
)


def parse(text: str) -> list[dict[str, object]]:
    """Return one row per failed child of the first table, or of what is left of it.

    Rows: `entry` (its number; 0 is the root), `rank` (global), `local_rank`, `host`,
    `pid`, `code` (negative: the signal), `signal`, `reason` (the signal's text, or the
    exception of its traceback), `t`, `error_file`, `called_root_cause`, `said_at` (the
    line of `text`, from 0, with the exit code). A section ends where the other one
    begins: a text that starts at `Failures:` yields only the rows of that section.
    """
    rows: list[dict[str, object]] = []
    row: dict[str, object] = {}
    under: list[str] | None = None  # lines of the current traceback
    is_root: bool | None = None
    for at, line in enumerate(capped(text).splitlines()):
        found = _read(line)
        begins_root = found is not None and "root" in found
        begins_others = found is not None and "others" in found
        if begins_root or begins_others:
            if is_root is not None:
                break
            is_root = begins_root
        elif found is not None and ("entry" in found or "rule" in found):
            _close(rows, row, under)
            row, under = {}, None
            if "entry" in found:
                row = {"entry": int(found["number"])}
        elif under is not None:
            under.append(line)
        elif found is not None and not row.keys() & (told := found.as_dict()).keys():
            row.update(told | ({"said_at": at} if "code" in told else {}))
            under = [] if "reason" in told else None
    _close(rows, row, under)
    return [_typed(row, bool(is_root)) for row in rows]


def _read(line: str) -> pp.ParseResults | None:
    try:
        return _LINE.parse_string(line)
    except pp.ParseException:
        return None


def _close(
    rows: list[dict[str, object]], row: dict[str, object], under: list[str] | None
) -> None:
    """Append an entry to `rows`, with the exception of its traceback as the reason."""
    if not row:
        return
    reason = str(row.get("reason", ""))
    if reason.startswith(traceback.HEAD):
        lines = [reason, *(line.removeprefix(MARGIN) for line in under or ())]
        for raised in traceback.parse("\n".join(lines)):
            words = (raised["exception"], raised["message"])
            row["reason"] = ": ".join(str(word) for word in words if word) or reason
    rows.append(row)


def _typed(row: dict[str, object], is_root: bool) -> dict[str, object]:
    def text(name: str) -> str | None:
        value = str(row.get(name, "")).strip()
        return None if value in ("", "<N/A>") else value

    return {
        "entry": row.get("entry"),
        "rank": row.get("rank"),
        "local_rank": row.get("local_rank"),
        "host": text("host"),
        "pid": row.get("pid"),
        "code": row.get("code"),
        "signal": text("signal"),
        "reason": text("reason"),
        "t": _time(text("time")),
        "error_file": text("error_file"),
        "called_root_cause": is_root,
        "said_at": row.get("said_at"),
    }


def _time(text: str | None) -> datetime | None:
    try:
        return datetime.strptime(text or "", TIME).replace(tzinfo=UTC)
    except ValueError:
        return None
