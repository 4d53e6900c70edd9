"""The last line that each rank's program printed before its file tells of trouble.

No grammar knows such lines: they are free text, read only where everything else leaves
open who was waited for. In a file without trouble it is the last line of all. Lines
that the file repeats, but for their numbers, are told as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames, join
from ncclforensics.model.last_words import LAST, USUAL, shape
from ncclforensics.model.tables import CITE, FAILING, SCHEMAS
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


def trouble(told: Frames) -> pl.DataFrame:
    """Return `source line` of the lines that tell of trouble.

    A traceback counts where it begins: its event is cited where it ends.
    """
    bad = told["events"].filter(pl.col("role").is_in(FAILING))
    heads = told.message("python.traceback")
    return pl.concat([part.select(*CITE) for part in (bad, heads)])


def _owners(told: Frames) -> dict[str, tuple[int, int | None]]:
    """Return by file its only rank, and the first line that tells of trouble."""
    alone = told.writers().unique("source", keep="none")
    first = trouble(told).group_by("source").agg(pl.col("line").min())
    both = alone.join(first, on="source", how="left")
    return {
        source: (rank, at)
        for source, rank, at in both.select("source", "rank", "line").iter_rows()
    }


def _rows(log: Source, rank: int, trouble: int | None) -> pl.DataFrame | None:
    try:
        with log.open() as stream:
            lines = _above((block.lines for block in blocks(stream)), trouble)
    except (OSError, EOFError, ValueError):
        return None
    framed = framing.frame(lines)
    own = framed.filter(
        pl.col("header").is_null()
        & pl.col("text").str.contains(r"\S")
        & ~pl.col("text").str.contains(RUNTIMES)
    )
    if own.is_empty():
        return None
    again = own.group_by(shape(pl.col("text")).alias("shape")).agg(
        pl.len(), pl.col("line").max()
    )
    usual = again.filter(pl.col("len") >= REPEATED)["line"]
    parts = [
        own.tail(1).with_columns(pl.lit(LAST).alias("message")),
        own.filter(pl.col("line").is_in(usual.implode()))
        .unique("line", keep="last", maintain_order=True)
        .with_columns(pl.lit(USUAL).alias("message")),
    ]
    told = pl.concat(parts).with_columns(
        pl.lit("neutral").alias("role"),
        pl.lit(log.name).alias("source"),
        pl.lit(rank, pl.Int64).alias("rank"),
    )
    return tables.conform("events", told.select(c for c in SCHEMAS["events"]))


def _above(parts: Iterable[pl.DataFrame], trouble: int | None) -> pl.DataFrame:
    """Return the last ABOVE lines above the line `trouble`, or of all."""
    kept = pl.DataFrame(schema={"line": pl.Int64(), "raw": pl.String()})
    for part in parts:
        here = part if trouble is None else part.filter(pl.col("line") < trouble)
        kept = pl.concat([kept, here.select("line", "raw")]).tail(ABOVE)
        if here.height < part.height:
            break
    return kept
