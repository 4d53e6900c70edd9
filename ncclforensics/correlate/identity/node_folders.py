"""Folders or files of one node each: `node0/`, `a-n1.log`, `box-b_rank9.txt`.

Launchers number ranks node by node. So where the ranks of each folder beside others lie
in a block of ranks of its own, the folders are the nodes, and their names the best that
is known of them. So are files, by their names up to the ending or the rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

MOST_FOLDERS = 6  # nesting depth
LEAST_FILES = 2  # one file is beside no other
LEAST = 2  # ranks of a node: folders of one rank each are named by rank
NAME = r"^[A-Za-z][A-Za-z0-9._-]*$"
# the name of a file up to its kind, ending or rank; no host name has an underscore
FILE = (
    r"([A-Za-z][A-Za-z0-9.-]*?)"
    r"(?:[._-](?:py-?spy|stacks?|gdb|(?:nccl_|comm_lib_)?trace|dump))?"
    r"(?:[._-](?:global[-_]?)?rank[-_.=]?\d+[^/]*|\.(?:log|txt|out|err))?$"
)
# parts of a job that hold blocks of ranks as well, and usual names of folders
NO_NODE = (
    r"(?i)^(?:stage|pp|tp|dp|ep|cp|sp|pg|group|shard|replica|ranks?|local|attempt|try"
    r"|run|job|step|epoch|iter|part|phase|batch|exp|test|logs?|out|err|stdout|stderr"
    r"|dumps?|fr|traces?|nccl|comm|lib|torch|flight|recorder)[._-]?\d*$"
)


def names(frames: Frames) -> pl.Series:
    """Return the names of the folders or files that each hold a block of ranks.

    As String. The largest gives the size of a block; smaller ones lack ranks. Empty if
    two of them share a block, or if one has ranks of several.
    """
    told = [frames[name].select("source", "rank") for name in ("sources", "events")]
    files = pl.concat(told).drop_nulls().unique()
    if files["source"].n_unique() < LEAST_FILES:
        return pl.Series("name", [], pl.String)
    parts = pl.col("source").str.split("/")
    for depth in range(MOST_FOLDERS):
        inside = files.filter(parts.list.len() > depth + 1)
        if inside.is_empty():
            break
        name = parts.list.get(depth).alias("name")
        held = inside.group_by(parts.list.head(depth).alias("folder"), name).agg(
            pl.col("rank").unique()
        )
        beside = [g for g in held.partition_by("folder") if g.height > 1]
        if beside and all(_are_nodes(some) for some in beside):
            return pl.concat(some["name"] for some in beside).unique().sort()
        if any(not _are_looks(some) for some in beside):
            break
    return _of_files(files)


def _of_files(files: pl.DataFrame) -> pl.Series:
    """Return the names of files that each hold a block of ranks, beside each other."""
    name = pl.col("source").str.extract(rf"(?:^|/){FILE}").alias("name")
    folder = pl.col("source").str.extract(r"^(.*/)").fill_null("").alias("folder")
    held = files.select(folder, name, "rank").drop_nulls()
    held = held.group_by("folder", "name").agg(pl.col("rank").unique())
    beside = [
        some["name"]
        for some in held.sort("folder", "name").partition_by("folder")
        if some.height > 1 and _are_nodes(some)
    ]
    return pl.concat([*beside, held["name"].clear()])


def _are_looks(held: pl.DataFrame) -> bool:
    """Whether folders hold the same ranks, as looks at one job do."""
    times = held["rank"].explode().value_counts()["count"]
    return 2 * int((times > 1).sum()) > times.len()


def _are_nodes(held: pl.DataFrame) -> bool:
    """Whether the folders `name`, with a list `rank`, hold a block of ranks each."""
    size = held["rank"].list.len().max()
    if not isinstance(size, int) or size < LEAST:
        return False
    block = held.select(
        (pl.col("rank").list.min() // size).alias("first"),
        (pl.col("rank").list.max() // size).alias("last"),
    )
    parts = held["name"].str.replace_all("_", "-").str.split("-").explode()
    named = held["name"].str.contains(NAME) & (~parts.str.contains(NO_NODE)).all()
    whole = bool((block["first"] == block["last"]).all())
    return whole and bool(named.all()) and bool(block["first"].is_unique().all())
