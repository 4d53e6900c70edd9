"""Lines that repeat with other numbers, whatever their words are: the steps of a loop.

A training loop prints one line, or a few, each step. What they say is told later, by
what their numbers do (`correlate/steps/regular_forms.py`); here they are only found:
lines that are alike but for their numbers, in the end of each log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from ncclforensics.model.frames import Frames
from ncclforensics.parsers.logs import event_rows, framing
from ncclforensics.parsers.logs.grammar import Message
from ncclforensics.parsers.logs.lines import FILE, decoded, utf8

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.sources import Source

MESSAGE = "timers.regular"
_AS_MESSAGE = Message(MESSAGE, "timers", (), "", "a line of a step", "neutral")
MOST_BYTES = 512 << 10  # of the end of each log
ALL_BYTES = 4 << 20  # of all logs, in equal shares
LEAST_BYTES = 4 << 10  # tens of lines, even of thousands of logs
NUMBER = r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
TIME = r"# ?(?:[mun]?s|secs?)\b"  # what takes long is printed in another unit
AGAIN = 4  # times that such a line is there
TELLS = r"#.*#|[a-z_]s?[\"')]*[:= |]+#"  # several numbers, or one with its name
STRING = r'"(?:[^"\\]|\\.)*"'
MOST_SHAPES = 48
LONGEST = 2000  # characters
# what libraries print is known, and its numbers are no times of a step
LIBRARIES = r" NCCL (?:INFO|WARN|TRACE) |\"coll_sn\":|\[c10d\]"
CUT = r"[,;\t|│┃]"  # between the cells of a table
SEPARATED = rf"^[^,;\t|│┃]*(?:{CUT}\s*[\w.+#\"/()%-]*\s*){{3,}}$"
# words and numbers, some of them with several spaces between
ALIGNED = (
    r"^ *[\w.-]+ +(?:[\w.-]+ +)*[\w.-]+  +[\w.-]+(?: +[\w.-]+)*(?:  *[(#][^)]*\)?)? *$"
)
IN_UNITS = r" +[(#][^)]*\)?$"
IS_NUMBER = rf"(?:^|{CUT})\s*\"?\d+(?:\.\d+)?\"?\s*(?:{CUT}|$)"


class _End(NamedTuple):
    """The end of log `number`, of so many lines in all; `cut` if it has more."""

    number: int
    lines: int
    data: bytes
    cut: bool


def read(sources: Sequence[Source], lines: pl.DataFrame) -> Frames:
    """Return the regular lines of logs as MESSAGE, with `place`, `shape` and `names`.

    `lines` has the `source` and how many `lines` it has. `place` numbers the lines of a
    log, each time that a progress bar drew one again. `shape` is the line with `#`
    for its numbers; `names` is the first line of a table's file, null elsewhere.
    """
    count = dict(lines.drop_nulls("lines").select("source", "lines").iter_rows())
    known = [(n, s) for n, s in enumerate(sources) if s.name in count]
    share = ALL_BYTES // max(len(known), 1)
    most = min(max(share, LEAST_BYTES), MOST_BYTES)
    ends = [_End(n, count[s.name], *_end(s, most)) for n, s in known]
    if not any(end.data for end in ends):
        return Frames()
    every = _with_cuts(_redrawn(_numbered(ends)))
    shape = pl.col("raw").str.strip_chars().str.replace_all(NUMBER, "#")
    shape = shape.str.replace_all(TIME, "#s").str.replace_all(" +", " ")
    fit = pl.col("raw").str.len_bytes() <= LONGEST
    shaped = every.filter(fit).with_columns(
        shape.alias("shape"), file=pl.col("line") // FILE
    )
    often = (
        shaped.group_by("file", "shape")
        .len()
        .filter(pl.col("len") >= AGAIN)
        .filter(pl.col("shape").str.contains(TELLS))
        .filter(~pl.col("shape").str.contains(LIBRARIES))
        .sort("file", "len", "shape", descending=[False, True, False])
        .filter(pl.int_range(pl.len()).over("file") < MOST_SHAPES)
    )
    kept = shaped.join(often, on=["file", "shape"], how="semi", maintain_order="left")
    if kept.is_empty():
        return Frames()
    whole = _whole(framing.frame(kept.select("raw", line="place")))
    told = event_rows.as_events(whole, _AS_MESSAGE).drop("line")
    told = told.hstack(whole.select(place="line"))
    told = told.join(
        kept.select("place", "line", "shape", whole="raw"),
        on="place",
        maintain_order="left",
    )
    is_table = pl.col("shape").str.contains(SEPARATED)
    # a shipper's record holds a line, and no number outside of it
    outside = pl.col("whole").str.replace_all(STRING, "").str.contains(r"\d")
    is_whole = is_table | (pl.col("shape").str.starts_with("{") & outside)
    told = told.with_columns(
        pl.when(is_whole).then("whole").otherwise("text").alias("text"),
        is_table=is_table,
    )
    named = _under_names(told.filter("is_table"), every, sources)
    told = told.join(named, on="place", how="left", maintain_order="left")
    told = told.with_columns(pl.col("place") % FILE).drop("is_table", "whole")
    return Frames({}, {MESSAGE: told})


def _with_cuts(lines: pl.DataFrame) -> pl.DataFrame:
    """Put a tab between the columns of a table that spaces align, and its names."""
    text = pl.col("raw").str.strip_chars()
    aligned = pl.col("raw").str.contains(ALIGNED) & ~pl.col("raw").str.contains(CUT)
    columns = text.str.replace(IN_UNITS, "").str.replace_all(r"\s+", "\t")
    return lines.with_columns(
        pl.when(aligned).then(columns).otherwise("raw").alias("raw")
    )


def _whole(segments: pl.DataFrame) -> pl.DataFrame:
    """Put lines together again that framing parts where a header stands within them."""
    if not segments["part"].max():
        return segments
    rest = pl.exclude("line", "text", "raw").drop_nulls().first()
    parts = segments.group_by("line", maintain_order=True)
    return parts.agg(rest, pl.col("text").str.join(""), pl.col("raw").first())


def _redrawn(lines: pl.DataFrame) -> pl.DataFrame:
    """Split lines that a progress bar redrew; `place` numbers the pieces of a log."""
    pieces = lines
    if lines["raw"].str.contains("\r", literal=True).any():
        pieces = lines.with_columns(pl.col("raw").str.split("\r")).explode("raw")
    file = pl.col("line") // FILE
    return pieces.with_columns(
        place=file * FILE + pl.int_range(pl.len()).over(file) + 1
    )


def _end(source: Source, most: int) -> tuple[bytes, bool]:
    """Return the last `most` bytes of a log from a line's begin on, and if it is cut.

    An LF is behind each line. Of a compressed log they are the first.
    """
    cut = source.compression is None and source.bytes > most
    try:
        with source.open() as stream:
            if cut:
                stream.seek(source.bytes - most)
                stream.readline()
            data = utf8(stream).read(most)
    except (OSError, ValueError):
        return b"", False
    return data if data.endswith(b"\n") or not data else data + b"\n", cut


def _numbered(ends: Sequence[_End]) -> pl.DataFrame:
    """Return `line raw`; line 1 of log n is n * FILE + 1.

    They are decoded together: to begin costs as much as hundreds of lines.
    """
    raw = decoded(b"".join(end.data for end in ends), 1).lines["raw"]
    heights = np.array([end.data.count(b"\n") for end in ends])
    above = [
        n * FILE + (count - height if cut else 0)
        for (n, count, _, cut), height in zip(ends, heights.tolist(), strict=True)
    ]
    row = np.arange(1, raw.len() + 1) - np.repeat(heights.cumsum() - heights, heights)
    return pl.DataFrame([pl.Series("line", np.repeat(above, heights) + row), raw])


def _under_names(
    rows: pl.DataFrame, every: pl.DataFrame, sources: Sequence[Source]
) -> pl.DataFrame:
    """Return the `place` of rows of tables, and the line of `names` above each.

    It has as many cells, none of which is a number; else it is the first of the file.
    """
    by = ["file", "cells"]
    many = pl.col("raw").str.count_matches(CUT).alias("cells")
    heads = every.select(
        "place", many, names=pl.col("raw"), file=pl.col("line") // FILE
    )
    heads = heads.filter(
        ~pl.col("names").str.contains(IS_NUMBER) & (pl.col("cells") > 1)
    )
    own = rows.select("place", raw="text", file=pl.col("line") // FILE)
    own = own.with_columns(many).drop("raw")
    found = own.sort("place").join_asof(
        heads.sort("place"), on="place", by=by, check_sortedness=False
    )
    files = found.filter(pl.col("names").is_null())["file"].unique()
    first = pl.DataFrame(
        {"file": files, "first": [_first_line(sources[n]) for n in files]},
        schema={"file": pl.Int64, "first": pl.String},
    )
    found = found.join(first, on="file", how="left")
    return found.select("place", pl.coalesce("names", "first").alias("names"))


def _first_line(source: Source) -> str:
    try:
        with source.open() as stream:
            return stream.readline(LONGEST).decode("utf-8", "replace").strip()
    except (OSError, ValueError):
        return ""
