"""The groups that a dump lists and how far its rank came in them.

`pg_config` knows names and members, entries know which rank-local `pg_id` a name has,
and `pg_status` is keyed by `pg_id`: only together do they tell the position in a group.
A rank without entries has no such link, and its positions stay without a name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TYPE_CHECKING

import msgspec
import polars as pl

from ncclforensics import tables
from ncclforensics.parsers.fr_collectives import Calls, GroupKey, nested, operation
from ncclforensics.parsers.fr_fields import text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_GROUPS = 100_000
# members of all groups of one dump together
MAX_MEMBERS = 16_000_000
MAX_RANK = 2**31
# a count beyond it is damage (-1 is "not known": the timing of starts is off)
MAX_SEQ = 2**40


@dataclass(slots=True)
class Groups:
    """A rank's groups: members by group, and what of pg_config was not as it should."""

    members: dict[GroupKey, list[int] | None] = field(default_factory=dict)
    odd: int = 0

    def group_rank(self, group: GroupKey, rank: int | None) -> int | None:
        """Return the place of a global rank in a group, None if it is not known."""
        members = self.members.get(group)
        if members is None or rank not in members:
            return None
        return members.index(rank)


def groups(config: object, learned: list[GroupKey]) -> Groups:
    """Join `pg_config` (by name; torch 2.3: by pg_id) with the groups of the entries."""
    result = Groups(dict.fromkeys(learned))
    if config is None:
        return result
    if not isinstance(config, dict):
        result.odd += 1
        return result
    budget = MAX_MEMBERS
    for key, told in list(config.items())[:MAX_GROUPS]:
        by_id = isinstance(told, list | tuple)  # torch 2.3
        if not by_id and not isinstance(told, dict):
            result.odd += 1
            continue
        ranks = told if by_id else told.get("ranks")
        members = _members(ranks, budget)
        result.odd += members is None
        budget -= len(members or ())
        if by_id:
            same = [group for group in learned if group[0] == str(key)[:100]]
            own: GroupKey = (str(key)[:100], None, None)
        else:
            name, desc = text_of(told.get("name", key)), text_of(told.get("desc"))
            same = [group for group in learned if group[1:] == (name, desc)]
            own = (None, name, desc)
        for group in same or [own]:
            result.members[group] = members or None
    return result


def _members(ranks: Any, budget: int) -> list[int] | None:
    """Read `[0, 1]` or "[0, 1]"; None if it is neither, or too long."""
    if type(ranks) is str:
        try:
            ranks = msgspec.json.decode(ranks)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return None
    if type(ranks) not in (list, tuple) or len(ranks) > budget:
        return None
    if not set(map(type, ranks)) <= {int}:
        return None
    if ranks and not 0 <= min(ranks) <= max(ranks) < MAX_RANK:
        return None
    return list(ranks)


def group_rows(found: Groups, rank: int | None, lines: Mapping[GroupKey, int]) -> pl.DataFrame:
    """Return the rows of `groups` without their source; `line` is a group's first entry."""
    keys = list(found.members)
    schema = tables.SCHEMAS["groups"]
    columns: dict[str, list[Any]] = {
        "pg": [key[1] for key in keys],
        "pg_id": [key[0] for key in keys],
        "pg_desc": [key[2] for key in keys],
        "group_rank": [found.group_rank(key, rank) for key in keys],
        "size": [len(m) if m else None for m in found.members.values()],
        "line": [lines.get(key) for key in keys],
    }
    return pl.DataFrame(
        [
            *(pl.Series(name, v, dtype=schema[name]) for name, v in columns.items()),
            nested("members", list(found.members.values()), schema["members"]),
        ]
    )


def position_rows(
    status: object, made: Calls, found: Groups, rank: int | None
) -> tuple[pl.DataFrame, int]:
    """Return the rows of `positions` without their source, and how many are odd.

    Where the last call of a group is point to point, `pg_status` counts those calls:
    its numbers say nothing about collectives and are left out.
    """
    if not isinstance(status, dict):
        return tables.empty("positions"), int(status is not None)
    names = {group[0]: group for group in made.groups}
    last = {made.groups[n][0]: n for n in made.numbers}
    p2p = {pg_id for pg_id, number in last.items() if _is_p2p(made.rows[number])}
    rows = []
    odd = 0
    for pg_id, told in list(status.items())[:MAX_GROUPS]:
        key = str(pg_id)[:100]
        if not isinstance(told, dict):
            odd += 1
            continue
        group = names.get(key, (key, None, None))
        counts = {
            column: _seq(told.get(f"{column}_collective"))
            for column in ("last_enqueued", "last_started", "last_completed")
        }
        rows.append(
            {
                "pg_id": key,
                "pg": group[1],
                "pg_desc": group[2],
                "group_rank": found.group_rank(group, rank),
                **(dict.fromkeys(counts) if key in p2p else counts),
            }
        )
    return tables.rows("positions", rows), odd


def _is_p2p(row: tuple[Any, ...]) -> bool:
    """Tell whether a distinct call (fields as in CALL) is point to point."""
    told = row[3]
    return operation(row[2])[1] in ("send", "recv") if told is None else bool(told)


def _seq(value: object) -> int | None:
    """Read a sequence number, which JSON writes as a string."""
    if type(value) is str and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)
    return value if type(value) is int and 0 <= value <= MAX_SEQ else None
