"""Finds the lines of a block that hold a needle of a message.

One pass searches for all needles. Hyperscan is four times faster than the Aho-Corasick
of polars, which is used if Hyperscan is not installed or the input is too small to make
up for its tenth of a second of preparation. Both find the same lines.
"""

from __future__ import annotations

import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

import polars as pl

from ncclforensics.parsers.logs.lines import FEW_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.parsers.logs.lines import Block

HITS = {"row": pl.Int64(), "needle": pl.Int64()}
NONE = pl.DataFrame(schema=HITS)


class Finder(Protocol):
    """Finds needles; several threads may use one finder."""

    def find(self, block: Block) -> pl.DataFrame:
        """Return HITS ordered by `row`: the row of a line and a needle's number.

        A needle that occurs twice in a line may be reported twice.
        """
        ...


def finder(needles: Sequence[str], much: bool) -> Finder:
    """Return the fastest finder, for `much` text or for little."""
    if much and find_spec("hyperscan") is not None:
        return _Hyperscan(needles)
    return _Polars(needles)


class _Polars:
    def __init__(self, needles: Sequence[str]) -> None:
        self._needles = pl.Series(needles, dtype=pl.String)
        self._list = self._needles.implode()
        self._numbers = pl.int_range(len(needles), dtype=pl.Int64, eager=True)

    def find(self, block: Block) -> pl.DataFrame:
        lines = block.lines["raw"]
        if len(block.data) <= FEW_BYTES:
            # preparing one search costs more than the faster one would save
            rows = pl.int_range(lines.len(), dtype=pl.Int64, eager=True)
        else:
            rows = lines.str.contains_any(self._list).arg_true()
        if rows.is_empty():
            return NONE
        held = lines.gather(rows).str.extract_many(self._list, overlapping=True)
        found = pl.DataFrame({"row": rows.cast(pl.Int64), "needle": held})
        return (
            found.explode("needle")
            .drop_nulls()
            .select(
                "row", pl.col("needle").replace_strict(self._needles, self._numbers)
            )
        )


class _Hyperscan:
    def __init__(self, needles: Sequence[str]) -> None:
        import hyperscan

        self._searched = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._searched.compile(
            expressions=[needle.encode() for needle in needles],
            ids=list(range(len(needles))),
            elements=len(needles),
            flags=[0] * len(needles),
            literal=True,
        )
        self._scratch = hyperscan.Scratch(self._searched)
        self._own = threading.local()

    def find(self, block: Block) -> pl.DataFrame:
        which: list[int] = []
        ends: list[int] = []

        def found(needle: int, _: int, end: int, *__: object) -> None:
            which.append(needle)
            ends.append(end)

        if not hasattr(self._own, "scratch"):
            self._own.scratch = self._scratch.clone()
        scratch = self._own.scratch
        self._searched.scan(block.data, match_event_handler=found, scratch=scratch)
        if not ends:
            return NONE
        behind = (block.lines["raw"].str.len_bytes().cast(pl.Int64) + 1).cum_sum()
        rows = behind.search_sorted(pl.Series(ends, dtype=pl.Int64), side="right")
        hits = {"row": rows.cast(pl.Int64), "needle": which}
        return pl.DataFrame(hits, schema=HITS).sort("row", maintain_order=True)
