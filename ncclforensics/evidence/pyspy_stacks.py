"""Where each rank was according to py-spy, or when a signal came.

A rank whose main thread is in a call of torch.distributed waits there. A rank in other
code while its peers wait in one call is the one that they wait for; its stack shows
what it does instead. On a GPU the host may be past a call that its stream is still in,
so a rank in no call is no proof by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.traces import call_sites
from ncclforensics.evidence import common

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncclforensics.model.frames import Frames


def held(frames: Frames) -> frozenset[int]:
    """Return the ranks that were seen waiting in a call, or for their GPU."""
    looks = call_sites.shown(frames, call_sites.LOOK)
    waits = looks.filter(pl.col("op").is_not_null() | pl.col("synchronizes"))
    return frozenset(waits["rank"].drop_nulls())


def at_work(frames: Frames, ranks: Iterable[int]) -> str:
    """Return a sentence on where `ranks` seen outside any call were, or ""."""
    site = common.sentence(
        pl.col("file").str.extract(r"([^/]+)$"),
        ":",
        pl.col("file_line"),
        " ",
        pl.col("function"),
    )
    here = (
        pl.col("rank").is_in(list(ranks))
        & pl.col("op").is_null()
        & pl.col("file").is_not_null()
    )
    looks = call_sites.shown(frames, call_sites.LOOK).filter(~pl.col("synchronizes"))
    found = ""
    for when, stacks in (
        ("When somebody looked at it with py-spy", looks),
        ("When a signal came", call_sites.interrupted(frames)),
    ):
        seen = stacks.filter(here).select("rank", site.alias("site"))
        told = [
            f"rank {rank} was in {where}"
            for rank, where in seen.unique(maintain_order=True).iter_rows()
        ]
        found += f" {when}, {common.some(told)}." if told else ""
    return found
