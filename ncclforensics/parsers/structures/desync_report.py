"""torch's desync report (TraceUtils.h; TORCH_NCCL_DESYNC_DEBUG), under a watchdog line.

It names the ranks of the group that lag, never joined, or stopped in another call, and
counts collectives from 1 where the watchdog counts from 0. Sections come in any number;
a report that a crash cut off gives the rows before the cut.
"""

from __future__ import annotations

import pyparsing as pp

from ncclforensics.parsers.structures.limits import capped
from ncclforensics.parsers.structures.rank_set import SET, expanded

_INT = pp.Word(pp.nums, max=18).set_parse_action(lambda found: int(found[0]))


def _number(name: str) -> pp.ParserElement:
    return pp.Suppress("#") + _INT(name)


_OP = pp.Word(pp.alphas + "_", pp.alphanums + "_")("op")
_BRACKETED = pp.FollowedBy("[") + SET
_DID_NOT = pp.Suppress(pp.one_of("didn't did'nt didnt"))


def _kind(name: str) -> pp.ParserElement:
    return pp.Empty().set_parse_action(pp.replace_with(name))("kind")


_TIMED_OUT = (
    _BRACKETED + pp.Suppress("Timeout at collective:") + _OP + pp.Suppress(",")
) + (_number("seq") + _kind("timed_out"))
_NEVER = (
    pp.Suppress("ranks") + _BRACKETED + pp.Suppress("are the lagging ranks")
) + _kind("never_joined")
_UNFINISHED = (
    _BRACKETED + pp.Suppress("joined but") + _DID_NOT + pp.Suppress("finish collective")
) + (_number("seq") + _kind("joined_not_finished"))
_LAGGING = (
    _BRACKETED
    + pp.Suppress("finished collective")
    + _number("last_finished")
    + pp.Suppress(pp.Opt(",") + "but")
    + _DID_NOT
    + pp.Suppress("join collective")
    + (_number("seq") + _kind("finished_not_joined"))
)
_HEADING = (
    _number("seq") + pp.one_of("started finished") + pp.Suppress("ranks:")
) + _kind("heading")
_STATE = _BRACKETED + pp.one_of("started finished")("kind") + _OP
_LINE = _TIMED_OUT | _NEVER | _UNFINISHED | _LAGGING | _HEADING | _STATE


def parse(text: str) -> list[dict[str, object]]:
    """Return one row per rank and statement, in the order printed.

    Rows: `group_rank`, `kind` (timed_out, never_joined, joined_not_finished,
    finished_not_joined, started, finished), `seq` (counted from 1 as printed; the call
    not joined for finished_not_joined), `last_finished`, `op`.
    """
    # reports that went through a repr hold their line breaks as backslash n
    text = capped(text.replace("\\n", "\n").replace("\\t", "\t"))
    rows: list[dict[str, object]] = []
    section: object = None
    for found, _, _ in _LINE.scan_string(text):
        kind = found["kind"]
        if kind == "heading":
            section = found["seq"]
            continue
        seq = section if kind in ("started", "finished") else found.get("seq")
        for rank in expanded(found["spans"]):
            rows.append(
                {
                    "group_rank": rank,
                    "kind": kind,
                    "seq": seq,
                    "last_finished": found.get("last_finished"),
                    "op": found.get("op"),
                }
            )
    return rows
