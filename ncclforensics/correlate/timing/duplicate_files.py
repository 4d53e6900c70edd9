"""Which files are copies of others, and the times that their names give.

During a hang torch writes the same bytes twice: a dump holds no time of its own. So
equal bytes are a copy only if nothing shows two moments: no file names, no file times,
no dumps of another rank in the same two folders. A copy with a later file time of its
own cannot be distinguished from a second look.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import polars as pl

# a shorter gap between two looks proves nothing: a healthy call may take as long
LEAST_MS = 1_000
# words in file names that give an order
WORDS = (("first", "before", "earlier"), ("second", "after", "later"), ("third",))
ORDINAL = (
    rf"(?<![a-z])(?:{'|'.join(word for words in WORDS for word in words)})(?![a-z])"
)
STAMP = r"(20\d\d)[-_.]?(\d\d)[-_.]?(\d\d)[-_.T ]?(\d\d)[-_.:h]?(\d\d)[-_.:m]?(\d\d)"
A_COPY = r"(?i)cop(?:y|ies)|backup|\.bak|\.orig|~"


def without_copies(told: pl.DataFrame) -> pl.DataFrame:
    """Return `told` without the dumps that are copies of another one of their rank."""
    pair = told.select("rank", "folder", "sha256")
    two = pair.join(pair, on="rank", suffix="_").filter(
        (pl.col("folder") < pl.col("folder_"))
        & pl.col("sha256").ne_missing(pl.col("sha256_"))
    )
    apart = set(two.select("folder", "folder_").unique().iter_rows())
    copies: list[str] = []
    same = told.filter(pl.col("sha256").is_not_null())
    same = same.filter(pl.len().over("rank", "sha256") > 1)
    for _, group in same.group_by("rank", "sha256", maintain_order=True):
        kept, *others = group.sort("modified", "place").to_dicts()
        for other in others:
            folders = tuple(sorted((kept["folder"], other["folder"])))
            if folders in apart or is_retaken(kept, other):
                kept = other
            else:
                copies.append(other["source"])
    return told.filter(~pl.col("source").is_in(copies))


def is_retaken(kept: dict[str, object], other: dict[str, object]) -> bool:
    """Whether two files with the same bytes were written at different times.

    Files of exactly the same time are one file, collected twice.
    """
    first, second = kept["modified"], other["modified"]
    if re.search(A_COPY, f"{kept['source']} {other['source']}"):
        return False
    if isinstance(first, datetime) and isinstance(second, datetime):
        if first == second:
            return False
        if abs(second - first) >= timedelta(milliseconds=LEAST_MS):
            return True
    return kept["stamp"] != other["stamp"] or _ordinal(kept) != _ordinal(other)


def _ordinal(told: dict[str, object]) -> list[str]:
    return re.findall(ORDINAL, str(told["source"]).lower())


def _place(name: str) -> str:
    """Return a key that sorts names as people count: first, second; 2, 10."""
    key = name.lower()
    for place, words in enumerate(WORDS, 1):
        key = re.sub(rf"(?<![a-z])(?:{'|'.join(words)})(?![a-z])", str(place), key)
    return re.sub(r"\d+", lambda match: match[0].zfill(20), key)


def places(names: pl.Series) -> pl.DataFrame:
    """Return `source place stamp folder` of file names.

    `place` is a sort key. `stamp` is the time in the name, whose real zone is unknown,
    in ns and labelled UTC; null if there is none.
    """
    name = pl.col("source")
    digits = pl.concat_str(
        name.str.extract(STAMP, n).alias(str(n)) for n in range(1, 7)
    )
    return pl.DataFrame({"source": names}, schema={"source": pl.String()}).with_columns(
        pl.Series("place", [_place(name) for name in names], pl.String),
        digits.str.to_datetime(
            "%Y%m%d%H%M%S", time_unit="ns", time_zone="UTC", strict=False
        ).alias("stamp"),
        name.str.extract(r"^(.*)/").fill_null("").alias("folder"),
    )
