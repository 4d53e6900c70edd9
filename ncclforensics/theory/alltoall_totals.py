"""Check that all_to_all members together send what they expect to receive.

In a healthy all_to_all, sizes differ from member to member, so two members cannot be
compared. But summed over all members and all their tensors, the elements that go in
must equal the elements that come out. This does not show whose split sizes are wrong.
If the sums also differ in a call that all members finished, then the recorder does not
record what is sent, and the check is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.correlate.traces.call_summary import outline
from ncclforensics.correlate.traces.progress import grouped
from ncclforensics.model.tables import done
from ncclforensics.theory.call_signatures import EXCHANGES, numels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.frames import Frames

KEY = ["rank", "group", "seq"]


SIDES = {"sent": numels("in").list.sum(), "due": numels("out").list.sum()}


@dataclass(frozen=True, slots=True)
class Unbalanced:
    """A call (row of `calls`) with the elements its members send and expect.

    `entries` are the members' Flight Recorder entries, with the columns `sent`, `due`
    (elements) and `text`.
    """

    call: dict[str, Any]
    sent: int
    expected: int
    entries: pl.DataFrame


def unbalanced(frames: Frames) -> Iterator[Unbalanced]:
    """Yield the exchanges in which ranks wait and whose sent and expected sums differ.

    Only exchanges for which every member's sizes are known.
    """
    calls = frames["calls"].filter(
        pl.col("op").str.contains(EXCHANGES)
        & (pl.col("unseen").list.len() == 0)
        & (pl.col("absent").list.len() == 0)
    )
    if calls.is_empty():
        return
    came = calls.select("call", *KEY[1:], pl.col("members").alias("rank"))
    told = (
        frames.scan("collectives")
        .filter(
            pl.col("op").str.contains(EXCHANGES)
            & pl.col("rank").is_in(came["rank"].explode().unique().implode())
            & pl.col("seq").is_in(came["seq"].unique().implode())
        )
        .collect()
        .pipe(grouped, frames["group_names"])
        .join(came.explode("rank"), on=KEY, how="inner")
        .with_columns(**SIDES)
        .with_columns(
            pl.concat_str(
                *(pl.lit("rank "), "rank", pl.lit(" sends "), "sent"),
                *(pl.lit(" elements and expects "), "due"),
            ).alias("text")
        )
        .drop_nulls(["sent", "due"])
    )
    for call in calls.to_dicts():
        entries = told.filter(pl.col("call") == call["call"])
        sent, due = int(entries["sent"].sum()), int(entries["due"].sum())
        whole = entries.height == len(call["members"] or ())
        if whole and sent != due and _add_up(frames, call):
            yield Unbalanced(call, sent, due, entries)


def _add_up(frames: Frames, call: dict[str, Any]) -> bool:
    """Whether both sums are equal in all earlier exchanges that the members finished.

    Without any such exchange: whether the dumps are complete (they start at record 0).
    Otherwise the finished ones may have left the ring buffers, or were not dumped.
    """
    over = (
        frames.scan("collectives")
        .filter(
            pl.col("op").str.contains(EXCHANGES)
            & done()
            & pl.col("rank").is_in(call["members"])
            & (pl.col("seq") < call["seq"])
        )
        .collect()
        .pipe(grouped, frames["group_names"])
        .filter(pl.col("group") == call["group"])
        .group_by("seq")
        .agg(pl.len().alias("came"), **{c: side.sum() for c, side in SIDES.items()})
        .filter(pl.col("came") == len(call["members"]))
    )
    if over.is_empty():
        made = outline(frames).filter(pl.col("rank").is_in(call["members"]))
        oldest = made.group_by("rank").agg(pl.col("record_id").min())["record_id"]
        return bool((oldest == 0).all())
    return over.filter(pl.col("sent") != pl.col("due")).is_empty()
