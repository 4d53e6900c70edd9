"""Finds which needles of messages a block of lines holds, and where.

One pass tells which of all needles occur at all. Nearly all blocks of a healthy job
hold only needles of which enough lines are kept, so each of their bytes is touched
once, and nothing is done per hit. Only the others are then located. Hyperscan is four
times faster than the Aho-Corasick of polars, which stands in where it is not installed.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import polars as pl

from ncclforensics.parsers.logs.lines import equal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from ncclforensics.parsers.logs.ended_texts import Flags
    from ncclforensics.parsers.logs.lines import Numbers

MANY = 3  # needles from which one pass for all is faster than a pass for each
FEW_BYTES = 1 << 16  # of text that is searched as fast without numpy
SAMPLE_BYTES = 1 << 14  # that tell which byte of a needle is rare
MOST_SEARCHES = 8  # that leave out the usual needles of some log
WORDS = (8, 4, 2, 1)  # bytes of a needle that are compared at once


class Finder(Protocol):
    """Finds needles in UTF-8; several threads may use one finder."""

    def present(self, data: bytes, usual: frozenset[int] = frozenset()) -> set[int]:
        """Return the numbers of the needles that occur in `data`.

        Those `usual` may be looked for apart, which is fast only where they occur.
        """
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
    found: Numbers = at[stands(data, needle, at)]
    return found


def stands(data: bytes, needle: bytes, at: Numbers) -> Flags:
    """Return whether a needle begins at each offset; none is too near the end."""
    size, many = len(needle), len(at)
    told = np.ones(many, np.bool_)
    if not many:
        return told
    width = next(width for width in WORDS if width <= size)
    # copied in one go, which takes as long for all bytes as for a word
    held = np.ndarray(len(data) - size + 1, f"V{size}", data, strides=(1,))[at]
    for begin in (*range(0, size - width, width), size - width):
        words: Any = np.ndarray(many, f"<u{width}", held, begin, (size,))
        word = int.from_bytes(needle[begin : begin + width], "little")
        told &= words == words.dtype.type(word)
    return told


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

    def present(self, data: bytes, _: frozenset[int] = frozenset()) -> set[int]:
        text = pl.Series([data.decode()])
        held = text.str.extract_many(self._list, overlapping=True).explode()
        return {self._numbers[needle] for needle in held.drop_nulls().unique()}

    def places(self, data: bytes, wanted: Collection[int]) -> Mapping[int, Numbers]:
        return {n: in_bulk(data, self._needles[n]) for n in wanted}


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """A search that Hyperscan has prepared, and the scratch that it needs."""

    database: Any
    scratch: Any


class _Hyperscan:
    def __init__(
        self, needles: Sequence[bytes], often: frozenset[int] = frozenset()
    ) -> None:
        self._needles = needles
        self._often = often
        self._own = threading.local()  # a scratch serves one scan at a time
        self._once: dict[frozenset[int], _Search] = {}  # by the needles left out
        self._preparing = threading.Lock()

    def present(self, data: bytes, usual: frozenset[int] = frozenset()) -> set[int]:
        found = {n for n in usual if self._needles[n] in data}
        search = self._without(usual)
        self._scan(search, data, lambda needle, *_: found.add(needle))
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

        self._scan(self._all, data, met)
        return told | {
            n: np.array(found[n], np.int64) - len(self._needles[n])
            for n in wanted
            if n not in told
        }

    # prepared when it is first asked for: few logs need it
    @cached_property
    def _all(self) -> _Search:
        numbers = range(len(self._needles))
        return self._compiled([n for n in numbers if n not in self._often])

    def _without(self, usual: frozenset[int]) -> _Search:
        """Return a search for the first place of each needle but the usual ones.

        For all, if there are too many such searches.
        """
        with self._preparing:
            if len(self._once) > MOST_SEARCHES and usual not in self._once:
                usual = frozenset()
            if usual not in self._once:
                numbers = [n for n in range(len(self._needles)) if n not in usual]
                self._once[usual] = self._compiled(numbers, "HS_FLAG_SINGLEMATCH")
            return self._once[usual]

    def _compiled(self, numbers: Sequence[int], *flags: str) -> _Search:
        """Prepare a search for some needles."""
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
        return _Search(database, hyperscan.Scratch(database))

    def _scan(self, search: _Search, data: bytes, met: Callable[..., None]) -> None:
        own = self._own.__dict__.setdefault("scratches", {})
        if search not in own:
            own[search] = search.scratch.clone()
        search.database.scan(data, match_event_handler=met, scratch=own[search])
