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
REPEATED = 3  # lines that are alike
# a line that a runtime prints, not the program
ERRORS = r"^.{0,120}?\b(?:ERROR|CRITICAL|FATAL)\b"
RUNTIMES = r"^(?:NCCL|\w+:\d+:\d+ \[|\s)"


def read(sources: Sequence[Source], told: Frames, found: Frames) -> Frames | None:
    """Return `found` with rows of `events` for files of one rank; None without any.

    `told` are the same frames with ranks. Large files have none.
    """
    owners = _owners(told)
    logs = [s for s in sources if s.kind == "log" and s.name in owners]
    if len(logs) > MOST_FILES:
        return None
    rows = [_rows(log, *owners[log.name]) for log in logs if log.bytes <= MOST_BYTES]
    events = [row for row in rows if row is not None]
    return join([found, Frames({"events": pl.concat(events)})]) if events else None


def _owners(told: Frames) -> dict[str, tuple[int, int | None]]:
    """Return by file its only rank, and the first line that tells of trouble."""
    events = told["events"].drop_nulls("rank")
    alone = told.writers().unique("source", keep="none")
    bad = events.filter(pl.col("role").is_in(FAILING)).group_by("source")
    # a traceback is cited where it ends
    heads = told.message("python.traceback").group_by("source")
    first = bad.agg(pl.col("line").min())
    head = heads.agg(pl.col("line").min().alias("head"))
    both = alone.join(first, on="source", how="left").join(
        head, on="source", how="left"
    )
    line = pl.min_horizontal("line", "head")
    return {
        source: (rank, at)
        for source, rank, at in both.select("source", "rank", line).iter_rows()
    }


def _rows(log: Source, rank: int, trouble: int | None) -> pl.DataFrame | None:
    try:
        with log.open() as stream:
            lines = _above((block.lines for block in blocks(stream)), trouble)
    except (OSError, EOFError, ValueError):
        return None
    bad = lines.filter(pl.col("raw").str.contains(ERRORS))["line"]
    framed = framing.frame(lines)
    told = framed.filter(
        pl.col("header").is_null()
        & pl.col("text").str.contains(r"\S")
        & ~pl.col("text").str.contains(RUNTIMES)
    )
    own = told.filter(~pl.col("line").is_in(bad.implode()))
    if own.is_empty():
        return None
    again = own.group_by(shape(pl.col("text")).alias("shape")).agg(
        pl.len(), pl.col("line").max()
    )
    usual = again.filter(pl.col("len") >= REPEATED)["line"]
    parts = [
        own.tail(1).with_columns(pl.lit(LAST).alias("message")),
        told.tail(int(trouble is not None)).with_columns(message=pl.lit(GAVE_UP)),
        own.filter(pl.col("line").is_in(usual.implode()))
        .unique("line", keep="last", maintain_order=True)
        .with_columns(pl.lit(USUAL).alias("message")),
    ]
    rows = pl.concat(parts).with_columns(
        pl.lit("neutral").alias("role"),
        pl.lit(log.name).alias("source"),
        pl.lit(rank, pl.Int64).alias("rank"),
    )
    return tables.conform("events", rows.select(c for c in SCHEMAS["events"]))


def _above(parts: Iterable[pl.DataFrame], trouble: int | None) -> pl.DataFrame:
    """Return the last ABOVE lines above the line `trouble`, or of all."""
    kept = pl.DataFrame(schema={"line": pl.Int64(), "raw": pl.String()})
    for part in parts:
        here = part if trouble is None else part.filter(pl.col("line") < trouble)
        kept = pl.concat([kept, here.select("line", "raw")]).tail(ABOVE)
        if here.height < part.height:
            break
    return kept
