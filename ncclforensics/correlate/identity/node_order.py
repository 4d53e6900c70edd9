"""Ranks of a node are consecutive, so known ones give the host of the others."""

from __future__ import annotations

import polars as pl

from ncclforensics.model.plans import collected

AGREE = 2  # ranks in one file that must agree on the first rank of its node


def owners(claims: pl.DataFrame, node: str) -> pl.DataFrame:
    """Return `{node} local_rank rank` of nodes whose ranks are consecutive.

    A launcher assigns consecutive ranks to a node. So the known ranks give those
    between and beside them, unless another node has them. `node` is the column `host`,
    or `source` for a file that all ranks of a node write to. In a file two ranks have
    to agree, since it may hold the output of several nodes.
    """
    place = [node, "local_rank"]
    if claims["local_rank"].null_count() == claims.height:
        return claims.select(*place, "rank").clear()
    told = claims.lazy().drop_nulls(place).select(*place, "rank")
    here = collected(told.unique(maintain_order=True))
    known = here.drop_nulls("rank")
    if known.is_empty():
        return _in_order(claims, here, node)
    unknown = here.join(known, on=place, how="anti")
    if unknown.is_empty():
        return known.clear()
    first = pl.col("rank") - pl.col("local_rank")
    nodes = known.group_by(node).agg(
        first.unique().alias("first"), pl.col("rank").n_unique().alias("many")
    )
    hosts = claims.group_by(node).agg(pl.col("host").drop_nulls().n_unique().alias("n"))
    enough = pl.col("many") >= (1 if node == "host" else AGREE)
    one = (pl.col("first").list.len() == 1) & (pl.col("n") <= 1) & enough
    nodes = nodes.join(hosts, on=node).filter(one).explode("first")
    given = unknown.join(nodes, on=node).with_columns(
        (pl.col("first") + pl.col("local_rank")).alias("rank")
    )
    taken = claims.drop_nulls([node, "rank", "local_rank"])
    taken = taken.select("rank", pl.col(node).alias("other")).unique()
    clash = given.join(taken, on="rank").filter(pl.col("other") != pl.col(node))
    free = given if node == "source" else given.join(clash, on=node, how="anti")
    return free.select(*place, "rank")


def _in_order(claims: pl.DataFrame, here: pl.DataFrame, node: str) -> pl.DataFrame:
    """Return `here` with the ranks of hosts that have as many as they have local ranks.

    A list of the job's hosts tells the ranks of each, and no local ranks.
    """
    if node != "host":
        return here.clear()
    ranks = claims.drop_nulls(["host", "rank"]).group_by("host")
    listed = ranks.agg(
        pl.col("rank").unique().sort().alias("listed"),
        pl.col("local_rank").is_null().all(),
    )
    of_host = here.group_by("host").agg(
        pl.col("local_rank").unique().sort().alias("own")
    )
    both = listed.join(of_host, on="host").filter(
        "local_rank",
        pl.col("own").list.len() == pl.col("listed").list.len(),
        pl.col("own").list.last() == pl.col("own").list.len() - 1,
        pl.col("listed").list.last() - pl.col("listed").list.first()
        == pl.col("own").list.len() - 1,
    )
    told = both.select("host", local_rank="own", rank="listed")
    return told.explode("local_rank", "rank").select(here.columns)


def in_blocks(ranks: pl.DataFrame) -> pl.DataFrame:
    """Return `rank host` of all ranks if those known fill equal blocks, one a host.

    `ranks` has the `rank` and `host` of each. Two ranks are known of a host, or more.
    """
    known = ranks.drop_nulls("host")
    hosts, many = known["host"].n_unique(), ranks.height
    nothing = known.select("rank", "host").clear()
    if known.height == many or hosts < 2 or many % hosts:
        return nothing
    if ranks["rank"].sort().to_list() != [*range(many)]:
        return nothing
    block = pl.col("rank") // (many // hosts)
    each = known.group_by(block.alias("block")).agg(
        pl.col("host").first(), one=pl.col("host").n_unique() == 1
    )
    agree = each.height == hosts == each["host"].n_unique() and each["one"].all()
    if not agree or known.height < AGREE * hosts:
        return nothing
    told = ranks.select("rank", block.alias("block"))
    return told.join(each, on="block").select("rank", "host")


def placed(claims: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Return `claims` with null ranks filled in by host and local rank.

    `known` has the `host local_rank rank` that claims state; the rest is from `owners`.
    """
    place = ["host", "local_rank"]
    both = pl.concat([known, owners(claims, "host")])
    if both.is_empty():
        return claims
    theirs = both.rename({"rank": "_theirs"})
    joined = claims.join(theirs, on=place, how="left", maintain_order="left")
    return joined.with_columns(pl.coalesce("rank", "_theirs").alias("rank")).drop(
        "_theirs"
    )
