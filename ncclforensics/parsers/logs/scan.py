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
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import polars as pl

from ncclforensics.parsers.logs import broken_lines, long_lines, pastes, tag_lines
from ncclforensics.parsers.logs.call_counting import CallCounting
from ncclforensics.parsers.logs.hits import NONE, NOWHERE, joined, placed, rows_under
from ncclforensics.parsers.logs.kept_lines import Kept
from ncclforensics.parsers.logs.lines import blocks, decoded, utf8
from ncclforensics.parsers.logs.repeated_needles import in_lines
from ncclforensics.parsers.logs.routine_lines import Routine
from ncclforensics.parsers.logs.search_terms import WRAPPED
from ncclforensics.parsers.logs.usual_needles import Usual

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ncclforensics.parsers.logs.ended_texts import Flags, Numbers
    from ncclforensics.parsers.logs.hits import Hits, Repeated
    from ncclforensics.parsers.logs.lines import Block
    from ncclforensics.parsers.logs.search_terms import Search
    from ncclforensics.sources import Source

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
    _usual: Usual = field(default_factory=Usual)
    _counting: CallCounting = field(default_factory=CallCounting)

    def feed(self, block: Block) -> None:
        """Scan the next block of the span; raises InPiecesError if lines were split."""
        whole = block
        if long_lines.may_be_long(block.data):
            block = self._shortened(block)
        present = self.search.finder.present(block.data, self._usual.needles)
        self._usual.learn(present)
        needles = self.search.needles
        here = Routine(block, [needles[n] for n in present & self.search.routine])
        hits = self._hits(
            block, sorted(n for n in present if n < len(self.search.loud))
        )
        begins = block.first <= FIRST_LINES and here.needles
        if hits.row.size or begins or self._pending or (self._owed and here.needles):
            self._keep(here, hits)
        if here.needles:
            self._behind = here
        self.kept.met(whole)

    def _shortened(self, block: Block) -> Block:
        lines, cut = long_lines.shortened(block.lines)
        self.kept.cut.update(cut)
        if lines.height == block.count and not cut:
            return block
        data = "".join(f"{raw}\n" for raw in lines["raw"]).encode()
        return replace(
            block, data=data, _count=None, _lines=lines, _ends=None, _begins=None
        )

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
            parts.append(_table(self._of_tags).filter(self.search.tag != ""))
        parts += [] if self._beyond is None else [self._beyond]
        if (counted := self._counting.done()) is not None:
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

    def _hits(self, block: Block, present: Sequence[int]) -> Hits:
        """Return the needles whose lines are kept, ordered by row.

        Raises InPiecesError if lines were split.
        """
        # of these all lines are kept or counted, and most lines hold them
        lines_of = self.search.counted
        repeated = {
            n: in_lines(block, self.search.needles[n]) for n in present if n in lines_of
        }
        rare = [n for n in present if n not in lines_of]
        room = {n: max(self.search.most[n] - self._seen[n], 0) for n in rare}
        wanted = [n for n, most in room.items() if most]
        found = self.search.finder.places(block.data, wanted) if wanted else {}
        held: dict[int, Numbers] = {}
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
            rows = np.unique(block.rows_of(np.array([*last], np.int64)))
            self._beyond = block.pick(rows[-LAST_LINES:])
        if not held and not repeated:
            return NONE
        hits = placed(block, held)
        self._refuse_pieces(block, hits)
        goes = self._left_out(block, repeated)
        hits = joined(hits, repeated)
        told = hits.needle < self.search.marks
        if goes.any():
            told &= self.search.loud[hits.needle] | ~goes[hits.row]
        hits = hits.only(told)
        hits = hits.only(np.argsort(hits.row, kind="stable"))
        return self._tags_apart(block, hits)

    def _beyond_limit(
        self, block: Block, number: int, places: Numbers, most: int
    ) -> tuple[Numbers, Sequence[int]]:
        """Return which places to keep of a needle that exceeds its limit in a block.

        And its last ones, if it is loud. `places` are empty if it exceeded it before.
        The lines that are left out are counted.
        """
        needle, data = self.search.needles[number], block.data
        kept = places[:most]
        start = int(kept[-1]) + 1 if len(kept) else 0
        sampled = self._sampled(block, number, start)
        if number not in self.search.vague:
            lines = len(in_lines(block, needle)[0])
            read = len(np.unique(block.rows_of(kept))) + sampled
            self.kept.left_out[needle.decode()] += lines - read
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

    def _refuse_pieces(self, block: Block, hits: Hits) -> None:
        """Raise InPiecesError if lines were split."""
        marked = hits.row[hits.needle >= self.search.marks]
        if marked.size:
            lines = block.pick(np.unique(marked))
            if broken_lines.pieces(lines["raw"]).any():
                raise InPiecesError

    def _left_out(self, block: Block, repeated: Repeated) -> Flags:
        """Return of each row whether it is left out, as one counted."""
        search = self.search
        goes = np.zeros(block.count, np.bool_)
        for n, (rows, at) in repeated.items():
            if n in search.counted:
                goes[self._counting.left_out(block, at, rows)] = True
        for n, (rows, _) in repeated.items():
            less = int(np.count_nonzero(goes[rows]))
            self.kept.left_out += Counter({search.needles[n].decode(): less})
        return goes

    def _tags_apart(self, block: Block, hits: Hits) -> Hits:
        """Leave out, of a needle of a tag, all but a few lines of each tag.

        Of its first FEW_TAGS lines all are kept.
        """
        is_tag = hits.of({n for n in self.search.tags if self._seen[n] > FEW_TAGS})
        if not is_tag.any():
            return hits
        few = tag_lines.few(block, hits.only(is_tag), self.search)
        return hits.only(~is_tag | np.isin(hits.row, few))

    def _keep(self, here: Routine, hits: Hits) -> None:
        block = here.block
        loud = hits.row[self.search.loud[hits.needle]]
        routine = self._routine_rows(here, np.unique(loud))
        rows = np.concatenate([hits.row, routine])
        if rows.size or self._pending:
            reach = self.search.reach[hits.needle]
            ends = np.concatenate([hits.row + reach, routine + WRAPPED])
            kept = rows_under(rows, ends, self._pending, block.count)
            last = int(ends.max(initial=0))
            self._pending = max(self._pending, last) - block.count
            self.kept.lines.append(block.pick(kept))
            self.kept.own.append(block.numbers(np.unique(rows)))
        self._pending = max(self._pending, 0)

    def _routine_rows(self, here: Routine, loud: Numbers) -> Numbers:
        """Return the routine rows to keep: those in the first lines and near `loud`."""
        wanted: set[int] = set()
        # the pieces of a long line share one number
        first = FIRST_LINES - here.block.first + 1
        if first > 0 and here.needles:
            wanted.update(here.rows(min(first, here.block.count)).tolist())
        if self._owed:
            behind = here.after(0)
            wanted.update(behind)
            self._owed = not behind
        if loud.size and not here.before(int(loud[0]), 0):
            self._keep_before(int(here.block.numbers(loud[:1])[0]))
        if loud.size > FEW:
            found = here.rows(here.block.count)
            place = found.searchsorted(loud)
            some = place > 0
            before = found[place[some] - 1]
            wanted.update(before[loud[some] - before <= NEAR_LINES].tolist())
            wanted.update(found[place[place < found.size]].tolist())
            self._owed = bool(place[-1] == found.size)
        else:
            for row in loud.tolist():
                after = here.after(row)
                wanted.update(here.before(row, row - NEAR_LINES), after)
                self._owed = not after
        return np.array(sorted(wanted), np.int64)

    def _keep_before(self, line: int) -> None:
        """Keep the last routine line of the blocks above, if near enough to `line`."""
        if self._behind is None:
            return
        block = self._behind.block
        start = min(line - NEAR_LINES - block.first, block.count)
        if found := self._behind.before(block.count, start):
            self._before.append(block.pick(np.array(found, np.int64)))


def _table(lines: Mapping[int, str]) -> pl.DataFrame:
    told = {"line": [*lines], "raw": [*lines.values()]}
    return pl.DataFrame(told, schema={"line": pl.Int64, "raw": pl.String})


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
