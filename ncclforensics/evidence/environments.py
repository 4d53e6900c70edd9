"""The environment of processes, as `collect` or `env` wrote it: all of it is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import common
from ncclforensics.model.frames import remembered

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

VARIABLE = "environment.variable"
# each rank has its own; a count of threads or an interface may differ between nodes,
# but then between all ranks of two hosts
OWN = r"^(?:CUDA_VISIBLE_DEVICES|OMP_\w+|\w*FILE\w*|\w*_RANK|RANK)$"


@remembered
def ranks(frames: Frames) -> frozenset[int]:
    """Return the ranks whose whole environment is known."""
    return frozenset(common.numbers(frames.message(VARIABLE)["rank"]))


def differing(frames: Frames) -> list[str]:
    """Return the variables that are not the same on all of `ranks`, sorted."""
    told = frames.message(VARIABLE)
    if "variable" not in told.columns:
        return []
    shared = told.drop_nulls("rank").filter(~pl.col("variable").str.contains(OWN))
    many = len(ranks(frames))
    by_name = shared.group_by("variable").agg(
        pl.col("value").n_unique().alias("values"),
        pl.col("rank").n_unique().alias("ranks"),
    )
    odd = (pl.col("values") > 1) | (pl.col("ranks") < many)
    return sorted(by_name.filter(odd)["variable"])


def count(frames: Frames) -> int:
    """Return how many variables are known."""
    told = frames.message(VARIABLE)
    return told["variable"].n_unique() if "variable" in told.columns else 0
