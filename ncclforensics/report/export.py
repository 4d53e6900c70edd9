"""The frames as files for other tools: parquet, csv, a trace, metrics.

csv has no lists, so a list is written as JSON; and people view csv with `cat`, so text
is made safe for a terminal. parquet keeps types and bytes.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Literal

import polars as pl

from ncclforensics.report import sanitize
from ncclforensics.report.formats.archive import named
from ncclforensics.report.formats.openmetrics import render_openmetrics
from ncclforensics.report.formats.trace import render_trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.report.bundle import Paper

Form = Literal["parquet", "csv", "trace", "openmetrics"]
FORMS: tuple[Form, ...] = ("parquet", "csv", "trace", "openmetrics")
NAMES = {"trace": "trace.json", "openmetrics": "ncclforensics.prom"}


def files(paper: Paper, form: Form) -> Iterator[tuple[str, bytes, tuple[str, ...]]]:
    """Yield the name and the bytes of each file, and what was left out of it.

    Raises ValueError if `form` needs frames and there are none (a saved report).
    """
    if form == "openmetrics":
        yield NAMES[form], *render_openmetrics(paper.report)
        return
    if paper.frames is None:
        raise ValueError("a saved report has no frames; give the evidence itself")
    if form == "trace":
        yield NAMES[form], *render_trace(paper.frames)
        return
    for name, frame in named(paper.frames).items():
        yield f"{name}.{form}", encoded(frame, form), ()


def encoded(frame: pl.DataFrame, form: Literal["parquet", "csv"]) -> bytes:
    """Return one frame as the bytes of a file."""
    buffer = io.BytesIO()
    if form == "parquet":
        frame.write_parquet(buffer, compression="zstd")
    else:
        _harmless(_flat(frame)).write_csv(buffer)
    return buffer.getvalue()


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with its lists as JSON text."""
    lists = [n for n, dtype in frame.schema.items() if isinstance(dtype, pl.List)]
    encoded = (
        pl.when(pl.col(name).is_not_null())
        .then(pl.struct(pl.col(name).alias("v")).struct.json_encode())
        .str.strip_prefix('{"v":')
        .str.strip_suffix("}")
        .alias(name)
        for name in lists
    )
    return frame.with_columns(*encoded)


def _harmless(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with escape sequences and control characters removed."""
    text = pl.col(pl.String)
    for pattern, instead in sanitize.HARMFUL:
        text = text.str.replace_all(pattern, instead)
    return frame.with_columns(text)
