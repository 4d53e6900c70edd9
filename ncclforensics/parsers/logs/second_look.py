"""A second, looser look at small logs, where the first one found no cause.

People who retell a log break its lines anywhere and keep only the words that seem to
matter. So up to JOINED lines are read as one, and the `loose` messages count as well.
Only lines that tell of trouble are taken, and each line once.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames, join
from ncclforensics.model.notes import Note
from ncclforensics.model.tables import FAILING
from ncclforensics.parsers import limits
from ncclforensics.parsers.logs import grammar, log_reader, scan
from ncclforensics.parsers.logs.kept_lines import Kept

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ncclforensics.parsers.logs.grammar import Message
    from ncclforensics.sources import Source

MOST_FILES = 16
MOST_BYTES = 64 << 10  # of all files: what people type or paste by hand is small
JOINED = 3
RETOLD = "condensed."  # the messages whose lines prove little


def read(sources: Sequence[Source], found: Frames) -> Frames | None:
    """Return what a second look adds to `found`, None if that is nothing.

    Reads the logs among `sources`, if they are few and small.
    """
    logs = [source for source in sources if source.kind in ("log", "unknown")]
    size = sum(source.bytes for source in logs)
    if len(logs) > MOST_FILES or size > MOST_BYTES:
        return None
    parts = []
    for log in logs:
        # the first look has told what is wrong with a file that cannot be read
        with suppress(OSError, EOFError, ValueError):
            parts += [part] if (part := _of(log, found)) is not None else []
    return join(parts) if parts else None


def _of(source: Source, found: Frames) -> Frames | None:
    with source.open() as stream:
        plan = scan.paste(scan.head(stream))
    with source.open() as stream:
        read = log_reader.windows(stream, Kept(), plan)
        held = [lines.head(own) for lines, own in read]
    if not held:
        return None
    lines = pl.concat(held).filter(pl.col("raw").str.contains(r"\S"))
    known = found["events"].filter(pl.col("source") == source.name)
    taken = known.filter(_is_trouble())["line"]
    parts = []
    for many in range(1, JOINED + 1):
        told = log_reader.recognised(_joined(lines, many), lines.height, grammar.load())
        new = _apart(told["events"].filter(_is_trouble()), lines, many, taken)
        taken = pl.concat([taken, *(_under(lines, new, n) for n in range(many))])
        parts.append(_only(told, new))
    if not any(part["events"].height for part in parts):
        return None
    text = "no cause stands in its lines as they are: broken ones were joined, and "
    note = Note("parsers", f"{text}what was retold by hand was read", source.name)
    both = join([*parts, Frames({"notes": tables.noted([note])})])
    return log_reader.placed(both, source)


def _passes() -> Iterator[tuple[int, Sequence[Message]]]:
    """Yield how many lines are joined and what is looked for, the surest first."""
    for many in range(2, JOINED + 1):
        yield many, grammar.strict()
    for many in range(1, JOINED + 1):
        yield many, grammar.load()


def _is_trouble() -> pl.Expr:
    net = pl.col("message").str.starts_with("uncaught.")
    cut = pl.col("message").str.ends_with(".cut")
    return pl.col("role").is_in(FAILING).fill_null(False) & ~net & ~cut


def _joined(lines: pl.DataFrame, many: int) -> pl.DataFrame:
    """Return each line with those that follow it, `many` in all."""
    raw = pl.col("raw")
    below = [
        raw.shift(-n).str.strip_chars_start().fill_null("") for n in range(1, many)
    ]
    text = pl.concat_str(raw.str.strip_chars_end(), *below, separator=" ")
    return lines.with_columns(text.str.head(limits.MAX_LINE).alias("raw"))


def _under(lines: pl.DataFrame, first: pl.Series, place: int) -> pl.Series:
    """Return the numbers of the lines `place` lines below the `first` ones."""
    below = _below(lines, place)
    return below.filter(pl.col("line").is_in(first.implode()))["below"].drop_nulls()


def _below(lines: pl.DataFrame, place: int) -> pl.DataFrame:
    return lines.select("line", pl.col("line").shift(-place).alias("below"))


def _apart(
    events: pl.DataFrame, lines: pl.DataFrame, many: int, taken: pl.Series
) -> pl.Series:
    """Return the first lines of what is recognised and of which no line is `taken`."""
    new = events["line"].unique().sort()
    for place in range(many):
        free = _below(lines, place).filter(
            ~pl.col("below").is_in(taken.implode()).fill_null(False)
        )
        new = new.filter(new.is_in(free["line"].implode()))
    # of two that overlap, the first; lines are few
    kept: list[int] = []
    order = lines["line"].to_list()
    for line in new:
        if not kept or order.index(line) >= order.index(kept[-1]) + many:
            kept.append(line)
    return pl.Series("line", kept, pl.Int64)


def _only(frames: Frames, lines: pl.Series) -> Frames:
    here = pl.col("line").is_in(lines.implode())
    return Frames(
        {
            name: frame.filter(here)
            for name, frame in frames.tables.items()
            if "line" in frame.columns
        },
        {name: f.filter(here) for name, f in frames.messages.items()},
    )
