"""NCCL's ids: a group's first rank publishes one in the store, the others wait for it.

A rank that gives up says its own place in the group, as `[3]`, and that it waited for
`[0]` (ProcessGroupNCCL.cpp, broadcastUniqueNCCLID). Where a lost connection ended the
wait, the store's process may have died: that is no timeout.
"""

from __future__ import annotations

import polars as pl

MISSING = "c10d.nccl_id_missing"
TIMED_OUT = r"(?i)\btime(?:d )?out\b|\btimed out\b"
# the keys of the group of all: those of other groups have its name and then their own
OF_ALL = r"\bdefault_pg/0/"


def waits(lines: pl.DataFrame) -> pl.Expr:
    """Return whether each of some lines, rows of any messages, is no lost connection.

    It is true of all other messages than MISSING.
    """
    other = pl.col("message") != MISSING
    if "error" not in lines.columns:
        return other
    return other | pl.col("error").str.contains(TIMED_OUT).fill_null(False)


def unpublished(lines: pl.DataFrame) -> frozenset[int]:
    """Return rank 0 if ranks waited for its id until their timeout, in `lines`.

    Ranks whose place in the group is their own number are in a group that begins with
    rank 0, as the ranks of a group ascend. So is the group of all, which the key tells
    where no prefix tells the rank. Of another group, the first one is unknown.
    """
    if not {"group_rank", "error"} <= {*lines.columns}:
        return frozenset()
    own = lines.filter((pl.col("message") == MISSING) & waits(lines))
    of_all = pl.col("error").str.contains(OF_ALL).fill_null(value=False)
    rank = pl.coalesce("rank", pl.when(of_all).then("group_rank"))
    own = own.filter((pl.col("group_rank") == rank) & (rank > 0))
    return frozenset({0} if own.height and 0 not in lines["rank"] else ())
