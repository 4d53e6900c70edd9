"""Interns the call stacks of dumps: each is stored once, and entries refer to it.

A training loop repeats the same few stacks in the same order on every rank, and c10d's
pickle shares frames between entries. So a stack is first compared with the one that
followed the same two stacks last time. Only a new stack costs work per frame.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.model import tables
from ncclforensics.parsers.flight_recorder.fields import text_of
from ncclforensics.parsers.limits import MAX_FRAMES, MAX_TEXT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Frame = tuple[str | None, str | None, int | None]


@dataclass(slots=True)
class Interner:
    """Stacks seen so far; number 0 is "no stack"."""

    stacks: list[tuple[Frame, ...]] = field(default_factory=lambda: [()])
    # numbers of stacks with a truncated text
    cut: set[int] = field(default_factory=set)
    _seen: list[object] = field(default_factory=lambda: [None])
    _by_frames: dict[tuple[Frame, ...], int] = field(default_factory=lambda: {(): 0})
    _by_identity: dict[tuple[int, ...], int] = field(default_factory=dict)
    _frames: dict[int, Frame] = field(default_factory=dict)
    _following: dict[int, int] = field(default_factory=dict)

    @property
    def ids(self) -> list[int | None]:
        """The id of each stack, indexed by stack number."""
        return [None, *map(digest, self.stacks[1:])]

    def numbers(self, column: Iterable[Any]) -> list[int]:
        """Return the stack number of each of a dump's `frames`.

        The caller has to keep `column` alive during the call.
        """
        following = self._following
        # objects of an earlier dump may be freed and their addresses reused
        self._by_identity.clear()
        self._frames.clear()
        result = []
        number = context = 0
        for frames in column:
            guess = following.get(context, 0)
            # seen stacks are flat, so this comparison never recurses deeply
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
                if any(map(_is_cut, stack)):
                    self.cut.add(number)
                # a malformed frame may nest without end: never compare with it
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


def _is_cut(frame: Frame) -> bool:
    return any(text is not None and len(text) >= MAX_TEXT for text in frame[:2])


def digest(stack: tuple[Frame, ...]) -> int:
    """Return the id of a stack: a 64-bit hash of its frames."""
    text = "\n".join("\0".join(map(str, frame)) for frame in stack)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def stack_rows(
    interner: Interner, used: Sequence[tuple[str, Mapping[int, int]]]
) -> pl.DataFrame:
    """Return the frame `stacks`: the stacks that each source uses, a row per frame.

    `used` has, per source, each stack number and the line of the first entry with it.
    """
    schema = tables.SCHEMAS["stacks"]
    ids = interner.ids
    frames = [
        (number, ids[number], depth, *frame)
        for number, stack in enumerate(interner.stacks)
        for depth, frame in enumerate(stack)
    ]
    names = ("stack", "depth", "function", "file", "file_line")
    known = pl.DataFrame(
        frames,
        {"number": pl.UInt32(), **{name: schema[name] for name in names}},
        orient="row",
    )
    firsts = [
        (number, source, line)
        for source, first in used
        for number, line in sorted(first.items(), key=lambda told: told[1])
    ]
    cites = {"number": pl.UInt32(), "source": pl.String(), "line": pl.Int64()}
    return (
        pl.DataFrame(firsts, cites, orient="row")
        .join(known, on="number", maintain_order="left_right")
        .drop("number")
    )
