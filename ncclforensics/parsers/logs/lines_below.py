"""The lines below one that belong to the same message, by who writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.plans import collected

if TYPE_CHECKING:
    from ncclforensics.parsers.logs import framing


def under(starts: pl.DataFrame, lines: framing.Lines, count: int) -> pl.DataFrame:
    """Return the segments of up to `count - 1` lines below each start, same speaker.

    A line with a header of its own ends the message and is not part of it; interleaved
    lines of other speakers are skipped. Python's logging repeats its header on each
    line of a message: such a line is a continuation if it is indented. srun labels all
    lines or none: below an unlabelled line, `1: [a, b]` is not a label.
    """
    wanted = starts.select(
        "line",
        "part",
        "speaker",
        "launcher",
        pl.col("task").is_null().alias("unlabelled"),
        pl.int_ranges(pl.col("line") + 1, pl.col("line") + count).alias("under"),
    ).explode("under")
    framed = lines.framed(
        pl.col("line").is_in(wanted["under"].unique().implode())
    ).lazy()
    framed = framed.select(
        pl.col("line").alias("under"),
        pl.col("part").alias("under_part"),
        pl.col("speaker").alias("under_speaker"),
        pl.col("launcher").alias("under_launcher"),
        (pl.col("speaker") == pl.col("launcher")).alias("rankless"),
        "task",
        "header",
        "text",
        pl.col("t").is_not_null().alias("timed"),
    )
    beside = wanted.lazy().join(framed, on="under")
    beside = beside.sort("line", "part", "under", "under_part")
    number = pl.when("unlabelled").then(pl.col("task").cast(pl.String))
    beside = beside.with_columns(
        pl.col("under_speaker").str.strip_suffix(
            pl.concat_str(
                pl.when(pl.col("under_speaker") == number)
                .then(pl.lit(""))
                .otherwise(pl.lit("|")),
                number,
            ).fill_null("")
        ),
        pl.concat_str(pl.concat_str(number, pl.lit(": ")).fill_null(""), "text").alias(
            "text"
        ),
    )
    same = pl.col("under_speaker").eq(pl.col("speaker")) | pl.col("under_speaker").eq(
        ""
    )
    same |= pl.col("rankless") & (pl.col("under_launcher") == pl.col("launcher"))
    return collected(
        beside.filter(same)
        .with_columns(
            (
                pl.col("header").is_not_null()
                & ~(pl.col("header").eq("python") & pl.col("text").str.starts_with(" "))
            ).alias("headed")
        )
        .filter(~pl.col("headed").cum_max().over("line", "part"))
    )
