"""Whose end a pod's container is, as `kubectl describe pod` tells it."""

from __future__ import annotations

import polars as pl

from ncclforensics.model.tables import CITE

REPORTER = "kubernetes"  # in `exits`


def owners(exits: pl.DataFrame, ranks: pl.DataFrame) -> pl.DataFrame:
    """Return `source line rank` of the ends of containers whose pod has one rank.

    `ranks` have the pods' names as `host`.
    """
    ends = exits.filter((pl.col("reported_by") == REPORTER) & pl.col("rank").is_null())
    if ends.is_empty():
        return ends.select(*CITE, "rank")
    alone = ranks.drop_nulls(["host", "rank"]).unique("host", keep="none")
    told = ends.drop("rank").join(alone.select("host", "rank"), on="host")
    return told.select(*CITE, "rank")
