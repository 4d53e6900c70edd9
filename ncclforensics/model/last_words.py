"""The last lines of ranks, whatever they say: names and shapes that others share.

`parsers.logs.last_words` adds them to `events`; `correlate.waits.last_words` compares
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

LAST = "python.last_words"  # the last line of a rank's file above its first trouble
GAVE_UP = "python.gave_up"  # the line right above that trouble, for its time
USUAL = "python.usual_words"  # a line like several others in that file
DONE = "python.done"  # one of the last lines says that the program's loop is over
EPOCH = "python.epoch_over"  # one of the last lines says that an epoch is over
BAR = "python.progress_bar"  # a progress bar, at the time until which it was drawn
COUNT = "python.counting"  # one of the last lines in which a count goes on
START = 48  # characters of a line that identify it


def shape(text: pl.Expr) -> pl.Expr:
    """Return lines without what differs from step to step, and from rank to rank."""
    bare = text.str.strip_chars().str.replace_all(r"[+-]?\d[\d.,:]*(?:e[+-]?\d+)?", "#")
    return bare.str.head(START)
