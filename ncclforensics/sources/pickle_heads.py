"""Tells a Flight Recorder pickle from any other by its head, without opening it.

torch writes a dict of version, pg_config, pg_status and entries, torch 2.2 a bare list
of entries; both begin within a few bytes with keys that no other pickle holds. Strings
are looked for with the opcode and the length in front of them, never as loose words.
"""

from __future__ import annotations

import itertools
import pickletools
import re

# keys that decide alone, wherever in the head they stand; the order is that of `why`
KEYS = (
    "pg_config",
    "pg_status",
    "entries",
    "collective_seq_id",
    "p2p_seq_id",
    "profiling_name",
    "time_created_ns",
    "time_created_us",
    "comm_lib_version",
    "nccl_comm_state",
)
MOST_TOLD = 3
# a word of many vocabularies: believed only as the first or second key
COMMON = "entries"
COMMON_WITHIN = 256
# keys a torch 2.2 entry begins with, and a dump that is cut in its first entry
OPENING_KEYS = ("entries", "pg_id", "record_id", "frames", "seq_id", "process_group")
# up to here a dump may be cut before any key that decides alone
SHORT = 400


def _openings(word: str) -> tuple[bytes, ...]:
    """Return what stands before `word` where a pickle holds it as a string."""
    size = len(word)
    return b"X" + size.to_bytes(4, "little"), b"\x8c%c" % size, b"U%c" % size


def _string(word: str) -> bytes:
    return b"|".join(re.escape(start + word.encode()) for start in _openings(word))


_KEYS = [(key, key.encode(), _openings(key)) for key in KEYS]
_MEMO = rb"(?:q.|r....|\x94)?"
_OPENING = re.compile(
    rb"\x80.(?:\x95.{8})?"
    rb"(?:\]" + _MEMO + rb"\(?)?\}" + _MEMO + rb"\(?"
    rb"(?:(?P<version>" + _string("version") + rb")" + _MEMO + rb"(?:X|\x8c|U)[^\d]+"
    rb"(?P<number>\d+\.\d+)|(?P<key>" + b"|".join(map(_string, OPENING_KEYS)) + b"))",
    re.DOTALL,
)


def pickle(head: bytes) -> str | None:
    """Say "pickle protocol N" if the first opcodes are those of a pickle."""
    if head[:1] != b"\x80" or head[1:2] not in {b"\2", b"\3", b"\4", b"\5"}:
        return None
    count = 0
    try:
        for opcode, _, _ in itertools.islice(pickletools.genops(head), 6):
            count += 1
            if opcode.name == "STOP":
                break
    except Exception:  # genops raises whatever its argument readers raise
        # cut within one of the first opcodes, or no pickle
        if count < 2 or len(head) > SHORT:
            return None
    return f"pickle protocol {head[1]}" if count > 1 else None


def dump(head: bytes) -> str | None:
    """Say by which keys this is a Flight Recorder dump, or None if it is none."""
    protocol = pickle(head)
    if protocol is None:
        return None
    found = (
        key
        for key, word, openings in _KEYS
        if (at := head.find(word, 0, COMMON_WITHIN if key == COMMON else None)) > 0
        and head[:at].endswith(openings)
    )
    if told := list(itertools.islice(found, MOST_TOLD)):
        shape = ", a bare list of entries" if head[2:3] == b"]" else ""
        return f"{protocol}{shape} holding {_listed(told)}"
    opening = _OPENING.match(head) if len(head) <= SHORT else None
    if opening is None:
        return None
    if opening["version"]:
        version = opening["number"].decode()
        return f"{protocol} that begins like a dump of version {version}"
    return f"{protocol} that begins like a dump's entry"


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
