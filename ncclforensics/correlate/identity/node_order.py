"""Ranks of a node are consecutive: the known ones give the host of the others."""

from __future__ import annotations

import polars as pl

AGREE = 2  # places in one file that tell where its node's ranks begin


def owners(claims: pl.DataFrame, node: str) -> pl.DataFrame:
    """Return `node` and local rank = rank for the places of nodes that number in turn.

    A launcher deals out the ranks of a node one after the other. So the ones that are
    known tell those between and beside them, where no other node has them. `node` is
    the host, or the file that all of a node's ranks write to, of which two have to
    agree: it may be the file of several nodes.
    """
    place = [node, "local_rank"]
    here = claims.drop_nulls(place).select(*place, "rank").unique(maintain_order=True)
    known = here.drop_nulls("rank")
    first = pl.col("rank") - pl.col("local_rank")
    nodes = known.group_by(node).agg(
        first.unique().alias("first"), pl.col("rank").n_unique().alias("many")
    )
    hosts = claims.group_by(node).agg(pl.col("host").drop_nulls().n_unique().alias("n"))
    enough = pl.col("many") >= (1 if node == "host" else AGREE)
    one = (pl.col("first").list.len() == 1) & (pl.col("n") <= 1) & enough
    nodes = nodes.join(hosts, on=node).filter(one).explode("first")
    told = (
        here.join(known, on=place, how="anti")
        .join(nodes, on=node)
        .with_columns((pl.col("first") + pl.col("local_rank")).alias("rank"))
    )
    taken = claims.drop_nulls([node, "rank", "local_rank"])
    taken = taken.select("rank", pl.col(node).alias("other")).unique()
    clash = told.join(taken, on="rank").filter(pl.col("other") != pl.col(node))
    free = told if node == "source" else told.join(clash, on=node, how="anti")
    return free.select(*place, "rank")


def placed(claims: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Give the claims of files that lie at a rank's place its rank.

    `known` has `host local_rank rank` of the places that are told themselves.
    """
    place = ["host", "local_rank"]
    both = pl.concat([known, owners(claims, "host")])
    theirs = both.rename({"rank": "_theirs"})
    joined = claims.join(theirs, on=place, how="left", maintain_order="left")
    return joined.with_columns(pl.coalesce("rank", "_theirs").alias("rank")).drop(
        "_theirs"
    )
