"""Picks the lines of a log that are worth parsing, at the speed of a search.

Only lines that hold a needle are kept, and the lines below that may belong to them. A
log is scanned in spans of fixed size. What is kept of a span depends on nothing outside
it, so spans can be scanned in any order and in parallel.

A healthy job prints `routine` messages (step counters) all the time. A span keeps those
in its first lines, and the last before and the first after each non-routine line. Of
other neutral messages it keeps QUIET_LINES per needle, of messages about trouble
LOUD_LINES: a failing job may repeat one for hours.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, BinaryIO

import polars as pl

from ncclforensics.parsers.logs import broken_lines, grammar, long_lines, pastes
from ncclforensics.parsers.logs.kept_lines import Kept
from ncclforensics.parsers.logs.lines import blocks, decoded, utf8
from ncclforensics.parsers.logs.needles import finder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ncclforensics.parsers.logs.grammar import Message
    from ncclforensics.parsers.logs.lines import Block
    from ncclforensics.parsers.logs.needles import Finder
    from ncclforensics.sources import Source

SPAN_BYTES = 64 << 20
SEAM_BYTES = 1 << 16  # read at a time to find where a span's first line begins
WRAPPED = 4  # lines that one wrapped message may span
FIRST_LINES = 256  # of a span; all routine messages in them are kept
FEW = 8  # up to so many loud lines per block are searched around one by one
NEAR_LINES = 1024  # how far back a routine message is looked for
QUIET_LINES = 8192
COUNTED = {": opCount ": 131_072}  # calls are counted, so more of them are kept
LOUD_LINES = 32_768  # every rank of a very large job prints a few
LAST_LINES = 64  # of a block, kept beyond the limits: they show how a log ends
HEAD_BYTES = 1 << 18  # of a log, to detect what it went through before it was pasted
HEADS = 16  # that are remembered: a pasted log is judged, read, and asked for its end


@dataclass(frozen=True, slots=True)
class Search:
    """What to search for; prepared once for all sources.

    `routine` is a pattern of the needles of routine messages. `needles` are the needles
    of the others, followed, from index `marks` on, by the marks of split lines. Per
    needle, `reach` is how many lines, from its own on, may belong to its message;
    `loud` whether its message may be non-neutral; `most` how many lines with it are
    kept per span. Most lines with a `vague` needle hold no message, so dropping them
    leaves no note.
    """

    messages: Sequence[Message]
    finder: Finder
    routine: str
    needles: Sequence[str]
    marks: int
    reach: pl.Series
    loud: pl.Series
    most: pl.Series
    vague: frozenset[str]


@cache
def search(much: bool) -> Search:
    """Prepare a search; for `much` text, with a slower setup and a faster search."""
    if much:
        import_module("numpy")  # counts lines; importing it costs as much as 200 MB
    messages = grammar.strict()
    routine = grammar.needles(m for m in messages if m.routine)
    needles = grammar.needles(m for m in messages if not m.routine)
    loud = set(grammar.needles(m for m in messages if m.role != "neutral" or m.inner))
    reach = dict.fromkeys(needles, WRAPPED)
    for message in messages:
        for needle in message.needles:
            reach[needle] = max(reach.get(needle, 0), message.block)
    all_needles = [*needles, *broken_lines.MARKS]
    return Search(
        messages,
        finder(all_needles, much),
        "|".join(map(re.escape, routine)),
        all_needles,
        len(needles),
        pl.Series([reach.get(n, 1) for n in all_needles], dtype=pl.Int64),
        pl.Series([n in loud for n in all_needles], dtype=pl.Boolean),
        pl.Series(
            [
                LOUD_LINES if n in loud else COUNTED.get(n, QUIET_LINES)
                for n in all_needles
            ],
            dtype=pl.Int64,
        ),
        frozenset(needles).difference(
            grammar.needles(
                m for m in messages if not m.fallback or m.role != "neutral"
            )
        ),
    )


class InPiecesError(Exception):
    """The lines of this log were split, and have to be joined first."""


@dataclass(slots=True)
class Scan:
    """The state of one span while its blocks are fed, in order."""

    search: Search
    kept: Kept = field(default_factory=Kept)
    _met: list[pl.Series] = field(default_factory=list)  # needle numbers of all hits
    _seen: int = 0  # number of hits
    _pending: int = 0  # next lines that still belong to a line of the last block
    _under: int = 0  # lines kept after the end of the span
    _owed: bool = False  # whether to keep the next routine message
    _behind: Block | None = None  # the previous block
    _kept_behind: pl.Series | None = None  # numbers of its kept lines
    _beyond: pl.DataFrame | None = None  # the last lines dropped by a limit

    def feed(self, block: Block) -> None:
        """Scan the next block of the span; raises InPiecesError if lines were split."""
        self.kept.met(block)
        if long_lines.may_be_long(block.data):
            block = self._shortened(block)
        hits = self.search.finder.find(block)
        if hits.height:
            hits = self._without_marks(block.lines, hits)
            hits = self._within_limits(block, hits)
        begins = block.first <= FIRST_LINES
        if hits.height or begins or self._pending or self._owed:
            self._keep(block.lines, hits)
        else:
            self._kept_behind = None
        self._behind = block

    def _shortened(self, block: Block) -> Block:
        lines, cut = long_lines.shortened(block.lines)
        self.kept.cut.update(cut)
        if lines.height == block.count and not cut:
            return block
        data = "".join(f"{raw}\n" for raw in lines["raw"]).encode()
        return replace(block, data=data, count=lines.height, _lines=lines)

    def under(self, block: Block) -> bool:
        """Keep lines after the span that may belong to its last messages.

        Returns whether more such lines may follow.
        """
        if self._pending:
            lines = block.lines.head(self._pending)
            line = pl.int_range(pl.len()) + self.kept.count + self._under + 1
            self.kept.lines.append(_compact(lines.with_columns(line.alias("line"))))
            self._under += lines.height
            self._pending -= lines.height
        return self._pending > 0

    def done(self) -> Kept:
        """Finish the span and return what is kept of it."""
        self._keep_before(0)
        if self._beyond is not None:
            self.kept.add_last(self._beyond)
        return self.kept

    def _without_marks(self, lines: pl.DataFrame, hits: pl.DataFrame) -> pl.DataFrame:
        """Drop hits of split-line marks; raises InPiecesError if lines were split."""
        marks = hits["needle"] >= self.search.marks
        if not marks.any():
            return hits
        if broken_lines.in_pieces(
            lines["raw"].gather(hits["row"].filter(marks).unique())
        ):
            raise InPiecesError
        return hits.filter(~marks)

    def _within_limits(self, block: Block, hits: pl.DataFrame) -> pl.DataFrame:
        """Drop hits beyond the limits, and count them."""
        self._seen += hits.height
        self._met.append(hits["needle"])
        if self._seen <= QUIET_LINES:
            return hits
        met = pl.concat(self._met)
        self._met = [met]
        place = met.to_frame("needle").select(pl.int_range(pl.len()).over("needle"))
        fits = (place.to_series() < self.search.most.gather(met)).tail(hits.height)
        if fits.all():
            return hits
        beyond = hits["needle"].filter(~fits).value_counts()
        for number, count in beyond.iter_rows():
            needle = self.search.needles[number]
            if needle not in self.search.vague:
                self.kept.left_out[needle] += count
        loud = hits.filter(~fits & self.search.loud.gather(hits["needle"]))["row"]
        if loud.len():
            last = block.lines[loud.unique().sort().tail(LAST_LINES)]
            self._beyond = _compact(last)
        return hits.filter(fits)

    def _keep(self, lines: pl.DataFrame, hits: pl.DataFrame) -> None:
        loud = hits["row"].filter(self.search.loud.gather(hits["needle"]))
        routine = self._routine_rows(lines, loud.unique(maintain_order=True))
        rows = pl.concat([hits["row"], routine])
        if rows.len() or self._pending:
            reach = self.search.reach.gather(hits["needle"])
            ends = rows + pl.concat(
                [reach, pl.repeat(WRAPPED, routine.len(), dtype=pl.Int64, eager=True)]
            )
            wanted = _rows_under(rows, ends, self._pending, lines.height)
            last = int(str(ends.max() or 0))
            self._pending = max(self._pending, last) - lines.height
            kept = lines[wanted]
            self.kept.lines.append(_compact(kept))
            self.kept.own.append(lines["line"].gather(rows.unique().sort()))
            self._kept_behind = kept["line"].tail(NEAR_LINES)
        else:
            self._kept_behind = None
        self._pending = max(self._pending, 0)

    def _routine_rows(self, lines: pl.DataFrame, loud: pl.Series) -> pl.Series:
        """Return the routine rows to keep: those in the first lines and near `loud`."""
        wanted: list[int] = []
        if self.kept.count - lines.height < FIRST_LINES:
            # the pieces of a long line share one number; there may be a million
            first = lines.head(FIRST_LINES).filter(pl.col("line") <= FIRST_LINES)
            wanted.extend(self._routine(first))
        if self._owed:
            behind = self._first_behind(lines, 0)
            wanted += behind
            self._owed = not behind
        if loud.len():
            self._keep_before(int(loud[0]))
        if loud.len() > FEW:
            found = self._routine(lines)
            place = found.search_sorted(loud, side="left").cast(pl.Int64)
            some = place > 0
            before = found.gather(place.filter(some) - 1)
            wanted.extend(before.filter(loud.filter(some) - before <= NEAR_LINES))
            wanted.extend(found.gather(place.filter(place < found.len())))
            self._owed = place[-1] == found.len()
        else:
            for row in loud:
                start = max(row - NEAR_LINES, 0)
                before = self._routine(lines[start:row]).tail(1) + start
                after = self._first_behind(lines, row)
                wanted += [*before, *after]
                self._owed = not after
        return pl.Series(sorted(set(wanted)), dtype=pl.Int64)

    def _first_behind(self, lines: pl.DataFrame, row: int) -> list[int]:
        """Return the first routine row from `row` on, as a list of at most one."""
        for start, end in ((row, row + NEAR_LINES), (row + NEAR_LINES, lines.height)):
            found = self._routine(lines[start:end])
            if found.len():
                return [int(found[0]) + start]
        return []

    def _keep_before(self, row: int) -> None:
        """Keep the last routine line of the previous block, if near enough to `row`."""
        if self._behind is None:
            return
        near = self._behind.last(max(NEAR_LINES - row, 0))
        last = near[self._routine(near).tail(1)]
        if not last.height:
            return
        self.kept.own.append(last["line"])
        if self._kept_behind is None or last["line"][0] not in self._kept_behind:
            self.kept.lines.append(_compact(last))

    def _routine(self, lines: pl.DataFrame) -> pl.Series:
        return lines["raw"].str.contains(self.search.routine).arg_true().cast(pl.Int64)


def _rows_under(
    rows: pl.Series, ends: pl.Series, pending: int, height: int
) -> pl.Series:
    """Return the rows of a block to keep, distinct and sorted."""
    first = pl.int_range(min(pending, height), dtype=pl.Int64, eager=True)
    under = pl.int_ranges(rows, ends.clip(upper_bound=height), eager=True).explode()
    return pl.concat([first, under.drop_nulls().cast(pl.Int64)]).unique().sort()


def _compact(lines: pl.DataFrame) -> pl.DataFrame:
    """Copy lines, so that they do not retain the memory of their whole block."""
    return lines.with_columns(pl.concat_str("raw", pl.lit("")).alias("raw"))


def head(stream: BinaryIO) -> bytes:
    """Return the first HEAD_BYTES of a log, as UTF-8."""
    return utf8(stream).read(HEAD_BYTES)


@lru_cache(HEADS)
def paste(head: bytes) -> pastes.Plan:
    """Return what is to be undone in a log, judged by its head."""
    whole = len(head) < HEAD_BYTES
    lines = head if whole else head[: head.rfind(b"\n") + 1]
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
