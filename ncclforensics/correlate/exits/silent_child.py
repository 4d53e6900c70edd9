"""Whose exit a launcher reports that names no child, where a signal ended the child.

DeepSpeed's launcher prints the command of the child that it started last, whichever one
failed. A process that SIGKILL or a fault ends has no time for a word about its failure:
where each other child of that launcher tells of one, the exit is of the one that does
not.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import needing
from ncclforensics.model.tables import CITE, FAILING

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

FAILED, SPAWNED = "launchers.deepspeed.failed", "launchers.deepspeed.spawned"
TRACEBACK = "python.traceback"
WORDLESS = [
    -int(number)
    for number in (
        *(signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS),
        *(signal.SIGILL, signal.SIGFPE),
    )
]


@needing(FAILED, otherwise={**CITE, "rank": pl.Int64()})
def owners(frames: Frames) -> pl.DataFrame:
    """Return `source line rank` of exits by a signal, of the only silent child.

    None of a launcher that started its children again, or that started only one.
    """
    nothing = tables.without_rows({**CITE, "rank": pl.Int64()})
    exits = frames["exits"].filter(
        (pl.col("reported_by") == "deepspeed")
        & pl.col("code").is_in(WORDLESS)
        & pl.all_horizontal(pl.col("rank", "local_rank", "pid").is_null())
    )
    started = frames.message(SPAWNED)
    if exits.is_empty() or started.is_empty():
        return nothing
    bad = pl.col("role").is_in(FAILING) | (pl.col("message") == TRACEBACK)
    spoke = frames["events"].filter(bad)["rank"].drop_nulls().unique()
    silent = ~pl.col("rank").is_in(spoke.implode())
    one = (
        started.group_by("source")
        .agg(
            pl.col("rank").filter(silent),
            once=pl.col("rank").n_unique() == pl.len(),
            many=pl.len() > 1,
            known=pl.col("rank").is_not_null().all(),
        )
        .filter("once", "many", "known", pl.col("rank").list.len() == 1)
        .explode("rank")
    )
    alone = exits.filter(pl.len().over("source") == 1).select(*CITE)
    return alone.join(one, on="source").select(*CITE, "rank")
