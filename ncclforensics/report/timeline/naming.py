"""Assigns process groups to kinds; groups of one kind share columns.

All groups with one description (`TENSOR_MODEL_PARALLEL_GROUP`) share columns if no rank
is in two of them: their calls with the same number are then below each other. Otherwise
a group has columns of its own. P2P calls are numbered separately from collectives, so
they have separate columns.
"""

from __future__ import annotations

import re

import polars as pl

from ncclforensics.model.folding import natural
from ncclforensics.model.words import UNNAMED, short_name

KEY = ("pg", "pg_desc", "p2p")
P2P = " p2p"
# common suffix of Megatron's group names
MEGATRON = re.compile("(_MODEL)?_PARALLEL_GROUP")

# the number of a call within its kind
NUMBER = (
    pl.when(pl.col("is_p2p").fill_null(False))
    .then(pl.coalesce(pl.when(pl.col("p2p_seq") > 0).then("p2p_seq"), "seq"))
    .otherwise("seq")
)


def brief_name(kind: str) -> str:
    """Return the name of a kind for a list of all kinds, where space is short."""
    return MEGATRON.sub("", kind)


def keyed() -> tuple[pl.Expr, ...]:
    """Return expressions `pg`, `pg_desc`, `p2p` and `n` for rows of `collectives`."""
    return (
        pl.col("pg").fill_null(""),
        pl.col("pg_desc").fill_null(""),
        pl.col("is_p2p").fill_null(False).alias("p2p"),
        NUMBER.alias("n"),
    )


def kinds(members: pl.DataFrame) -> pl.DataFrame:
    """Return `gid kind pg pg_desc p2p`, one row per group.

    `members` has the columns `rank` and KEY, each rank of a group once. Groups without
    a specific description, or with one whose groups overlap, share columns with their
    neighbours by number, as long as these have the same size and no common rank:
    parallel groups are created one after the other.
    """
    shared = (
        members.group_by("rank", "pg_desc", "p2p")
        .len()
        .group_by("pg_desc", "p2p")
        .agg((pl.col("len") > 1).any().alias("overlap"))
    )
    named = pl.col("pg_desc").is_in(UNNAMED).not_() & pl.col("overlap").not_()
    groups = members.group_by(KEY).agg("rank").join(shared, on=["pg_desc", "p2p"])
    labels = pl.concat(
        [
            groups.filter(named).select(*KEY, pl.col("pg_desc").alias("kind")),
            _families(groups.filter(~named)),
        ]
    )
    tail = pl.when("p2p").then(pl.lit(P2P)).otherwise(pl.lit(""))
    return (
        labels.sort(KEY)
        .with_row_index("gid")
        .select("gid", (pl.col("kind") + tail).alias("kind"), *KEY)
    )


def _families(groups: pl.DataFrame) -> pl.DataFrame:
    """Return KEY and `kind` of groups without a usable description."""
    found: list[list[tuple[str, str, bool]]] = []
    size, taken = 0, set[int]()
    rows = groups.select(*KEY, "rank").rows()
    for pg, desc, p2p, ranks in sorted(rows, key=lambda r: (r[2], r[1], natural(r[0]))):
        like = found and found[-1][0][1:] == (desc, p2p) and len(ranks) == size
        if not like or not taken.isdisjoint(ranks):
            found.append([])
            size, taken = len(ranks), set()
        taken.update(ranks)
        found[-1].append((pg, desc, p2p))
    named = [(*group, _family(family)) for family in found for group in family]
    schema = {
        "pg": pl.String,
        "pg_desc": pl.String,
        "p2p": pl.Boolean,
        "kind": pl.String,
    }
    return pl.DataFrame(named, schema=schema, orient="row")


def _family(groups: list[tuple[str, str, bool]]) -> str:
    desc = "pg" if groups[0][1] in UNNAMED else groups[0][1]
    first, last = groups[0][0], groups[-1][0]
    first, last = short_name(first), short_name(last)
    return f"{desc} {first}".strip() if first == last else f"{desc} {first}-{last}"
