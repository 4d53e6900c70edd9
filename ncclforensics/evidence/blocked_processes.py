"""Processes that the kernel reports as blocked, as in a read that does not return."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import common

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncclforensics.model.findings import Cite
    from ncclforensics.model.frames import Frames

HUNG = "kernel.hung_task"


def lines(frames: Frames, ranks: Iterable[int]) -> pl.DataFrame:
    """Return the kernel's hung-task lines on processes of `ranks`."""
    return frames.message(HUNG).filter(pl.col("rank").is_in(list(ranks)))


def words(frames: Frames, ranks: Iterable[int]) -> str:
    """Return a sentence naming the blocked ones of `ranks`; empty if none is.

    A blocked process is where no signal reaches it.
    """
    seen = common.numbers(lines(frames, ranks)["rank"])
    if not seen:
        return ""
    who = common.ranks(seen)
    return f" The kernel saw the process of {who} blocked for minutes."


def cites(frames: Frames, ranks: Iterable[int]) -> tuple[Cite, ...]:
    """Cite the first of `lines`."""
    return common.cites(lines(frames, ranks), 1)
