"""The rows of some dumps, of what was read of each.

A frame costs more than the few rows that a dump gives of groups, positions, templates
and stacks. So what dumps hold stays plain until some are together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics import tables
from ncclforensics.parsers.fr_collectives import entries, template_base, templates
from ncclforensics.parsers.fr_groups import COUNTS, group_rows
from ncclforensics.parsers.fr_stacks import stack_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ncclforensics.parsers.fr_collectives import Calls
    from ncclforensics.parsers.fr_fields import Columns
    from ncclforensics.parsers.fr_groups import Groups
    from ncclforensics.parsers.fr_stacks import Interner
    from ncclforensics.sources.model import Source


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of a dump: a `line`, a call and the number of a stack of each.

    `stacks` says of each stack at which line it comes first.
    """

    columns: Columns
    calls: Calls
    lines: pl.Series
    numbers: pl.Series
    stacks: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Content:
    """What a dump holds. `positions` are pg_id, name, description, place, counts."""

    groups: Groups
    positions: Sequence[tuple[Any, ...]]
    entries: Entries | None
    cut: bool

    @property
    def rows(self) -> int:
        """How many rows it gives, without templates and stacks."""
        height = self.entries.columns.height if self.entries else 0
        return height + len(self.groups.members) + len(self.positions)


def frames(
    told: Sequence[tuple[Source, Content]], interner: Interner
) -> dict[str, pl.DataFrame]:
    """Return `groups`, `positions`, `entries`, `templates` and `stacks` of dumps.

    `interner` knows the stacks. The last three are left out where no dump has entries.
    """
    if not told:
        return {}
    sources = [source for source, _ in told]
    contents = [content for _, content in told]
    heights = [len(content.groups.members) for content in contents]
    groups = group_rows([(c.groups, _first_lines(c.entries)) for c in contents])
    found = {"groups": groups.hstack(_cites(sources, heights))}
    schema = tables.SCHEMAS["positions"]
    names = ("pg_id", "pg", "pg_desc", "group_rank", *COUNTS.values())
    found["positions"] = pl.DataFrame(
        [row for content in contents for row in content.positions],
        {name: schema[name] for name in names},
        orient="row",
    ).hstack(_cites(sources, [len(content.positions) for content in contents]))
    made = [(s, c, c.entries) for s, c in told if c.entries]
    if made:
        some = [own for _, _, own in made]
        sources = [source for source, _, _ in made]
        bases = [template_base(source.name) for source in sources]
        ids = pl.Series(interner.ids, dtype=pl.UInt64)
        found["entries"] = entries(
            [
                (own.columns, own.calls, base)
                for own, base in zip(some, bases, strict=True)
            ]
        ).hstack(
            [
                ids.gather(pl.concat([own.numbers for own in some])).alias("stack"),
                pl.concat([own.lines for own in some]).alias("line"),
            ]
        )
        firsts = [own.lines.gather(own.calls.firsts) for own in some]
        found["templates"] = templates(
            [
                (own.calls, content.groups.places.get, base)
                for (_, content, own), base in zip(made, bases, strict=True)
            ]
        ).hstack([pl.concat(firsts).alias("line"), *_cites(sources, map(len, firsts))])
        found["stacks"] = stack_rows(
            interner, [(s.name, own.stacks) for s, _, own in made]
        )
    return {name: tables.conform(name, frame) for name, frame in found.items()}


def _first_lines(own: Entries | None) -> Mapping[Any, int]:
    """Return the line of each group's first entry."""
    return {g: own.lines[n] for g, n in own.calls.first.items()} if own else {}


def _cites(sources: Sequence[Source], heights: Iterable[int]) -> list[pl.Series]:
    """Return `rank` and `source` of so many rows of each source."""
    each = list(zip(sources, heights, strict=True))
    ranks = [source.rank for source, height in each for _ in range(height)]
    names = [source.name for source, height in each for _ in range(height)]
    return [
        pl.Series("rank", ranks, dtype=pl.Int64),
        pl.Series("source", names, dtype=pl.String),
    ]
