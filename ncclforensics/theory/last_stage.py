"""Which stage of pipelines comes last to most calls: a bubble, and no rank's fault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.timing.own_time import own_time
from ncclforensics.theory.slow_ranks import excess

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

LEAST = 4  # calls
MOSTLY = 0.6  # share of the calls that one stage comes last to


@dataclass(frozen=True, slots=True)
class Stage:
    """The ranks of a pipeline stage, and the share of calls that they come last to."""

    ranks: tuple[int, ...]
    share: float


def last_stage(frames: Frames) -> Stage | None:
    """Return the stage that comes last to most calls of several stages, if one does."""
    told, above = own_time(frames), excess(frames)
    if told is None or above is None:
        return None
    roles = above.select("rank", "role").unique()
    last = (
        told.calls.filter(pl.col("meets").is_not_null())
        .join(roles, on="rank")
        .filter(pl.col("role").n_unique().over("meets") > 1)
        .group_by("meets")
        .agg(pl.col("role").sort_by("late").last())
    )
    if last.height < LEAST:
        return None
    role, many = last["role"].value_counts().sort("count", "role").row(-1)
    share = many / last.height
    if share < MOSTLY:
        return None
    ranks = roles.filter(pl.col("role") == role)["rank"].sort()
    return Stage(tuple(ranks.to_list()), share)
