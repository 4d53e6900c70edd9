"""The lines of a log that are kept for parsing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.parsers import limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ncclforensics.parsers.logs.lines import Block


@dataclass(slots=True)
class Kept:
    """The kept lines of a span or of a log, and its statistics.

    `lines` have `line` (1-based) and `raw`, in order. Those numbered `own` are to be
    recognised; the others are context below them. `count` is the number of lines read;
    `whole` whether the last one ends with a newline; `trouble` why reading stopped
    early; `sha256` that of the file, if it was hashed while reading; `remarks` what
    else its notes say; `unread` the calls that are counted and not read.
    """

    lines: list[pl.DataFrame] = field(default_factory=list)
    own: list[pl.Series] = field(default_factory=list)
    count: int = 0
    whole: bool = True
    trouble: str | None = None
    in_pieces: bool = False
    bad: int = 0
    first_bad: int | None = None
    long: set[int] = field(default_factory=set)
    cut: set[int] = field(default_factory=set)
    unheld: set[int] = field(default_factory=set)
    left_out: Counter[str] = field(default_factory=Counter)
    sha256: str | None = None
    remarks: list[str] = field(default_factory=list)
    unread: list[pl.DataFrame] = field(default_factory=list)

    def met(self, block: Block) -> None:
        """Count a block's lines and record what is wrong with them."""
        self.count = block.first + block.count - 1
        self.whole = block.whole
        self.bad += block.bad
        self.first_bad = self.first_bad or block.first_bad
        if block.pieces is not None:
            self.long.add(block.pieces)

    def add(self, lines: pl.DataFrame) -> None:
        """Keep `lines` too, sorted in among the others; those that are kept are not."""
        kept = pl.concat([*self.lines, lines.clear()])
        new = lines.unique(maintain_order=True).join(
            kept, on=kept.columns, how="anti", maintain_order="left"
        )
        self.lines = [pl.concat([kept, new]).sort("line", maintain_order=True)]
        self.own = [pl.concat([*self.own, lines["line"]]).unique().sort()]

    def notes(self) -> Iterator[str]:
        """Yield the text of each note on a log."""
        yield from self.remarks
        if self.bad:
            where = f"first on line {self.first_bad:,}"
            yield f"invalid UTF-8 on {self.bad:,} lines, {where}"
        yield from (f"line {n} is longer than a block" for n in sorted(self.long))
        if self.cut:
            which = f"{len(self.cut):,} lines, first line {min(self.cut):,},"
            most = f"{limits.MAX_LINE:,} characters"
            yield f"{which} are longer than {most}: the rest is not read"
        if self.unheld:
            which = f"the last lines up to line {min(self.unheld):,}"
            most = f"more than {limits.MAX_HELD_BYTES >> 20} MiB"
            yield f"{which} have {most}: what belongs under them is not read"
        for needle, count in sorted(self.left_out.items()):
            yield f"{count:,} more lines with {needle.strip()!r} are not read"
        if self.trouble is not None:
            yield f"reading stopped after line {self.count:,}: {self.trouble}"


def numbered(parts: Iterable[Kept]) -> Kept:
    """Merge the spans of one log, in order, with continuous line numbers."""
    log = Kept()
    had = 0  # the last line that earlier spans have already kept as look-ahead
    for part in parts:
        lines = [f.with_columns(pl.col("line") + log.count) for f in part.lines]
        if had > log.count:
            lines = [f.filter(pl.col("line") > had) for f in lines]
        log.lines += lines
        log.own += [own + log.count for own in part.own]
        log.bad += part.bad
        if log.first_bad is None and part.first_bad is not None:
            log.first_bad = part.first_bad + log.count
        log.long |= {line + log.count for line in part.long}
        log.cut |= {line + log.count for line in part.cut}
        at = pl.col("line", "first") + log.count
        log.unread += [calls.with_columns(at) for calls in part.unread]
        log.left_out.update(part.left_out)
        log.in_pieces |= part.in_pieces
        log.trouble = log.trouble or part.trouble
        log.sha256 = log.sha256 or part.sha256
        log.count += part.count
        last = max((int(f["line"][-1]) for f in lines if f.height), default=0)
        had = max(had, last) if last > log.count else had
        log.whole = part.whole if part.count else log.whole
    return log
