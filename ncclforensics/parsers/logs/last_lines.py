"""The last line of a log above its trouble, whatever it says.

No grammar knows such a line, so the file is read for it. A dataset has no files: what
is `kept` with it is one line per log, the last above the first trouble.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.tables import CITE
from ncclforensics.parsers.logs import framing, log_shape
from ncclforensics.parsers.logs.last_words import trouble
from ncclforensics.parsers.logs.lines import blocks
from ncclforensics.parsers.logs.long_lines import shortened

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from ncclforensics.model.frames import Frames
    from ncclforensics.sources import Source

TAIL = 256  # lines of a block that are looked at first
_HAS_TEXT = pl.col("text").str.contains(r"\S")


def ends(frames: Frames) -> pl.DataFrame:
    """Return `source line` of what is not the program's: trouble, and its stacks."""
    return trouble(frames).select(*CITE)


def last(source: Source, end: int | None) -> tuple[int, str] | None:
    """Return number and text of the last line with any text above line `end`.

    None stands for a log without such a line, that cannot be read, or whose lines are
    put together.
    """
    try:
        if log_shape.is_put_together(source):
            return None
        with source.open() as stream:
            lines = _tail(stream, end)
    except (OSError, EOFError, ValueError):
        return None
    if lines.is_empty():
        return None
    framed = framing.frame(shortened(lines)[0]).filter(_HAS_TEXT)
    return next(framed.tail(1).select("line", "text").iter_rows(), None)


def kept(sources: Sequence[Source], frames: Frames) -> pl.DataFrame:
    """Return the frame `last_lines`: one row for each log that one rank may have alone.

    `frames` are those of the `sources`, as the parsers gave them.
    """
    shared = set(frames.writers().filter(pl.len().over("source") > 1)["source"])
    first = dict(ends(frames).group_by("source").agg(pl.col("line").min()).iter_rows())
    found = [
        {"source": log.name, "end": end, "line": told[0], "text": told[1]}
        for log in sources
        if log.kind == "log" and log.bytes and log.name not in shared
        for end in [first.get(log.name)]
        if (told := last(log, end)) is not None
    ]
    return tables.rows("last_lines", found)


def _tail(stream: BinaryIO, end: int | None) -> pl.DataFrame:
    """Return `line raw`: the last lines with text, of at most two blocks."""
    has_text = pl.col("raw").str.contains(r"\S")
    tails = [pl.DataFrame(schema={"line": pl.Int64(), "raw": pl.String()})]
    for block in blocks(stream):
        if end is not None and block.first >= end:
            break
        if end is not None and block.first + block.count > end:
            lines = block.lines.filter(has_text & (pl.col("line") < end))
        elif (lines := block.last(TAIL).filter(has_text)).is_empty():
            lines = block.lines.filter(has_text)
        if lines.height:
            tails = [tails[-1], lines.tail(TAIL)]
    return pl.concat(tails)
