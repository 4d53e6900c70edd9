"""Splits lines in which something was drawn anew at CR, such as a progress bar.

A bar is redrawn hundreds of times in one line. Redraws that differ in nothing but
numbers tell only of progress: the first and the last of a line are read. Whatever else
is printed between them is a piece of its own.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.parsers.logs.ascii_regex import ascii_only
from ncclforensics.parsers.logs.lines import ANSI

# a progress bar (tqdm) ends without a line break, so the next line stands behind it
UNDER_BAR = ascii_only(r"(\d(?:it/s|s/it)[^\]\n]*\])(\[rank\d{1,9}\]: )")
MARKS = ["\x00", "\x1b", "^", "\r", "\n", "it/s", "s/it"]  # each such line holds one
# a bar as it is drawn, `12%|##| 12/100 [00:03<00:20, 4.10it/s]`, and what moves in it
BAR = r"\d{1,3}%\|[^|\n]*\|"
DRAWN = r"[0-9#.:,?\s\u2588-\u258f]+"


def parted(lines: pl.DataFrame) -> pl.DataFrame:
    """Split lines (`raw`) where something redraws, without the codes of a terminal.

    The other columns of a line stand beside each of its pieces, in order.
    """
    odd = lines["raw"].str.contains_any(MARKS).fill_null(False)
    if not odd.any():
        return lines
    pieces = (
        pl.col("raw")
        .str.replace_all(ANSI, "")
        .str.replace_all(UNDER_BAR, "$1\r$2")
        .str.replace_all("\n", "\r")
        .str.split("\r")
    )
    placed = lines.with_row_index("place")
    parted = placed.filter(odd).with_columns(pieces).explode("raw")
    # of redraws that differ in nothing but numbers, the first and the last of a line
    drawn = pl.col("raw").str.replace_all(DRAWN, "").alias("drawn")
    alike = parted.select("place", pl.when(pl.col("raw").str.contains(BAR)).then(drawn))
    is_end = alike.select(
        pl.col("drawn").is_null()
        | pl.struct("place", "drawn").is_first_distinct()
        | pl.struct("place", "drawn").is_last_distinct()
    )
    parted = parted.filter(is_end.to_series())
    whole = pl.concat([placed.filter(~odd), parted])
    return whole.sort("place", maintain_order=True).drop("place")
