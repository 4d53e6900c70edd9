"""Builds the frames of several dumps at once from their parsed contents.

Creating a frame costs more than the few rows of groups, positions, templates and stacks
of one dump. So contents stay plain Python values until several dumps are collected.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.model import tables
from ncclforensics.parsers.flight_recorder.collectives import (
    counted,
    entries,
    numbers,
    template_base,
    templates,
)
from ncclforensics.parsers.flight_recorder.groups import COUNTS, group_rows
from ncclforensics.parsers.flight_recorder.stacks import stack_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ncclforensics.parsers.flight_recorder.collectives import Calls
    from ncclforensics.parsers.flight_recorder.expand import Shortened
    from ncclforensics.parsers.flight_recorder.fields import Columns
    from ncclforensics.parsers.flight_recorder.groups import Groups
    from ncclforensics.parsers.flight_recorder.stacks import Interner
    from ncclforensics.sources.model import Source


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of a dump: line, call and stack number of each.

    `stacks` maps each stack number to the line where it first occurs. If the dump is
    `short`, only the kept entries are included.
    """

    columns: Columns
    calls: Calls
    lines: list[int]
    numbers: list[int]
    stacks: Mapping[int, int]
    short: Shortened | None = None

    @property
    def height(self) -> int:
        """The number of entries of the whole dump."""
        return len(self.short.repeats) if self.short else self.columns.height

    @property
    def is_uncounted(self) -> bool:
        """Whether torch 2.2 wrote the entries, without `record_id`."""
        told = self.columns.numbers
        return "seq_id" in told and "record_id" not in told


@dataclass(frozen=True, slots=True)
class Content:
    """Content of a dump; `positions` rows: pg_id, pg, pg_desc, group rank, counts."""

    groups: Groups
    positions: Sequence[tuple[Any, ...]]
    entries: Entries | None
    cut: bool

    @property
    def rows(self) -> int:
        """The number of rows of the dump, without templates and stacks."""
        height = self.entries.height if self.entries else 0
        return height + len(self.groups.members) + len(self.positions)


def frames(
    told: Sequence[tuple[Source, Content]], interner: Interner
) -> dict[str, pl.DataFrame]:
    """Return the frames groups, positions, entries, templates and stacks of dumps.

    `interner` holds the stacks. The last three frames are absent if no dump has
    entries.
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
        found["entries"] = _entries(some, bases, interner)
        firsts = [[own.lines[n] for n in own.calls.firsts] for own in some]
        found["templates"] = templates(
            [
                (own.calls, content.groups.places.get, base)
                for (_, content, own), base in zip(made, bases, strict=True)
            ]
        ).hstack([_lines(firsts), *_cites(sources, map(len, firsts))])
        found["stacks"] = stack_rows(
            interner, [(s.name, own.stacks) for s, _, own in made]
        )
    return {name: tables.conform(name, frame) for name, frame in found.items()}


def _entries(
    some: Sequence[Entries], bases: Sequence[int], interner: Interner
) -> pl.DataFrame:
    plain = numbers(
        [(own.columns, own.calls, base) for own, base in zip(some, bases, strict=True)]
    )
    stacks = [number for own in some for number in own.numbers]
    ids = pl.Series("stack", interner.ids, dtype=pl.UInt64)
    plain = plain.hstack([ids.gather(stacks), _lines([own.lines for own in some])])
    if any(own.short for own in some):
        from ncclforensics.parsers.flight_recorder.expand import spread

        plain = spread(plain, [(own.columns.height, own.short) for own in some])
    if any(own.is_uncounted for own in some):
        plain = _counted(plain, some, bases)
    return entries(plain)


def _counted(
    plain: pl.DataFrame, some: Sequence[Entries], bases: Sequence[int]
) -> pl.DataFrame:
    if "record_id" not in plain.columns:
        plain = plain.with_columns(pl.lit(None, pl.Int64).alias("record_id"))
    parts, start = [], 0
    for own, base in zip(some, bases, strict=True):
        rows = plain[start : start + own.height]
        start += own.height
        uncounted = own.is_uncounted
        parts.append(counted(rows, own.calls, base) if uncounted else rows["record_id"])
    return plain.with_columns(pl.concat(parts))


def _lines(told: Sequence[Sequence[int]]) -> pl.Series:
    return pl.Series("line", list(chain.from_iterable(told)), dtype=pl.Int64)


def _first_lines(own: Entries | None) -> Mapping[Any, int]:
    """Return the line of the first entry of each group."""
    return {g: own.lines[n] for g, n in own.calls.first.items()} if own else {}


def _cites(sources: Sequence[Source], heights: Iterable[int]) -> list[pl.Series]:
    """Return the columns `rank` and `source`, `heights` rows per source."""
    each = list(zip(sources, heights, strict=True))
    ranks = [source.rank for source, height in each for _ in range(height)]
    names = [source.name for source, height in each for _ in range(height)]
    return [
        pl.Series("rank", ranks, dtype=pl.Int64),
        pl.Series("source", names, dtype=pl.String),
    ]
