"""Finds the parts of a loaded Flight Recorder dump, and what is wrong with it.

The keys identify the format better than the schema version: torch 2.2 writes a bare
list of entries, 2.3 (schema 1.4) counts everything in `seq_id`, 2.4 (2.1) adds group
names, 2.5 (2.4) adds `pg_status`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ncclforensics.model.folding import count
from ncclforensics.parsers.limits import MAX_ENTRIES, MAX_GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ncclforensics.parsers.flight_recorder.fields import Columns
    from ncclforensics.parsers.flight_recorder.recovery import Loaded

NEWEST = (2, 10)
PLACES = ("entries", "pg_config", "pg_status", "version")


@dataclass(frozen=True, slots=True)
class Dump:
    """The parts of a dump; `entries` are its dicts, `lines` their 1-based ordinals."""

    entries: list[dict[Any, Any]]
    lines: list[int]
    config: object = None
    status: object = None
    version: object = None
    bare: bool = False
    problem: str | None = None
    skipped: int = 0


def parse_version(text: object) -> tuple[int, int] | None:
    """Parse a schema version: "2.10" is (2, 10), later than (2, 9); None if invalid."""
    if type(text) is not str or len(text) > 20:
        return None
    major, _, minor = text.partition(".")
    if not (text.isascii() and major.isdecimal() and minor.isdecimal()):
        return None
    return int(major), int(minor)


def parts(value: object) -> Dump:
    """Find the parts of a dump in a loaded value of any type."""
    if isinstance(value, list):
        found: object = value
        dump: dict[Any, Any] = {}
        problem = None
    elif isinstance(value, dict):
        dump = value
        found = dump.get("entries", [])
        known = any(place in dump for place in PLACES)
        problem = None if known else "has none of the keys of a dump"
    else:
        kind = "nothing" if value is None else f"a {type(value).__name__}"
        return Dump([], [], problem=f"holds {kind}, not a dump")
    if not isinstance(found, list | tuple):
        kind = type(found).__name__
        problem, found = f"its entries are a {kind}, not a list", ()
    left_out = max(0, len(found) - MAX_ENTRIES)
    if left_out:
        problem = (
            f"more than {MAX_ENTRIES:,} entries: the first {left_out} are not read"
        )
    entries = list(found[-MAX_ENTRIES:])
    lines = list(range(left_out + 1, len(found) + 1))
    if set(map(type, entries)) - {dict}:
        whole = [(e, n) for e, n in zip(entries, lines, strict=True) if type(e) is dict]
        entries, lines = [e for e, _ in whole], [n for _, n in whole]
    skipped = len(found) - left_out - len(entries)
    if beyond := _beyond(entries):
        problem = (
            f"entries of more than {MAX_GROUPS:,} groups: the first"
            f" {left_out + beyond} are not read"
        )
        entries, lines = entries[beyond:], lines[beyond:]
    return Dump(
        entries,
        lines,
        dump.get("pg_config"),
        dump.get("pg_status"),
        dump.get("version"),
        isinstance(value, list),
        problem,
        skipped,
    )


def _beyond(entries: Sequence[dict[Any, Any]]) -> int:
    """Return how many of the oldest entries to drop to stay within MAX_GROUPS groups.

    All invalid group names count together as one.
    """
    if len(entries) <= MAX_GROUPS:
        return 0
    known = set()
    for place in reversed(range(len(entries))):
        own = entries[place].get("pg_id"), entries[place].get("process_group")
        named = [
            part[0] if isinstance(part, list | tuple) and part else part for part in own
        ]
        known.add(tuple(part for part in named if type(part) in (int, str)))
        if len(known) > MAX_GROUPS:
            return place + 1
    return 0


def ending(loaded: Loaded, size: int, dump: Dump) -> Iterator[str]:
    """Yield a note on where and why reading ended, if not at the end of the file."""
    made = len(dump.entries)
    was = "was" if made == 1 else "were"
    read = f"{count(made, 'entry', 'entries')} before that {was} read"
    if loaded.problem is None:
        if loaded.end < size:
            yield f"{size - loaded.end} bytes follow the dump's end: not read"
    elif loaded.problem == "cut":
        yield f"the dump is cut at byte {loaded.end}: {read}"
    elif loaded.problem.startswith("refused"):
        what = loaded.problem.removeprefix("refused ")
        yield (
            f"asks for {what} at byte {loaded.end}, which no dump does:"
            f" refused, nothing was executed; {read}"
        )
    else:
        yield f"the dump ends at byte {loaded.end}, {loaded.problem}: {read}"


def remarks(dump: Dump, oldest: object, cut: bool) -> Iterator[str]:
    """Yield notes on what an intact dump cannot show.

    `oldest` is the smallest record_id, None if there is none. A `cut` (truncated) dump
    may lack its version.
    """
    if not dump.entries and dump.problem is None:
        yield "no entries: what this rank called is unknown"
    if isinstance(oldest, int) and oldest > 0:
        yield (
            f"the oldest entry is record {oldest}: earlier calls have left the ring"
            " buffer or were not dumped; they are unseen, not absent"
        )
    version = parse_version(dump.version)
    if version is None and not (dump.bare or dump.problem or cut):
        yield "no readable schema version: read by its keys"
    elif version and version[0] > NEWEST[0]:
        newest = ".".join(map(str, NEWEST))
        yield f"schema {dump.version} is not known yet: read like {newest}"


def oddities(dump: Dump, fields: Columns, config: int, status: int) -> Iterator[str]:
    """Yield notes on values of the wrong type, and on limits that were hit."""
    if dump.problem:
        yield dump.problem
    for table in (dump.config, dump.status):
        if isinstance(table, dict) and len(table) > MAX_GROUPS:
            yield f"more than {MAX_GROUPS:,} groups: the others are not read"
    if dump.skipped:
        yield f"not a dict, skipped: {count(dump.skipped, 'entry', 'entries')}"
    if fields.odd:
        listed = ", ".join(f"{key} ({many})" for key, many in fields.odd.items())
        odd = "fields missing, too long or of an odd type"
        yield f"{odd}, read as null (entries): {listed}"
    if config:
        yield f"{count(config, 'malformed group')} in pg_config: members unknown"
    if status:
        yield f"{count(status, 'malformed group')} in pg_status: skipped"
