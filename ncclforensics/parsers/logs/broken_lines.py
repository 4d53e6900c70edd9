"""Joins lines that were split on the way from the job to its log.

docker's json-file splits at 16 KiB, `{"log":"…","stream":"stderr","time":"…Z"}`, where
only the last piece ends with a newline. containerd and CRI-O write
`2026-…Z stderr P …`; the last piece has an `F`. Pieces of both streams are interleaved.
docker lines are converted to CRI lines, so that one table of decorations covers both.
Lines that a terminal wrapped are joined by `pastes`.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.parsers.logs import json_records
from ncclforensics.parsers.logs.json_records import DOCKER, RECORD, UNSEARCHABLE

_CRI = (
    r"^(?P<head>\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (?P<stream>stdout|stderr)) "
    r"(?P<tag>[PF]) (?s:(?P<body>.*))$"
)
CRI_MARKS = ["stdout P ", "stderr P "]
# every split line, and every record that has to be unwrapped first, contains one
MARKS = (DOCKER, *UNSEARCHABLE, *CRI_MARKS)


def joined(lines: pl.DataFrame) -> pl.DataFrame:
    """Return `lines` (`line` Int64, `raw` String) with pieces joined, in order.

    A joined line has the number of its first piece. If its end is missing, it stays
    marked as a piece, so that later pieces can still be appended.
    """
    docker = lines["raw"].str.starts_with(DOCKER)
    if docker.any():
        lines = lines.with_columns(
            pl.when(docker)
            .then(json_records.as_cri(pl.col("raw")))
            .otherwise("raw")
            .alias("raw")
        )
    if not lines["raw"].str.contains_any(CRI_MARKS).any():
        return lines
    part = lines.with_columns(pl.col("raw").str.extract_groups(_CRI).alias("part"))
    part = part.unnest("part")
    pieces = part.filter(pl.col("head").is_not_null())
    if pieces.is_empty():
        return lines
    ended = (pl.col("tag") == "F").cast(pl.Int64)
    whole = (
        pieces.with_columns((ended.cum_sum() - ended).over("stream").alias("_whole"))
        .group_by("stream", "_whole", maintain_order=True)
        .agg(
            pl.col("line").first(),
            pl.concat_str(
                pl.col("head").first(),
                pl.lit(" "),
                pl.col("tag").last(),
                pl.lit(" "),
                pl.col("body").str.join(""),
            ).alias("raw"),
        )
        .select("line", "raw")
    )
    others = part.filter(pl.col("head").is_null()).select("line", "raw")
    return pl.concat([whole, others]).sort("line", maintain_order=True)


def pieces(raw: pl.Series) -> pl.Series:
    """Return which are docker's JSON, CRI, or JSON to be unwrapped first, Boolean."""
    if raw.is_empty():
        return pl.Series(dtype=pl.Boolean)
    marked = raw.str.starts_with(DOCKER) | raw.str.contains(_CRI)
    return marked | (raw.str.contains(RECORD) & raw.str.contains_any(UNSEARCHABLE))
