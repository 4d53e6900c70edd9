"""Searches the text of files for a word, whatever their lines are.

The word is plain text; letters of ASCII match in either case. A file is read in blocks,
and a line is looked at only where the word occurs, so most of the time goes to reading.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ncclforensics.parsers.logs.lines import blocks
from ncclforensics.tui.log_file import is_text
from ncclforensics.tui.model.excerpt import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ncclforensics.parsers.logs.lines import Block
    from ncclforensics.sources import Source

MOST = 2000  # lines that are kept
MOST_OF_FILE = 200  # of one file, if several are searched
BEFORE = 60  # bytes that a long line shows before the word
AFTER = 400


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that has the word: the name of its file, its 1-based number, its text."""

    source: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Progress:
    """What one step of a search found, and how far it is."""

    hits: Sequence[Hit] = ()
    files: int = 0  # read to their ends
    reading: str = ""  # the file that is read
    skipped: int = 0  # lines with the word beyond MOST_OF_FILE
    is_full: bool = False  # MOST lines were found, and the search ended there


@dataclass(slots=True)
class Results:
    """The lines that were found for a word so far, and which of them was seen last."""

    word: str
    hits: list[Hit] = field(default_factory=list)
    at: int = -1

    def step(self, step: int) -> Hit | None:
        """Go to the next (1) or the previous (-1) line, around the ends."""
        if not self.hits:
            return None
        self.at = (self.at + step) % len(self.hits) if self.at >= 0 else 0
        return self.hits[self.at]


def find(word: str, sources: Iterable[Source]) -> Iterator[Progress]:
    """Yield the lines of files that contain `word`, after every block that was read.

    Files that are no text, or cannot be read any more, have no lines.
    """
    sources = [source for source in sources if is_text(source)]
    room, most = MOST, MOST if len(sources) == 1 else MOST_OF_FILE
    wanted = word.encode("utf-8", "replace").lower()
    for number, source in enumerate(sources, 1):
        left = min(most, room)
        for found, more in _of_file(source, wanted, most):
            kept = found[:left]
            left -= len(kept)
            room -= len(kept)
            if not room:
                yield Progress(kept, number - 1, source.name, is_full=True)
                return
            skipped = more + len(found) - len(kept)
            yield Progress(kept, number - 1, source.name, skipped)
        yield Progress((), number)


def _of_file(
    source: Source, wanted: bytes, most: int
) -> Iterator[tuple[list[Hit], int]]:
    """Yield the hits of each block of a file, and how many more there are."""
    found = 0
    try:
        with source.open() as stream:
            for block in blocks(stream):
                low = block.data.lower()
                if wanted not in low:
                    yield [], 0
                    continue
                hits = list(_of_block(source.name, block, low, wanted, most - found))
                found += len(hits)
                more = low.count(wanted) - len(hits) if found >= most else 0
                yield hits, max(more, 0)
    except Exception:  # damaged evidence may raise any exception
        return


def _of_block(
    name: str, block: Block, low: bytes, wanted: bytes, most: int
) -> Iterator[Hit]:
    """Yield the first `most` lines of a block that contain the word, once each."""
    line, at = block.first, 0
    for _ in range(most):
        start = low.find(wanted, at)
        if start < 0:
            return
        line += low.count(b"\n", at, start)
        end = low.find(b"\n", start)
        end = len(low) if end < 0 else end
        # a word far into a long line is shown with what is just before it
        begin = low.rfind(b"\n", max(start - AFTER // 2, 0), start) + 1
        cut = not begin and start > AFTER // 2
        begin = start - BEFORE if cut else begin
        text = shown(block.data[begin : min(end, begin + AFTER)])
        yield Hit(name, line, f"…{text}" if cut else text)
        line, at = line + 1, end + 1
        if at > len(low):
            return
