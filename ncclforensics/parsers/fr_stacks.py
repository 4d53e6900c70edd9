"""Interns the call stacks of a dump: each is kept once, entries refer to it.

A training loop repeats the same few stacks in the same order, and c10d's pickle shares
the frames among entries, so a stack is first compared with the one that came last time
after the same two. Only a new stack costs work per frame.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics import tables
from ncclforensics.parsers.fr_fields import text_of
from ncclforensics.parsers.limits import MAX_FRAMES

if TYPE_CHECKING:
    from collections.abc import Iterable

Frame = tuple[str | None, str | None, int | None]


@dataclass(slots=True)
class Interner:
    """Stacks seen so far; number 0 is "no stack"."""

    stacks: list[tuple[Frame, ...]] = field(default_factory=lambda: [()])
    _seen: list[object] = field(default_factory=lambda: [None])
    _by_frames: dict[tuple[Frame, ...], int] = field(default_factory=lambda: {(): 0})
    _by_identity: dict[tuple[int, ...], int] = field(default_factory=dict)
    _frames: dict[int, Frame] = field(default_factory=dict)

    def numbers(self, column: Iterable[Any]) -> list[int]:
        """Number the stacks of a column of `frames`; it must outlive the call."""
        following: dict[int, int] = {}
        result = []
        number = context = 0
        for frames in column:
            guess = following.get(context, 0)
            # what was seen is flat, so this comparison never goes deep
            if self._seen[guess] != frames:
                following[context] = guess = self._look_up(frames)
            context = number << 32 | guess
            number = guess
            result.append(number)
        return result

    def _look_up(self, frames: Any) -> int:
        if type(frames) not in (list, tuple):
            return 0
        innermost = frames[:MAX_FRAMES]
        identity = tuple(map(id, innermost))
        number = self._by_identity.get(identity)
        if number is None:
            stack = tuple(map(self._frame, innermost))
            number = self._by_frames.setdefault(stack, len(self.stacks))
            if number == len(self.stacks):
                self.stacks.append(stack)
                # an odd frame is not kept for comparison: it may nest without end
                flat = len(innermost) == len(frames) and all(map(_is_flat, innermost))
                self._seen.append(frames if flat else _NOTHING)
            self._by_identity[identity] = number
        return number

    def _frame(self, frame: Any) -> Frame:
        known = self._frames.get(id(frame))
        if known is None:
            known = (None, None, None)
            if type(frame) is dict:
                line = frame.get("line")
                known = (
                    text_of(frame.get("name")),
                    text_of(frame.get("filename")),
                    line if type(line) is int and 0 <= line < 2**40 else None,
                )
            self._frames[id(frame)] = known
        return known


_NOTHING = object()


def _is_flat(frame: Any) -> bool:
    return type(frame) is dict and all(
        type(value) in (str, int) for value in frame.values()
    )


def digest(stack: tuple[Frame, ...]) -> int:
    """Return a stack's id: 64 bits that depend on nothing but its frames."""
    text = "\n".join("\0".join(map(str, frame)) for frame in stack)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def stacks(
    column: list[Any] | None, height: int, lines: list[int]
) -> tuple[pl.Series, pl.DataFrame]:
    """Intern a column of `frames`.

    Returns each entry's stack id (UInt64, null without frames) and the frame `stacks`
    without its source; `line` is that of the first entry with the stack.
    """
    interner = Interner()
    numbers = interner.numbers([None] * height if column is None else column)
    ids: list[int | None] = [None, *map(digest, interner.stacks[1:])]
    first = dict(zip(reversed(numbers), reversed(lines), strict=True))
    rows = [
        (ids[number], depth, *frame, first[number])
        for number, stack in enumerate(interner.stacks)
        for depth, frame in enumerate(stack)
    ]
    schema = tables.SCHEMAS["stacks"]
    names = ["stack", "depth", "function", "file", "file_line", "line"]
    found = pl.DataFrame(rows, {name: schema[name] for name in names}, orient="row")
    return pl.Series(ids, dtype=pl.UInt64).gather(numbers), found
