"""Recognises a Flight Recorder pickle by its head, without loading it.

torch writes a dict of version, pg_config, pg_status and entries; torch 2.2 writes a
bare list of entries. Within a few bytes, both have keys that no other pickle has. A key
is matched together with its opcode and length, never as a loose word.
"""

from __future__ import annotations

import itertools
import pickletools
import re

# keys that suffice alone, anywhere in the head; in the order of `why`
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
# a common word: counts only as the first or second key
COMMON = "entries"
COMMON_WITHIN = 256
# first keys of a torch 2.2 entry, and of a dump truncated in its first entry
OPENING_KEYS = ("entries", "pg_id", "record_id", "frames", "seq_id", "process_group")
# a truncated dump of up to so many bytes may lack any key that suffices alone
SHORT = 400


def _openings(word: str) -> tuple[bytes, ...]:
    """Return the opcodes and lengths that may precede `word` as a pickled string."""
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
    """Return "pickle protocol N" if `head` starts like a pickle, else None."""
    if head[:1] != b"\x80" or head[1:2] not in {b"\2", b"\3", b"\4", b"\5"}:
        return None
    count = 0
    try:
        for opcode, _, _ in itertools.islice(pickletools.genops(head), 6):
            count += 1
            if opcode.name == "STOP":
                break
    except Exception:  # genops raises whatever its argument readers raise
        # truncated within one of the first opcodes, or not a pickle
        if count < 2 or len(head) > SHORT:
            return None
    return f"pickle protocol {head[1]}" if count > 1 else None


def dump(head: bytes) -> str | None:
    """Return why this is a Flight Recorder dump (its keys), None if it is not one."""
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
