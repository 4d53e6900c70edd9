"""Picks the lines of a log that are worth parsing, at the speed of a search.

Only lines that hold a needle are kept, and the lines below that may belong to them. A
log is scanned in spans of fixed size. What is kept of a span depends on nothing outside
it, so spans can be scanned in any order and in parallel.

A healthy job prints `routine` messages (step counters) all the time. A span keeps those
in its first lines, and the last before and the first after each non-routine line. Of
other lines it keeps so many per needle: see `search_terms`.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, BinaryIO

import polars as pl

from ncclforensics.parsers.logs import broken_lines, long_lines, pastes
from ncclforensics.parsers.logs.kept_lines import Kept
from ncclforensics.parsers.logs.lines import blocks, decoded, utf8
from ncclforensics.parsers.logs.needles import count
from ncclforensics.parsers.logs.routine_lines import Routine
from ncclforensics.parsers.logs.search_terms import WRAPPED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from ncclforensics.parsers.logs.call_counting import CallCounting
    from ncclforensics.parsers.logs.lines import Block
    from ncclforensics.parsers.logs.search_terms import Search
    from ncclforensics.parsers.logs.thinning import Thinning
    from ncclforensics.sources import Source

    Places = Mapping[int, pl.Series]  # by the number of a needle

HITS = {"place": pl.Int64(), "row": pl.Int64(), "needle": pl.Int64()}
NONE = pl.DataFrame(schema=HITS)
NOWHERE = NONE["row"]
HERE = __name__.rpartition(".")[0]
SPAN_BYTES = 64 << 20
SEAM_BYTES = 1 << 16  # read at a time to find where a span's first line begins
FIRST_LINES = 256  # of a span; all routine messages in them are kept
FEW = 8  # up to so many loud lines per block are searched around one by one
NEAR_LINES = 1024  # how far back a routine message is looked for
SAMPLES = 3  # of a block, of a kind of line that is beyond its limit, and the last
FEW_TAGS = 1024  # lines with the needle of a tag that are kept whatever they hold
LAST_LINES = 64  # of a block, kept beyond the limits: they show how a log ends
HEAD_BYTES = 1 << 18  # of a log, to detect what it went through before it was pasted
PART_BYTES = 1 << 16  # of them, from which a longer log is judged
HEADS = 16  # that are remembered: a pasted log is judged, read, and asked for its end


class InPiecesError(Exception):
    """The lines of this log were split, and have to be joined first."""


@dataclass(slots=True)
class Scan:
    """The state of one span while its blocks are fed, in order."""

    search: Search
    kept: Kept = field(default_factory=Kept)
    _seen: Counter[int] = field(default_factory=Counter)  # places of each needle
    _pending: int = 0  # next lines that still belong to a line of the last block
    _under: int = 0  # lines kept after the end of the span
    _owed: bool = False  # whether to keep the next routine message
    _behind: Routine | None = None  # the last block above with routine messages
    _before: list[pl.DataFrame] = field(default_factory=list)  # kept of it, 1 each
    _beyond: pl.DataFrame | None = None  # the last lines dropped by a limit
    # samples of what a limit drops: number and text of a line
    _of_steps: dict[int, str] = field(default_factory=dict)
    _of_tags: dict[int, str] = field(default_factory=dict)
    # not there before such lines are met: they need numpy
    _thinning: Thinning | None = None
    _counting: CallCounting | None = None

    def feed(self, block: Block) -> None:
        """Scan the next block of the span; raises InPiecesError if lines were split."""
        self.kept.met(block)
        if long_lines.may_be_long(block.data):
            block = self._shortened(block)
        present = self.search.finder.present(block.data)
        needles = self.search.needles
        here = Routine(block, [needles[n] for n in present & self.search.routine])
        hits = self._hits(
            block, sorted(n for n in present if n < len(self.search.loud))
        )
        begins = block.first <= FIRST_LINES and here.needles
        if hits.height or begins or self._pending or (self._owed and here.needles):
            self._keep(here, hits)
        if here.needles:
            self._behind = here

    def _shortened(self, block: Block) -> Block:
        lines, cut = long_lines.shortened(block.lines)
        self.kept.cut.update(cut)
        if lines.height == block.count and not cut:
            return block
        data = "".join(f"{raw}\n" for raw in lines["raw"]).encode()
        return replace(block, data=data, count=lines.height, _lines=lines, _ends=None)

    def under(self, block: Block) -> bool:
        """Keep lines after the span that may belong to its last messages.

        Returns whether more such lines may follow.
        """
        if self._pending:
            lines = block.rows(0, self._pending)
            line = pl.int_range(pl.len()) + self.kept.count + self._under + 1
            self.kept.lines.append(lines.with_columns(line.alias("line")))
            self._under += lines.height
            self._pending -= lines.height
        return self._pending > 0

    def done(self) -> Kept:
        """Finish the span and return what is kept of it."""
        self._keep_before(self.kept.count + 1)
        parts = [*self._before, _table(self._of_steps)]
        if self._of_tags:  # looking for tags among nothing takes as long
            parts.append(_table(self._of_tags).filter(self.search.is_tag))
        parts += [] if self._beyond is None else [self._beyond]
        if self._counting and (counted := self._counting.done()) is not None:
            calls, unread = counted
            parts.append(calls)
            # they were left out until it was known that they are the last ones
            (number,) = self.search.counted
            needle = self.search.needles[number].decode()
            self.kept.left_out -= Counter({needle: calls.height})
            self.kept.unread += [unread] if unread.height else []
        if (more := pl.concat(parts)).height:
            self.kept.add(more)
        return self.kept

    def _hits(self, block: Block, present: Sequence[int]) -> pl.DataFrame:
        """Return the lines to keep as HITS, ordered by `row`.

        `row` is that of a line in the block, `needle` the number of what it holds at
        the offset `place`.
        Raises InPiecesError if lines were split.
        """
        room = {n: max(self.search.most[n] - self._seen[n], 0) for n in present}
        wanted = [n for n, most in room.items() if most]
        found = self.search.finder.places(block.data, wanted) if wanted else {}
        held: dict[int, pl.Series] = {}
        last: set[int] = set()
        for number, most in room.items():
            places = found.get(number, NOWHERE)
            self._seen[number] += len(places)
            if len(places) > most or not most:
                places, ends_with = self._beyond_limit(block, number, places, most)
                last.update(ends_with)
            if len(places):
                held[number] = places
        if last:
            ends = pl.Series(sorted(last), dtype=pl.Int64)
            self._beyond = block.pick(block.rows_of(ends).unique().tail(LAST_LINES))
        if not held:
            return NONE
        hits = _placed(block, held)
        self._refuse_pieces(block, hits)
        goes = self._left_out(block, hits)
        told = hits["needle"] < self.search.marks
        if goes.len():
            quiet = ~self.search.loud.gather(hits["needle"])
            told &= ~(quiet & _among(hits["row"], goes))
        hits = hits.filter(told).sort("row", maintain_order=True)
        return self._tags_apart(block, hits)

    def _beyond_limit(
        self, block: Block, number: int, places: pl.Series, most: int
    ) -> tuple[pl.Series, Sequence[int]]:
        """Return which places to keep of a needle that exceeds its limit in a block.

        And its last ones, if it is loud. `places` are empty if it exceeded it before.
        What is left out is counted.
        """
        needle, data = self.search.needles[number], block.data
        kept = places[:most]
        start = kept[-1] + 1 if len(kept) else 0
        sampled = self._sampled(block, number, start)
        if number not in self.search.vague:
            many = len(places) or count(data, needle)
            self.kept.left_out[needle.decode()] += many - len(kept) - sampled
        last: list[int] = []
        at = len(data)
        while self.search.loud[number] and len(last) < LAST_LINES:
            if (at := data.rfind(needle, start, at)) < 0:
                break
            last.append(at)
        return kept, last

    def _sampled(self, block: Block, number: int, start: int) -> int:
        """Take a sample of a needle's lines from `start` on, and return how many."""
        if number not in self.search.sampled:
            return 0
        needle, data = self.search.needles[number], block.data
        step = max((len(data) - start) // SAMPLES, 1)
        some = {data.find(needle, at) for at in range(start, len(data), step)}
        some = {*some, data.rfind(needle, start)} - {-1}
        mine = self._of_tags if number in self.search.tags else self._of_steps
        mine.update(block.lines_at(sorted(some)))
        return len(some)

    def _refuse_pieces(self, block: Block, hits: pl.DataFrame) -> None:
        """Raise InPiecesError if lines were split."""
        marked = hits["row"].filter(hits["needle"] >= self.search.marks)
        if marked.len():
            lines = block.pick(marked.unique().sort())
            if broken_lines.pieces(lines["raw"]).any():
                raise InPiecesError

    def _left_out(self, block: Block, hits: pl.DataFrame) -> pl.Series:
        """Return the rows that are left out of those which are counted or thinned."""
        held = self.search.thinned | self.search.counted
        held = held.intersection(hits["needle"].unique())
        parts = [NOWHERE]
        if of_steps := held & self.search.thinned:
            if self._thinning is None:
                self._thinning = import_module(f"{HERE}.thinning").Thinning()
            some = _of(hits, of_steps).sort("place")
            parts.append(self._thinning.left_out(block, some["place"], some["row"]))
        for n in held & self.search.counted:
            if self._counting is None:
                self._counting = import_module(f"{HERE}.call_counting").CallCounting()
            some = _of(hits, {n})
            parts.append(self._counting.left_out(block, some["place"], some["row"]))
        goes = pl.concat(parts)
        for n in held:
            less = goes.len()
            if len(held) > 1:
                less = int(_among(_of(hits, {n})["row"], goes).sum())
            self.kept.left_out += Counter({self.search.needles[n].decode(): less})
        return goes

    def _tags_apart(self, block: Block, hits: pl.DataFrame) -> pl.DataFrame:
        """Leave out, of a needle of a tag, all but a few lines of each tag.

        Of its first FEW_TAGS lines all are kept.
        """
        many = {n for n in self.search.tags if self._seen[n] > FEW_TAGS}
        tags = _of(hits, many)
        if tags.is_empty():
            return hits
        few = import_module(f"{HERE}.tag_lines").few(block, tags, self.search)
        is_tag = pl.col("needle").is_in([*many])
        return hits.filter(~is_tag | pl.col("row").is_in(few.implode()))

    def _keep(self, here: Routine, hits: pl.DataFrame) -> None:
        block = here.block
        loud = hits["row"].filter(self.search.loud.gather(hits["needle"]))
        routine = self._routine_rows(here, loud.unique(maintain_order=True))
        rows = pl.concat([hits["row"], routine])
        if rows.len() or self._pending:
            reach = self.search.reach.gather(hits["needle"])
            ends = rows + pl.concat(
                [reach, pl.repeat(WRAPPED, routine.len(), dtype=pl.Int64, eager=True)]
            )
            kept = block.pick(_rows_under(rows, ends, self._pending, block.count))
            last = int(str(ends.max() or 0))
            self._pending = max(self._pending, last) - block.count
            self.kept.lines.append(kept)
            self.kept.own.append(block.numbers(rows.unique().sort()))
        self._pending = max(self._pending, 0)

    def _routine_rows(self, here: Routine, loud: pl.Series) -> pl.Series:
        """Return the routine rows to keep: those in the first lines and near `loud`."""
        wanted: list[int] = []
        # the pieces of a long line share one number
        first = FIRST_LINES - here.block.first + 1
        if first > 0 and here.needles:
            wanted.extend(here.rows(min(first, here.block.count)))
        if self._owed:
            behind = here.after(0)
            wanted += behind
            self._owed = not behind
        if loud.len() and not here.before(loud[0], 0):
            self._keep_before(int(here.block.numbers(loud.head(1))[0]))
        if loud.len() > FEW:
            found = here.rows(here.block.count)
            place = found.search_sorted(loud, side="left").cast(pl.Int64)
            some = place > 0
            before = found.gather(place.filter(some) - 1)
            wanted.extend(before.filter(loud.filter(some) - before <= NEAR_LINES))
            wanted.extend(found.gather(place.filter(place < found.len())))
            self._owed = place[-1] == found.len()
        else:
            for row in loud:
                after = here.after(row)
                wanted += [*here.before(row, row - NEAR_LINES), *after]
                self._owed = not after
        return pl.Series(sorted(set(wanted)), dtype=pl.Int64)

    def _keep_before(self, line: int) -> None:
        """Keep the last routine line of the blocks above, if near enough to `line`."""
        if self._behind is None:
            return
        block = self._behind.block
        start = min(line - NEAR_LINES - block.first, block.count)
        if found := self._behind.before(block.count, start):
            self._before.append(block.pick(pl.Series(found, dtype=pl.Int64)))


def _placed(block: Block, held: Places) -> pl.DataFrame:
    """Return HITS for the places of each needle."""
    many = pl.DataFrame({"needle": [*held], "many": [*map(len, held.values())]})
    needle = many.select(pl.col("needle").repeat_by("many").explode()).to_series()
    place = pl.concat(held.values()).alias("place")
    row = block.rows_of(place).alias("row")
    return pl.DataFrame([place, row, needle], schema=HITS)


def _of(hits: pl.DataFrame, needles: Collection[int]) -> pl.DataFrame:
    return hits.filter(pl.col("needle").is_in([*needles]))


def _among(rows: pl.Series, others: pl.Series) -> pl.Series:
    numpy = import_module("numpy")  # as those that leave rows out have done
    return pl.Series(numpy.isin(rows.to_numpy(), others.to_numpy(), kind="table"))


def _table(lines: Mapping[int, str]) -> pl.DataFrame:
    told = {"line": [*lines], "raw": [*lines.values()]}
    return pl.DataFrame(told, schema={"line": pl.Int64, "raw": pl.String})


def _rows_under(
    rows: pl.Series, ends: pl.Series, pending: int, height: int
) -> pl.Series:
    """Return the rows of a block to keep, distinct and sorted."""
    first = pl.int_range(min(pending, height), dtype=pl.Int64, eager=True)
    under = pl.int_ranges(rows, ends.clip(upper_bound=height), eager=True).explode()
    return pl.concat([first, under.drop_nulls().cast(pl.Int64)]).unique().sort()


def head(stream: BinaryIO) -> bytes:
    """Return the first HEAD_BYTES of a log, as UTF-8."""
    return utf8(stream).read(HEAD_BYTES)


@lru_cache(HEADS)
def paste(head: bytes) -> pastes.Plan:
    """Return what is to be undone in a log, judged by its head."""
    whole = len(head) < HEAD_BYTES
    cut = head.rfind(b"\n", 0, PART_BYTES) + 1 or head.rfind(b"\n") + 1
    lines = head if whole else head[:cut]
    return pastes.planned(decoded(lines, 1).lines, whole) if lines else ()


def in_order(stream: BinaryIO, search: Search) -> Iterator[Kept]:
    """Scan a stream span by span.

    Raises InPiecesError if lines were split, and whatever the stream raises.
    """
    scans: deque[Scan] = deque()
    index = -1
    for block in blocks(stream, span=SPAN_BYTES):
        if block.offset // SPAN_BYTES != index:
            index = block.offset // SPAN_BYTES
            scans.append(Scan(search))
        open_ = [scan.under(block) for scan in list(scans)[:-1]]
        while open_ and not open_.pop(0):
            yield scans.popleft().done()
        scans[-1].feed(block)
    for scan in scans:
        yield scan.done()


def of_span(source: Source, search: Search, index: int) -> Kept:
    """Scan one span of an uncompressed source."""
    scan = Scan(search)
    with source.open() as stream:
        offset = _first_line(stream, index * SPAN_BYTES)
        for block in blocks(stream, span=SPAN_BYTES, offset=offset):
            if block.offset // SPAN_BYTES == index:
                scan.feed(block)
            elif not scan.under(block):
                break
    return scan.done()


def _first_line(stream: BinaryIO, start: int) -> int:
    """Seek to the first line that begins at or after `start`; returns its offset."""
    offset = max(start - 1, 0)
    stream.seek(offset)
    while start and (data := stream.read(SEAM_BYTES)):
        if found := data.find(b"\n") + 1:
            return stream.seek(offset + found)
        offset += len(data)
    return offset
