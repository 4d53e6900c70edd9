"""Counts NCCL's COLL lines, of which a long log has more than are worth reading.

What ends a job is among the last calls of a communicator: a GPU's queue holds no more
than some thousand calls behind one that does not end. So of each process and
communicator the first calls and the last ones of a span are read, and those between
are only counted, because the number of a call is its place among all of them. Who
makes a call stands in the same bytes of each of its lines, so that nearly no line is
parsed to be counted: see `ended_texts`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ncclforensics.model.tables import NCCL_P2P
from ncclforensics.parsers.logs import search_terms
from ncclforensics.parsers.logs.ended_texts import (
    TEXTS,
    UNKNOWN,
    EndedTexts,
    place_among,
)
from ncclforensics.parsers.logs.lines import Block
from ncclforensics.parsers.logs.repeated_needles import in_lines

if TYPE_CHECKING:
    from ncclforensics.parsers.logs.ended_texts import Flags, Numbers

BLOCKS = 8  # that are held for the last calls; of older ones, lines are copied
AFTER_COMM = b" [nranks="
# each for itself: one pattern for all three takes ten times as long
PROCESS = r"([^\s:]+:\d{1,10}):\d{1,10} \["
OP = r" NCCL INFO ([A-Z]\w+): opCount "
COMM = r" comm (\S+) \[nranks="
# the texts in front of `: opCount ` and AFTER_COMM that tell the same
HEAD = r"([^\s:]+:\d{1,10}:\d{1,10} \[[^\]\n]{0,20}\] NCCL INFO [A-Z]\w+): opCount "
TAIL = r" (comm \S+) \[nranks="
LESSON = 512  # unknown lines of a block that are parsed before all are
COUNTS = ("line", "first", "calls", "numbered")
# of a member: its calls so far, those held in blocks; of those not read, the first
# line, how many they are, and how many have a number
SEEN, HELD, LINE, CALLS, NUMBERED = range(5)


@dataclass(frozen=True, slots=True)
class _Calls:
    """Calls of a block: their rows and lines, whose they are, which have a number."""

    block: Block
    rows: Numbers
    lines: Numbers
    members: Numbers
    numbered: Flags

    def only(self, some: Flags) -> _Calls:
        told = self.rows[some], self.lines[some], self.members[some]
        return _Calls(self.block, *told, self.numbered[some])

    def raw(self) -> pl.DataFrame:
        """Return `line raw`, copied from the block."""
        raw = self.block.pick(self.rows)["raw"]
        return pl.DataFrame({"line": self.lines, "raw": raw})

    def copied(self) -> _Calls:
        """Return the same calls without the rest of their block."""
        lines = "".join(f"{raw}\n" for raw in self.raw()["raw"])
        block = Block(lines.encode(), 1, len(self.rows))
        return _Calls(
            block, np.arange(len(self.rows)), self.lines, self.members, self.numbered
        )


@dataclass(slots=True)
class CallCounting:
    """The calls of one span so far, by member: a process in a communicator."""

    _numbers: dict[str, int] = field(default_factory=dict)  # of processes and pointers
    _heads: EndedTexts = field(default_factory=EndedTexts)
    _tails: EndedTexts = field(default_factory=EndedTexts)
    # a process and a pointer each, in order, and the number of the member that they are
    _pairs: Numbers = field(default_factory=lambda: np.array([UNKNOWN]))
    _members: Numbers = field(default_factory=lambda: np.array([UNKNOWN]))
    _counts: Numbers = field(default_factory=lambda: np.zeros((0, 5), np.int64))
    _copied: list[_Calls] = field(default_factory=list)
    _held: deque[_Calls] = field(default_factory=deque)

    def left_out(self, block: Block, ends: Numbers, rows: Numbers) -> Numbers:
        """Take the COLL lines of the next block; return the rows not read at once.

        The names of their calls end at `ends`, where their needle begins, in `rows`,
        which ascend. Read at once are the first of each member, and lines that do not
        tell their member. The others are held.
        """
        process, pointer, numbered = self._told(block, ends, rows)
        members = self._membership(process, pointer)
        place = self._seen(members)
        held = (members != UNKNOWN) & (place >= search_terms.FIRST_CALLS)
        if held.any():
            lines = block.numbers(rows).to_numpy()
            calls = _Calls(block, rows, lines, members, numbered)
            self._hold(calls if held.all() else calls.only(held))
        return np.compress(held, rows)

    def done(self) -> tuple[pl.DataFrame, pl.DataFrame] | None:
        """Return `line raw` of the last calls, and COUNTS of those left out above.

        `line` of a count is the first line that is read again, `first` the first one
        left out; `numbered` are its `calls` but messages between two ranks. None if
        there were no calls.
        """
        held = [*self._copied, *self._held]
        if not held:
            return None
        members = np.concatenate([calls.members for calls in held])
        is_last = place_among(members[::-1])[::-1] < search_terms.LAST_CALLS
        ends = np.cumsum([len(calls.rows) for calls in held])
        last = []
        for calls, mask in zip(held, np.split(is_last, ends[:-1]), strict=True):
            self._drop(calls.only(~mask))
            last.append(calls.only(mask))
        begins = np.zeros(len(self._counts), np.int64)
        for calls in reversed(last):
            begins[calls.members[::-1]] = calls.lines[::-1]
        some = self._counts[:, CALLS] > 0
        columns = (begins, *(self._counts[:, c] for c in (LINE, CALLS, NUMBERED)))
        counts = pl.DataFrame(
            {name: column[some] for name, column in zip(COUNTS, columns, strict=True)}
        )
        raw = pl.concat(calls.raw() for calls in last if len(calls.rows))
        return raw, counts.sort("line")

    def _told(
        self, block: Block, ends: Numbers, rows: Numbers
    ) -> tuple[Numbers, Numbers, Flags]:
        """Return process and pointer of each line, by number, and which have a number.

        `ends` are where the names of calls end.
        """
        tail_ends = np.zeros(block.count, np.int64)
        with_comm, after_comm = in_lines(block, AFTER_COMM)
        tail_ends[with_comm] = after_comm
        tail_ends = tail_ends[rows]
        tail_ends[tail_ends < ends] = 0
        found = np.full((2, len(ends)), UNKNOWN, np.int64)
        left = np.arange(len(ends))
        # the first lines teach the texts of nearly all others
        for many in (0, LESSON, len(ends)):
            some, left = left[:many], left[many:]
            if some.size:
                found[:, some] = self._parsed(block, rows[some])
            heads = self._heads.numbers(block.data, ends[left])
            tails = self._tails.numbers(block.data, tail_ends[left])
            whole = (heads != UNKNOWN) & (tails != UNKNOWN)
            found[0, left[whole]], found[1, left[whole]] = heads[whole], tails[whole]
            left = left[~whole]
            if not left.size:
                break
        # a head tells the process, and whether the call has a number
        return found[0] >> 1, found[1], (found[0] & 1).astype(np.bool_)

    def _parsed(self, block: Block, rows: Numbers) -> tuple[Numbers, Numbers]:
        """Return what heads and tails of some rows stand for, and learn them."""
        raw = pl.col("raw")
        lines = block.pick(rows).select(
            raw.str.extract(PROCESS).alias("process"),
            raw.str.extract(COMM).alias("comm"),
            raw.str.extract(OP).is_in(NCCL_P2P).not_().alias("numbered"),
            raw.str.extract(HEAD).alias("head"),
            raw.str.extract(TAIL).alias("tail"),
        )
        is_head = pl.col("head").str.starts_with(pl.col("process"))
        lines = lines.with_columns(pl.when(is_head).then("head"))
        for name in lines["process"].drop_nulls().unique(maintain_order=True):
            self._numbers.setdefault(name, len(self._numbers))
        for name in lines["comm"].drop_nulls().unique(maintain_order=True):
            self._numbers.setdefault(name, len(self._numbers))
        number = pl.col("process", "comm").replace_strict(
            self._numbers, return_dtype=pl.Int64, default=None
        )
        whole = pl.all_horizontal(pl.col("process", "comm", "numbered").is_not_null())
        numbers = lines.select(number.name.prefix("number_of_"))
        lines = lines.hstack(numbers).with_columns(
            pl.when(whole)
            .then(pl.col("number_of_process") * 2 + pl.col("numbered"))
            .alias("of_head"),
            pl.when(whole).then("number_of_comm").alias("of_tail"),
        )
        for known, text, of in (
            (self._heads, "head", "of_head"),
            (self._tails, "tail", "of_tail"),
        ):
            new = lines.select(text, of).drop_nulls().unique(text)
            if known.many + new.height <= TEXTS:
                known.learn({t.encode(): n for t, n in new.iter_rows()})
        told = lines.select(pl.col("of_head", "of_tail").fill_null(UNKNOWN))
        return told["of_head"].to_numpy(), told["of_tail"].to_numpy()

    def _membership(self, process: Numbers, pointer: Numbers) -> Numbers:
        """Return the member that makes each call, UNKNOWN if either is."""
        pairs = np.where(pointer == UNKNOWN, UNKNOWN, process << 32 | pointer)
        at = self._pairs.searchsorted(pairs).clip(max=len(self._pairs) - 1)
        if not np.array_equal(self._pairs[at], pairs):
            new = np.setdiff1d(pairs, self._pairs)
            more = np.arange(len(new)) + len(self._counts)
            known = np.concatenate([self._pairs, new])
            order = np.argsort(known)
            self._pairs = known[order]
            self._members = np.concatenate([self._members, more])[order]
            self._counts = np.pad(self._counts, ((0, len(new)), (0, 0)))
            at = self._pairs.searchsorted(pairs)
        members: Numbers = self._members[at]
        return members

    def _seen(self, members: Numbers) -> Numbers:
        """Return the place of each call among its member's, which count as seen now.

        Beyond the first, some place beyond it is returned.
        """
        of = members[members != UNKNOWN]
        seen = np.zeros(len(members), np.int64)
        before = self._counts[of, SEEN]
        young = before.size and before.min() < search_terms.FIRST_CALLS
        seen[members != UNKNOWN] = before + (place_among(of) if young else 0)
        self._counts[:, SEEN] += np.bincount(of, minlength=len(self._counts))
        return seen

    def _hold(self, calls: _Calls) -> None:
        """Hold calls, and count those of the oldest blocks that cannot be last ones."""
        self._held.append(calls)
        many = len(self._counts)
        self._counts[:, HELD] += np.bincount(calls.members, minlength=many)
        while True:
            oldest = self._held[0]
            here = np.bincount(oldest.members, minlength=many)
            below = self._counts[:, HELD] - here
            is_needed = below[oldest.members] < search_terms.LAST_CALLS
            if is_needed.any():
                if len(self._held) <= BLOCKS:
                    return
                back = place_among(oldest.members[::-1])[::-1] + below[oldest.members]
                is_needed = back < search_terms.LAST_CALLS
                self._copied.append(oldest.only(is_needed).copied())
            self._drop(oldest.only(~is_needed))
            self._counts[:, HELD] = below
            self._held.popleft()

    def _drop(self, calls: _Calls) -> None:
        """Count calls that are not read."""
        counts, of = self._counts, calls.members
        new = counts[of, CALLS] == 0
        # the first of a member wins
        counts[of[new][::-1], LINE] = calls.lines[new][::-1]
        counts[:, CALLS] += np.bincount(of, minlength=len(counts))
        numbered = np.bincount(of[calls.numbered], minlength=len(counts))
        counts[:, NUMBERED] += numbered
