"""torch's desync report (TraceUtils.h; TORCH_NCCL_DESYNC_DEBUG), under a watchdog line.

It names the group ranks that lag, never joined, or stopped in another call. It counts
collectives from 1, while the watchdog counts from 0. The number of sections varies; a
report truncated by a crash yields the rows before the cut.
"""

from __future__ import annotations

import pyparsing as pp

from ncclforensics.parsers.limits import MAX_STRUCTURE_ROWS
from ncclforensics.parsers.logs.message_parsers.limits import capped
from ncclforensics.parsers.logs.message_parsers.rank_set import (
    BRACKETED,
    expanded,
    refuses_one,
)

refuses = refuses_one
COLUMNS = ("group_rank", "kind", "seq", "last_finished", "op")
KINDS = {"last_finished": "int"}
_INT = pp.Word(pp.nums, max=18).set_parse_action(lambda found: int(found[0]))
# operations are in capitals: `finished ALLREDUCE`, but `finished collective #4`
_OP = pp.Word(pp.srange("[A-Z0-9_]"))("op")
_DID_NOT = pp.Suppress("didn't")


def _number(name: str) -> pp.ParserElement:
    return pp.Suppress("#") + _INT(name)


def _kind(name: str) -> pp.ParserElement:
    return pp.Empty().set_parse_action(pp.replace_with(name))("kind")


_TIMED_OUT = (
    BRACKETED + pp.Suppress("Timeout at collective:") + _OP + pp.Suppress(",")
) + (_number("seq") + _kind("timed_out"))
_NEVER = (
    pp.Suppress("To our best knowledge, ranks")
    + BRACKETED
    + pp.Suppress("are the lagging ranks")
) + _kind("never_joined")
_UNFINISHED = (
    BRACKETED + pp.Suppress("joined but") + _DID_NOT + pp.Suppress("finish collective")
) + (_number("seq") + _kind("joined_not_finished"))
_LAGGING = (
    (BRACKETED + pp.Suppress("finished collective") + _number("last_finished"))
    + (pp.Suppress(", but") + _DID_NOT + pp.Suppress("join collective"))
    + (_number("seq") + _kind("finished_not_joined"))
)
_HEADING = (
    _number("seq") + pp.Suppress(pp.one_of("started finished") + "ranks:")
) + _kind("heading")
_STATE = BRACKETED + pp.one_of("started finished")("kind") + _OP
_LINE = _TIMED_OUT | _NEVER | _UNFINISHED | _LAGGING | _HEADING | _STATE


def parse(text: str) -> list[dict[str, object]]:
    """Return one row per rank and statement, in the order printed.

    Rows: `group_rank`, `kind` (timed_out, never_joined, joined_not_finished,
    finished_not_joined, started, finished), `seq` (counted from 1 as printed; the call
    not joined for finished_not_joined), `last_finished`, `op`. Lines below more than
    MAX_STRUCTURE_ROWS rows are not read.
    """
    # reports that went through repr() have escaped line breaks and tabs
    text = capped(text.replace("\\n", "\n").replace("\\t", "\t"))
    rows: list[dict[str, object]] = []
    section: object = None
    for line in text.splitlines():
        if len(rows) > MAX_STRUCTURE_ROWS:  # each line may name all ranks of a job
            break
        try:
            found = _LINE.parse_string(line.lstrip(" \t-"))
        except pp.ParseException:
            continue
        told = found.as_dict()
        kind = told["kind"]
        if kind == "heading":
            section = told["seq"]
            continue
        in_snapshot = kind in ("started", "finished")
        if in_snapshot and section is None:
            continue
        row = {
            "kind": kind,
            "seq": section if in_snapshot else told.get("seq"),
            "last_finished": told.get("last_finished"),
            "op": told.get("op"),
        }
        rows.extend({"group_rank": rank, **row} for rank in expanded(found["spans"]))
    return rows
