"""Finds which needles of messages a block of lines holds, and where.

One pass tells which of all needles occur at all. Nearly all blocks of a healthy job
hold only needles of which enough lines are kept, so each of their bytes is touched
once, and nothing is done per hit. Only the others are then located. Hyperscan is four
times faster than the Aho-Corasick of polars, which stands in where it is not installed.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import polars as pl

from ncclforensics.parsers.logs.lines import equal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from ncclforensics.parsers.logs.lines import Numbers

MANY = 3  # needles from which one pass for all is faster than a pass for each
FEW_BYTES = 1 << 16  # of text that is searched as fast without numpy
LONG = 16  # bytes of a needle of which a search skips most of a text
SAMPLE_BYTES = 1 << 14  # that tell which byte of a needle is rare


class Finder(Protocol):
    """Finds needles in UTF-8; several threads may use one finder."""

    def present(self, data: bytes) -> set[int]:
        """Return the numbers of the needles that occur in `data`."""
        ...

    def places(self, data: bytes, wanted: Collection[int]) -> Mapping[int, Numbers]:
        """Return the offsets at which each needle of `wanted` begins, Int64, sorted."""
        ...


def finder(needles: Sequence[str], often: frozenset[int] = frozenset()) -> Finder:
    """Return the fastest finder that is installed.

    Those `often` found, by number, are so in line after line of some texts.
    """
    encoded = [needle.encode() for needle in needles]
    if find_spec("hyperscan"):
        return _Hyperscan(encoded, often)
    return _Polars(encoded)


def in_bulk(data: bytes, needle: bytes) -> Numbers:
    """Return the offsets at which a needle begins, Int64, in order.

    Nothing is done per hit: a needle can only begin where its rarest byte stands.
    """
    if len(data) < max(FEW_BYTES, len(needle)):
        return np.fromiter(_one_by_one(data, needle), np.int64)
    text = np.frombuffer(data, np.uint8)
    often = np.bincount(text[:SAMPLE_BYTES], minlength=256)
    rare, *others = sorted(range(len(needle)), key=lambda i: often[needle[i]])
    at = np.flatnonzero(equal(text, needle[rare])) - rare
    at = at[(at >= 0) & (at <= len(data) - len(needle))]
    for other in others[:1]:
        at = at[text[at + other] == needle[other]]
    size = len(needle)
    begins: Any = np.ndarray(len(data) - size + 1, f"S{size}", data, strides=(1,))
    found: Numbers = at[begins[at] == needle]
    return found


def count(data: bytes, needle: bytes) -> int:
    """Return how often a needle occurs."""
    if len(needle) >= LONG:
        return data.count(needle)
    return len(in_bulk(data, needle))


def _one_by_one(data: bytes, needle: bytes) -> Iterator[int]:
    at = data.find(needle)
    while at >= 0:
        yield at
        at = data.find(needle, at + len(needle))


class _Polars:
    def __init__(self, needles: Sequence[bytes]) -> None:
        self._needles = needles
        self._numbers = {needle.decode(): n for n, needle in enumerate(needles)}
        self._list = pl.Series([*self._numbers], dtype=pl.String).implode()

    def present(self, data: bytes) -> set[int]:
        text = pl.Series([data.decode()])
        held = text.str.extract_many(self._list, overlapping=True).explode()
        return {self._numbers[needle] for needle in held.drop_nulls().unique()}

    def places(self, data: bytes, wanted: Collection[int]) -> Mapping[int, Numbers]:
        return {n: in_bulk(data, self._needles[n]) for n in wanted}


class _Hyperscan:
    def __init__(
        self, needles: Sequence[bytes], often: frozenset[int] = frozenset()
    ) -> None:
        self._needles = needles
        self._often = often
        self._own = threading.local()  # a scratch serves one scan at a time

    def present(self, data: bytes) -> set[int]:
        found: set[int] = set()
        self._scan("once", data, lambda needle, *_: found.add(needle))
        return found

    def places(self, data: bytes, wanted: Collection[int]) -> Mapping[int, Numbers]:
        rare = [n for n in wanted if n not in self._often]
        apart = self._often.intersection(wanted) if len(rare) >= MANY else wanted
        told = {n: in_bulk(data, self._needles[n]) for n in apart}
        if len(told) == len(wanted):
            return told
        found: defaultdict[int, list[int]] = defaultdict(list)
        ends = {n: found[n].append for n in wanted if n not in told}

        def met(needle: int, _: int, end: int, *__: object) -> None:
            if needle in ends:
                ends[needle](end)

        self._scan("all", data, met)
        return told | {
            n: np.array(found[n], np.int64) - len(self._needles[n])
            for n in wanted
            if n not in told
        }

    # prepared when they are first asked for: few logs need both
    @cached_property
    def _once(self) -> Any:
        return self._compiled(range(len(self._needles)), "HS_FLAG_SINGLEMATCH")

    @cached_property
    def _all(self) -> Any:
        numbers = range(len(self._needles))
        return self._compiled([n for n in numbers if n not in self._often])

    def _compiled(self, numbers: Sequence[int], *flags: str) -> Any:
        """Return a database of some needles and its scratch."""
        import hyperscan

        flag = sum(getattr(hyperscan, name) for name in flags)
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        database.compile(
            expressions=[self._needles[n] for n in numbers],
            ids=list(numbers),
            elements=len(numbers),
            flags=[flag] * len(numbers),
            literal=True,
        )
        return database, hyperscan.Scratch(database)

    def _scan(self, which: str, data: bytes, met: Callable[..., None]) -> None:
        database, scratch = self._once if which == "once" else self._all
        own = self._own.__dict__
        if which not in own:
            own[which] = scratch.clone()
        database.scan(data, match_event_handler=met, scratch=own[which])
