"""Suspects where only exit codes are known: the processes that failed first.

An agent's or launcher's summary tells which process ended by itself and which ones were
terminated afterwards, but not why. The first one's own output would tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import exit_records
from ncclforensics.evidence import common
from ncclforensics.model.findings import MOST_SUSPECTS, Cite, Suspect
from ncclforensics.model.folding import count

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames


def suspects(frames: Frames) -> tuple[Suspect, ...]:
    """Return at most eight ranks that exited by themselves first, in order.

    Without times these are all that exited by themselves. Each has an equal share of
    blame, and the cause that is not in this evidence has one too.
    """
    failed = exit_records.by_themselves(frames).drop_nulls("rank")
    timed = failed.drop_nulls("t")
    if timed["rank"].n_unique() == failed["rank"].n_unique():
        failed = timed.filter(pl.col("t") == pl.col("t").min())
    first = failed.sort("rank", "source", "line").unique(
        "rank", keep="first", maintain_order=True
    )
    heard = exit_records.ranks_of(frames["events"].filter(pl.col("role") != "agent"))
    others = exit_records.ended(frames)["rank"].drop_nulls().n_unique() - first.height
    words = first.select(common.exit_words(pl.col("code")).alias("words"))["words"]
    return tuple(
        Suspect(
            row["rank"],
            common.host_of(frames, row["rank"]) or row["host"],
            round(1 / (first.height + 1), 3),
            f"ended first with {said}"
            + (f", {count(others, 'rank')} after it" if others > 0 else "")
            + ("" if row["rank"] in heard else "; its own output is not here"),
            (Cite(row["source"], row["line"], row["text"] or said),),
        )
        for row, said in zip(first.head(MOST_SUSPECTS).to_dicts(), words, strict=False)
    )
