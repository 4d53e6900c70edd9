"""The process groups that a dump lists, and the rank's progress in each.

`pg_config` has names and members, entries map a name to its rank-local `pg_id`, and
`pg_status` is keyed by `pg_id`: the position in a named group needs all three. A rank
without entries lacks that mapping, so its positions have no group name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from ncclforensics.model import tables
from ncclforensics.parsers.flight_recorder.collectives import GroupKey, nested
from ncclforensics.parsers.flight_recorder.fields import text_of
from ncclforensics.parsers.limits import MAX_GROUPS, MAX_MEMBERS, MAX_RANK, MAX_SEQ

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

COUNTS = {
    "last_enqueued_collective": "last_enqueued",
    "last_started_collective": "last_started",
    "last_completed_collective": "last_completed",
}


@dataclass(slots=True)
class Groups:
    """A rank's process groups: their members and its group rank, None if unknown.

    `odd` counts the malformed parts of `pg_config`.
    """

    members: dict[GroupKey, list[int] | None]
    places: dict[GroupKey, int | None] = field(default_factory=dict)
    odd: int = 0


def groups(config: object, learned: Iterable[GroupKey], rank: int | None) -> Groups:
    """Join `pg_config` (keyed by name, in torch 2.3 by pg_id) with entries' groups."""
    result = Groups(dict.fromkeys(learned))
    same: dict[object, list[GroupKey]] = {}
    for group in result.members:
        same.setdefault(group[1:], []).append(group)
        same.setdefault(group[0], []).append(group)
    budget = MAX_MEMBERS
    for name, told in _items(config):
        by_id = isinstance(told, list | tuple)  # torch 2.3
        own = _group(name, None if by_id else told)
        if own is None or not (by_id or isinstance(told, dict)):
            result.odd += 1
            continue
        members = _members(told if by_id else told.get("ranks"), budget)
        result.odd += members is None
        budget -= len(members or ())
        place = members.index(rank) if members and rank in members else None
        for group in same.get(own[0] if by_id else own[1:]) or [own]:
            result.members[group] = members or None
            result.places[group] = place
    result.odd += not isinstance(config, dict | None)
    return result


def _items(table: object) -> Iterable[tuple[Any, Any]]:
    return islice(table.items(), MAX_GROUPS) if isinstance(table, dict) else ()


def _group(key: Any, told: Any) -> GroupKey | None:
    """Return the key of a group in pg_config; `told` is None if `key` is a pg_id."""
    known = _text(key)
    if known is None:
        return None
    if not isinstance(told, dict):
        return known, None, None
    return None, text_of(told.get("name", known)), text_of(told.get("desc"))


def _text(key: Any) -> str | None:
    """Return a key as text, None unless it is a name or a number up to MAX_SEQ."""
    return str(key) if type(key) is int and abs(key) <= MAX_SEQ else text_of(key)


def _members(ranks: Any, budget: int) -> list[int] | None:
    """Read `[0, 1]` or "[0, 1]"; None if it is neither, or too long."""
    if type(ranks) is str:
        try:
            ranks = msgspec.json.decode(ranks, type=list[int])
        except (msgspec.DecodeError, ValueError, RecursionError):
            return None
    if type(ranks) not in (list, tuple) or len(ranks) > budget:
        return None
    if not set(map(type, ranks)) <= {int}:
        return None
    if ranks and not 0 <= min(ranks) <= max(ranks) < MAX_RANK:
        return None
    return list(ranks)


def group_rows(
    told: Sequence[tuple[Groups, Mapping[GroupKey, int]]],
) -> pl.DataFrame:
    """Return the rows of `groups` of several dumps, without rank and source.

    `told` has, per dump, its groups and the line of each group's first entry, if any.
    """
    keyed = [(key, found, lines) for found, lines in told for key in found.members]
    members = [found.members[key] for key, found, _ in keyed]
    schema = tables.SCHEMAS["groups"]
    columns: dict[str, list[Any]] = {
        "pg": [key[1] for key, _, _ in keyed],
        "pg_id": [key[0] for key, _, _ in keyed],
        "pg_desc": [key[2] for key, _, _ in keyed],
        "group_rank": [found.places.get(key) for key, found, _ in keyed],
        "size": [len(ranks) if ranks else None for ranks in members],
        "line": [lines.get(key) for key, _, lines in keyed],
    }
    return pl.DataFrame(
        [
            *(pl.Series(name, v, dtype=schema[name]) for name, v in columns.items()),
            *nested({"members": members}, schema).get_columns(),
        ]
    )


def positions(
    status: object, p2p: Mapping[str | None, bool], found: Groups
) -> tuple[list[tuple[Any, ...]], int]:
    """Return the rows of `pg_status`, and the number of malformed values in it.

    A row is pg_id, pg, pg_desc, group rank and the values of COUNTS. If the last call
    of a group is point-to-point (`p2p`, by pg_id), `pg_status` counts those calls: its
    numbers do not refer to collectives and become None.
    """
    names = {group[0]: group for group in found.members}
    rows: list[tuple[Any, ...]] = []
    odd = int(not isinstance(status, dict | None))
    for pg_id, told in _items(status):
        key = _text(pg_id)
        if key is None or not isinstance(told, dict):
            odd += 1
            continue
        group = names.get(key, (key, None, None))
        counts = [None if p2p.get(key) else _seq(told.get(count)) for count in COUNTS]
        odd += any(_is_beyond(told.get(count)) for count in COUNTS)
        rows.append((*group, found.places.get(group), *counts))
    return rows, odd


def _is_beyond(value: object) -> bool:
    return isinstance(value, int) and value > MAX_SEQ


def _seq(value: object) -> int | None:
    """Read a sequence number, which JSON dumps write as a string; None if invalid."""
    if type(value) is str and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)
    return value if type(value) is int and 0 <= value <= MAX_SEQ else None
