"""Which of some known texts end at given places of a block: looked up, not parsed.

Lines that a program repeats hold the same few texts, each in front of the same words.
So a text is parsed once; wherever its bytes end again, it is known by a hash of them,
computed for all places at once. Texts are of a few widths, and each is tried.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]
    Flags = NDArray[np.bool_]
    Keys = NDArray[np.uint64]

UNKNOWN = -1
TEXTS = 65_536  # that are worth knowing; more would be of lines that never repeat
WORD = 8  # bytes; no text is shorter
# odd, so that multiplying loses nothing: that of splitmix64
FACTOR = np.uint64(0xBF58476D1CE4E5B9)
HALF = np.uint64(32)
BEFORE = b" \t\n\v\f\r:"  # what a text may follow
_IS_BEFORE = np.isin(np.arange(256), list(BEFORE))


@dataclass(slots=True)
class EndedTexts:
    """The known texts: by width, their hashes in order and what each stands for."""

    _known: dict[int, tuple[Keys, Numbers]] = field(default_factory=dict)

    @property
    def many(self) -> int:
        """How many texts are known."""
        return sum(len(numbers) for _, numbers in self._known.values())

    def learn(self, texts: Mapping[bytes, int]) -> None:
        """Add texts, each with a number that stands for it; none shorter than WORD."""
        for width in {len(text) for text in texts if len(text) >= WORD}:
            some = {text: n for text, n in texts.items() if len(text) == width}
            ends = np.arange(1, len(some) + 1, dtype=np.int64) * width
            new = _hashed(b"".join(some), ends, width)
            numbers = np.fromiter(some.values(), np.int64, len(some))
            old = self._known.get(width, (new[:0], numbers[:0]))
            keys, at = np.unique(np.concatenate([old[0], new]), return_index=True)
            self._known[width] = keys, np.concatenate([old[1], numbers])[at]

    def numbers(self, data: bytes, ends: Numbers) -> Numbers:
        """Return the number of the text that ends before each offset, or UNKNOWN."""
        found = np.full(len(ends), UNKNOWN, np.int64)
        text = np.frombuffer(data, np.uint8)
        left = np.arange(len(ends))
        for width, (keys, numbers) in self._known.items():
            at = ends[left]
            is_long = at >= width
            if not is_long.all():
                left, at = left[is_long], at[is_long]
            hashes = _hashed(data, at, width)
            known = np.searchsorted(keys, hashes).clip(max=len(keys) - 1)
            held = keys[known] == hashes
            held &= _IS_BEFORE[text[at - width - 1]] | (at == width)
            found[left[held]] = numbers[known[held]]
            left = np.flatnonzero(found == UNKNOWN)
            if not left.size:
                break
        return found


def _hashed(data: bytes, ends: Numbers, width: int) -> Keys:
    """Return a hash of the `width` bytes that end before each offset."""
    found = np.full(len(ends), width, np.uint64)
    if not len(ends):
        return found
    # copied in one go, which takes as long for a text as for a word
    texts = np.ndarray(len(data) - width + 1, f"V{width}", data, strides=(1,))
    copied = texts[ends - width]
    for back in (*range(WORD, width, WORD), width):
        found ^= np.ndarray(len(ends), "<u8", copied, width - back, (width,))
        found *= FACTOR
        found ^= found >> HALF
    return found


def place_among(members: Numbers) -> Numbers:
    """Return how many equal numbers, none negative, stand before each."""
    order = np.argsort(members, kind="stable")
    begins = np.flatnonzero(np.diff(members[order], prepend=UNKNOWN))
    many = np.diff(begins, append=len(members))
    places = np.empty(len(members), np.int64)
    places[order] = np.arange(len(members)) - np.repeat(begins, many)
    return places
