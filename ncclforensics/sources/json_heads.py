"""Distinguishes JSON evidence (dumps, error files, reports) from log text.

Only the keys of the first value are examined, by level. So a log that quotes a dump, or
a JSON line whose text contains one, stays a log. A truncated file is recognised by its
head.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ncclforensics.model import placed_ranks
from ncclforensics.model.folding import count

if TYPE_CHECKING:
    from collections.abc import Iterator

# a key or another string, an unfinished string, or a bracket
_TOKEN = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"\s*(:?)|(")|([{}\[\]])', re.DOTALL)
_OPENS = re.compile(r'\{\s*["}]|\[\s*(?:\{\s*"|\])')

DUMP_KEYS = frozenset({"pg_config", "pg_status", "nccl_comm_state"})
ENTRY_KEYS = frozenset(
    {"collective_seq_id", "p2p_seq_id", "profiling_name", "time_created_ns"}
)
ERROR_KEYS = frozenset({"message", "extraInfo", "errorCode"})
SPY_KEYS = frozenset({"os_thread_id", "owns_gil"})
# the first key of what `collect` writes: its manifest, and the processes of one look
COLLECTED = ("collected_by", "collected_processes")
RAS_KEYS = frozenset({"communicators", "communicators_count"})
# a key that every job or node of Slurm's --json has
SLURM = {
    "jobs": frozenset({"job_id", "job_state", "allocation_nodes"}),
    "nodes": frozenset({"architecture", "burstbuffer_network_address", "boot_time"}),
}
REPORT = re.compile(r'"tool"\s*:\s*\{\s*"name"\s*:\s*"ncclforensics"')
# tokens examined; about twenty are enough to recognise a dump
MOST_TOKENS = 4000


class _Key(NamedTuple):
    depth: int
    word: str
    parent: str


def json_kind(head: bytes) -> tuple[str, str] | None:
    """Return (kind, reason) if `head` starts a JSON value of a known kind, else None.

    `head` begins with the value's bracket.
    """
    text = head.decode("utf-8", "replace")
    if _OPENS.match(text) is None:
        return None
    listed = text[0] == "["
    shape = "JSON list of entries with" if listed else "JSON object with"
    top: list[str] = []
    for key in itertools.islice(_keys(text), MOST_TOKENS):
        if key.depth == 1:
            top.append(key.word)
            if len(top) == 1 and key.word in COLLECTED:
                return "collected_json", f"{shape} {key.word}"
            if key.word in DUMP_KEYS:
                return "flight_recorder_json", f"{shape} {_listed(top)}"
            if key.word in RAS_KEYS and "nccl_version" in top:
                return "ras_json", f"{shape} {_listed(top)}"
            if top == ["ncclforensics_fleet"]:
                return "fleet_json", f"{shape} {key.word}"
            if top in (["apiVersion", "items"], ["apiVersion", "kind"]):
                return "kubernetes", f"{shape} {_listed(top)}"
            if key.word == "schema_version" and REPORT.search(text):
                return "report", f"{shape} schema_version, its tool ncclforensics"
        elif key.word in ENTRY_KEYS and (
            (listed and key.depth == 2) or (key.parent == "entries" and key.depth == 3)
        ):
            return "flight_recorder_json", f"{shape} {_listed([*top, key.word])}"
        elif listed and key.depth == 2 and key.word in SPY_KEYS:
            return "pyspy_json", f"{shape} {_listed([*top, key.word])} of py-spy"
        elif key.depth == 3 and key.word in SLURM.get(key.parent, ()):
            return "slurm_json", f"{shape} {key.parent}, each with {key.word}"
        elif top == ["message"] and key.depth == 2 and key.word in ERROR_KEYS:
            return "error_json", f"{shape} message holding {key.word}"
    if {"entries", "version"} <= set(top):
        return "flight_recorder_json", f"{shape} entries and version"
    if many := _placed(head):
        return "layout_json", f"JSON that places {count(many, 'rank')} on hosts"
    return None


def _placed(head: bytes) -> int:
    """Return how many ranks a whole document places on hosts; of one rank none."""
    try:
        many = len(placed_ranks.placed(msgspec.json.decode(head)))
    except (msgspec.DecodeError, RecursionError):
        return 0
    return many if many > 1 else 0


def _listed(words: list[str]) -> str:
    shown = words[-3:]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def _keys(text: str) -> Iterator[_Key]:
    """Yield the keys of the first value: depth, name and top-level parent."""
    depth, parent = 0, ""
    for match in _TOKEN.finditer(text):
        word, colon, unfinished, bracket = match.groups()
        if unfinished:
            return
        if bracket:
            depth += 1 if bracket in "{[" else -1
            if depth == 0:
                return
        elif colon:
            if depth == 1:
                parent = ""
            yield _Key(depth, word, parent)
            if depth == 1:
                parent = word
