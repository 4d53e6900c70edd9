"""Which ranks were at something else when calls timed out, by their last lines.

Ranks of one program print alike up to the call that they all wait in. The one that they
wait for was at something else, and its last line says so; or it still logged its work
late in their wait; or it said that its data had run out. Of a program that prints
nothing in its loop, or on rank 0 alone, last lines prove nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs.later_steps import CLOCKS
from ncclforensics.model.frames import remembered
from ncclforensics.model.last_words import BAR, DONE, EPOCH, GAVE_UP, LAST, USUAL, shape
from ncclforensics.model.tables import TIME

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

STAMP = pl.duration(seconds=1)  # what a time without fractions leaves out
FEWEST = 3  # ranks that are compared
MOST = 2 / 3  # of the ranks say the same
FEW = 1 / 4  # of the ranks, but at least one, are the odd ones at most


@remembered
def odd(frames: Frames) -> frozenset[int]:
    """Return the few ranks whose last line is unlike the one that most ranks repeat.

    Each of them repeated that line as well, before.
    """
    said = frames["events"].filter(pl.col("message").is_in([LAST, USUAL]))
    if said.is_empty():
        return frozenset()
    # stdout and stderr of a rank are compared with those of the others; single letters
    # number nodes as well
    stream = pl.col("source").str.replace_all(r"\d+|\b[a-z]\b", "#").alias("stream")
    told = said.select("message", "rank", stream, shape(pl.col("text")).alias("said"))
    last = told.filter(pl.col("message") == LAST).drop("message").unique()
    many = pl.col("rank").n_unique()
    last = last.with_columns(
        many.over("stream", "said").alias("alike"), many.over("stream").alias("all")
    ).filter(pl.col("all") >= FEWEST)
    is_usual = pl.col("alike") >= MOST * pl.col("all")
    repeated = told.filter(pl.col("message") == USUAL).drop("message").unique()
    usual = last.filter(is_usual).select("stream", "said").unique()
    known = repeated.join(usual, on=["stream", "said"]).select("stream", "rank")
    others = last.filter(~is_usual).join(known, on=["stream", "rank"], how="semi")
    few = others.filter(many.over("stream") <= (FEW * pl.col("all")).clip(1))
    return frozenset(few["rank"].drop_nulls())


def at_work(frames: Frames, waits: pl.DataFrame) -> frozenset[int]:
    """Return the ranks that logged work of their own late in the wait of the others.

    `waits` has `rank`, `t` when its wait began, `until` when it gave up, and the
    duration `ran`. A traceback has no time: then the wait began at the rank's last
    line, and ended at the line right above. A rank that waits logs no work; a line that
    waiting ranks print as well is none.
    """
    said = frames["events"].filter(pl.col("message").is_in([LAST, GAVE_UP]))
    if said.is_empty() or waits.is_empty():
        return frozenset()
    last = _latest(said, LAST)
    if last.is_empty():
        return frozenset()
    middle = _middle(waits, said)
    late = last.filter(pl.col("t") > middle + CLOCKS)
    waiting = pl.col("rank").is_in(waits["rank"].implode())
    usual = late.filter(waiting)["said"]
    return frozenset(
        late.filter(~waiting & ~pl.col("said").is_in(usual.implode()))["rank"]
    )


def drawn_late(frames: Frames, waits: pl.DataFrame) -> dict[str, bool]:
    """Say of each source whether its progress bar was drawn late in the wait of others.

    Whose it is, a console that ranks share does not tell. `waits` as in `at_work`.
    """
    bars = frames["events"].filter(
        (pl.col("message") == BAR) & pl.col("rank").is_null()
    )
    if bars.is_empty():
        return {}
    said = frames["events"].filter(pl.col("message").is_in([LAST, GAVE_UP]))
    late = (pl.col("t") > _middle(waits, said) + CLOCKS).fill_null(False)
    return dict(bars.select("source", late.alias("late")).sort("source").iter_rows())


def single_out(frames: Frames, waits: pl.DataFrame) -> bool:
    """Whether last lines tell anything of some ranks alone. `waits` as in `at_work`."""
    return bool(
        over(frames, frozenset(), epoch=True)
        or odd(frames)
        or at_work(frames, waits)
        or drawn_late(frames, waits)
    )


def _middle(waits: pl.DataFrame, said: pl.DataFrame) -> pl.Expr:
    """Return the middle of the wait of most ranks, as a literal; null if unknown."""
    gave_up = _latest(said, GAVE_UP).select("rank", pl.col("t").alias("gave_up"))
    lines = _latest(said, LAST).select("rank", pl.col("t").alias("last"))
    known = waits.join(lines, on="rank", how="left").join(gave_up, "rank", how="left")
    # a shipper may stamp a traceback with the time of the line above it: who logs work
    # does not wait yet
    spoke = pl.when(pl.col("last") <= pl.col("until") + STAMP).then("last")
    began = pl.coalesce(
        pl.max_horizontal("t", spoke), "last", pl.col("until") - pl.col("ran")
    )
    later = pl.when(pl.col("gave_up") > began).then("gave_up")
    ended = pl.coalesce("until", later, began + pl.col("ran"))
    spans = known.select(began.alias("began"), ended.alias("ended")).drop_nulls()
    half = (pl.col("ended").median() - pl.col("began").median()) / 2
    middle = spans.select((pl.col("began").median() + half).cast(TIME)).to_series()
    return pl.lit(middle[0], TIME)


def over(
    frames: Frames, waiting: frozenset[int], *, epoch: bool = False
) -> frozenset[int]:
    """Return the ranks that said that their loop is over, as no `waiting` one did.

    With `epoch` also those that said so of an epoch, which all ranks say in health.
    """
    words = [DONE, EPOCH] if epoch else [DONE]
    is_said = pl.col("message").is_in(words) & pl.col("rank").is_not_null()
    said = frames["events"].filter(is_said)
    if said.is_empty():
        return frozenset()
    told = said.select("rank", shape(pl.col("text")).alias("said"))
    waits = pl.col("rank").is_in(list(waiting))
    usual = told.filter(waits)["said"]
    return frozenset(
        told.filter(~waits & ~pl.col("said").is_in(usual.implode()))["rank"]
    )


def _latest(said: pl.DataFrame, message: str) -> pl.DataFrame:
    """Return `rank t said` of the last line of each rank with a time."""
    lines = said.filter(pl.col("message") == message).drop_nulls(["rank", "t"])
    shaped = lines.select("rank", "t", shape(pl.col("text")).alias("said"))
    return shaped.sort("t").unique("rank", keep="last", maintain_order=True)
