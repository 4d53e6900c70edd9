"""What the wait graph tells a diagnoser: the roots by the call that waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.diagnosers import common
from ncclforensics.findings import Cite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.findings import Collective
    from ncclforensics.tables import Frames

MAX_WAITING = 3  # cites of ranks that wait; the explanation counts the rest


def by_call(
    frames: Frames, why: str
) -> Iterator[tuple[dict[str, Any], tuple[int, ...], int]]:
    """Yield (call, ranks, blocked) of the roots of one kind.

    `call` is the row of `calls` in which most others wait for these ranks, `blocked`
    how many ranks hang on them in all. What most ranks hang on comes first.
    """
    kind = frames["roots"].filter(pl.col("why") == why)
    grouped = (
        kind.group_by("call", maintain_order=True)
        .agg("rank", pl.col("blocked").max())
        .sort("blocked", descending=True, maintain_order=True)
    )
    for number, ranks, blocked in grouped.iter_rows():
        yield frames["calls"].row(number, named=True), tuple(sorted(ranks)), blocked


def is_majority(call: dict[str, Any], ranks: tuple[int, ...]) -> bool:
    """Whether more members are absent than came: then the latter are the odd ones."""
    came = len(call["waiting"]) + len(call["behind"]) + len(call["done"])
    return len(ranks) > came


def spread(call: dict[str, Any], failing: Collective, blocked: int) -> str:
    """Say how many wait in a call, and how many behind them."""
    here = len(call["waiting"])
    members = len(call["members"] or ())
    wait = "waits" if here == 1 else "wait"
    words = f"{here:,} of {members:,} members {wait} in {common.call_words(failing)}"
    if blocked > here:
        words += f", and {blocked - here:,} more ranks behind them in other groups"
    return f"{words}."


def waiting(frames: Frames, call: dict[str, Any]) -> tuple[Cite, ...]:
    """Cite ranks that wait in a call."""
    return cites(_waiting(frames, call), "waits in")


def onset(frames: Frames, call: dict[str, Any]) -> int | None:
    """Return when the first rank began to wait in a call, in UTC nanoseconds."""
    return common.first_seen(_waiting(frames, call))


def cites(standings: pl.DataFrame, says: str) -> tuple[Cite, ...]:
    """Cite where the standings of some ranks were read."""
    return tuple(
        Cite(
            row["source"],
            row["line"],
            f"rank {row['rank']} {says} {row['op'] or 'a call'} "
            f"SeqNum={row['enqueued'] if row['waits_in'] is None else row['waits_in']}",
        )
        for row in standings.drop_nulls("source").head(MAX_WAITING).to_dicts()
    )


def _waiting(frames: Frames, call: dict[str, Any]) -> pl.DataFrame:
    here = pl.col("rank").is_in(call["waiting"]) & (pl.col("group") == call["group"])
    return frames["standings"].filter(here & pl.col("waits_in").is_not_null())
