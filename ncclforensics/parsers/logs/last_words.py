"""The last line that each rank's program printed before its file tells of trouble.

No grammar knows such lines: they are free text, read only where everything else leaves
open who was waited for. A line of level ERROR is part of the trouble below it. In a
file without trouble it is the last line of all. Lines that the file repeats, but for
their numbers, are told as well, and the line right above the trouble, for its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames, join
from ncclforensics.model.last_words import GAVE_UP, LAST, USUAL, shape
from ncclforensics.model.tables import FAILING, SCHEMAS
from ncclforensics.parsers.logs import framing
from ncclforensics.parsers.logs.lines import blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ncclforensics.sources import Source

MOST_FILES = 1024
MOST_BYTES = 1 << 20  # of a file
ABOVE = 256  # lines above the first trouble that are looked at
WHOSE = ("rank", "local_rank", "task")  # what a prefix tells of a line's writer
LINES = {"line": pl.Int64(), "raw": pl.String()}
REPEATED = 3  # lines that are alike
# a line that a program prints as trouble, by its level
ERRORS = r"^.{0,120}?\b(?:ERROR|CRITICAL|FATAL)\b"
# a line that a runtime prints, not the program
RUNTIMES = r"^(?:NCCL|\w+:\d+:\d+ \[|\s)"


def read(sources: Sequence[Source], told: Frames, found: Frames) -> Frames | None:
    """Return `found` with rows of `events` for what ranks printed last, or None.

    `told` are the same frames with ranks. A file is of one rank, or a prefix tells the
    rank, local rank or task of each line. Large files have no such rows.
    """
    owners = dict(told.writers().unique("source", keep="none").iter_rows())
    logs = [s for s in sources if s.kind == "log" and s.bytes <= MOST_BYTES]
    if len(logs) > MOST_FILES:
        return None
    bad = trouble(told)
    rows = [
        _rows(log, owners.get(log.name), bad.filter(source=log.name)) for log in logs
    ]
    events = [row for row in rows if row is not None]
    return join([found, Frames({"events": pl.concat(events)})]) if events else None


def trouble(told: Frames) -> pl.DataFrame:
    """Return `source rank local_rank task line` of the lines that tell of trouble.

    A traceback counts where it begins: its event is cited where it ends.
    """
    bad = told["events"].filter(pl.col("role").is_in(FAILING))
    heads = told.message("python.traceback")
    return pl.concat([part.select("source", *WHOSE, "line") for part in (bad, heads)])


def _rows(log: Source, owner: int | None, failing: pl.DataFrame) -> pl.DataFrame | None:
    first = next(iter(failing["line"].sort()), None)
    try:
        with log.open() as stream:
            read_ = (block.lines.select("line", "raw") for block in blocks(stream))
            lines = _above(read_, first) if owner is not None else _all(read_)
    except (OSError, EOFError, ValueError):
        return None
    bad = lines.filter(pl.col("raw").str.contains(ERRORS))["line"]
    framed = framing.frame(lines)
    if owner is not None:
        framed = framed.with_columns(pl.lit(owner, pl.Int64).alias("rank"))
    told = framed.filter(
        pl.col("header").is_null()
        & pl.col("text").str.contains(r"\S")
        & ~pl.col("text").str.contains(RUNTIMES)
        & pl.any_horizontal(pl.col(WHOSE).is_not_null())
    )
    for column in WHOSE:
        of = failing.drop_nulls(column).group_by(column)
        at = of.agg(pl.col("line").min().alias("trouble"))
        told = told.join(at, on=column, how="left", maintain_order="left")
        told = told.filter((pl.col("line") < pl.col("trouble")).fill_null(True))
        told = told.rename({"trouble": f"trouble_{column}"})
    own = told.filter(~pl.col("line").is_in(bad.implode()))
    if own.is_empty():
        return None
    said = shape(pl.col("text"))
    gave_up = told.filter(pl.any_horizontal(pl.col("^trouble_.*$").is_not_null()))
    usual = own.filter(pl.len().over(*WHOSE, said) >= REPEATED)
    parts = [
        own.unique(WHOSE, keep="last", maintain_order=True).with_columns(
            pl.lit(LAST).alias("message")
        ),
        gave_up.unique(WHOSE, keep="last", maintain_order=True).with_columns(
            pl.lit(GAVE_UP).alias("message")
        ),
        usual.with_columns(said.alias("said"))
        .unique([*WHOSE, "said"], keep="last", maintain_order=True)
        .with_columns(pl.lit(USUAL).alias("message"))
        .drop("said"),
    ]
    rows = pl.concat(parts).with_columns(
        pl.lit("neutral").alias("role"), pl.lit(log.name).alias("source")
    )
    return tables.conform("events", rows.select(c for c in SCHEMAS["events"]))


def _all(parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat([pl.DataFrame(schema=LINES), *parts])


def _above(parts: Iterable[pl.DataFrame], trouble: int | None) -> pl.DataFrame:
    """Return the last ABOVE lines above the line `trouble`, or of all."""
    kept = pl.DataFrame(schema=LINES)
    for part in parts:
        here = part if trouble is None else part.filter(pl.col("line") < trouble)
        kept = pl.concat([kept, here]).tail(ABOVE)
        if here.height < part.height:
            break
    return kept
