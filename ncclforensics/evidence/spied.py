"""Where each rank was when somebody looked at its process with py-spy.

A rank whose main thread stands in a call of torch.distributed waits there. One that
stands in other code while its peers wait in one call is whom they wait for; its stack
says what it does instead. On a GPU the host may be past a call that its stream is still
in, so a rank that is in no call is no proof by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import common

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncclforensics.frames import Frames

CALLS = r"torch/distributed/(?:distributed_c10d|_functional_collectives)\.py$"
OPS = (
    r"^(?:all_reduce|broadcast|barrier|monitored_barrier|reduce|gather|scatter|send|recv"
    r"|(?:all_gather|reduce_scatter|all_to_all)\w*|\w+_object(?:_list|s)?|_store_barrier)$"
)
# the host waits for its GPU, which may be in any call
DEVICE = r"torch/cuda/(?:__init__|streams)\.py$"
SCHEMA = {
    "rank": pl.Int64(),
    "host": pl.String(),
    "pid": pl.Int64(),
    "op": pl.String(),
    "site": pl.String(),
    "text": pl.String(),
    "t": pl.Datetime("ns", "UTC"),
    "source": pl.String(),
    "line": pl.Int64(),
}


def sites(frames: Frames) -> pl.DataFrame:
    """Return where each rank that was looked at stands, in SCHEMA, one row a look.

    `op` is the call it waits in, "synchronize" where it waits for its GPU, null where
    it does neither; `site` the innermost line of the user's own code.
    """
    looked = frames.message("pyspy.process")
    if "depth" not in looked.columns:
        return pl.DataFrame(schema=SCHEMA)
    key = ["source", "line"]
    file = pl.col("file")
    in_call = file.str.contains(CALLS) & pl.col("function").str.contains(OPS)
    on_device = file.str.contains(DEVICE) & (pl.col("function") == "synchronize")
    own = ~file.str.contains(common.LIBRARY) & pl.col("file_line").is_not_null()
    line = common.sentence(
        file.str.extract(r"([^/]+)$"), ":", pl.col("file_line"), " ", pl.col("function")
    )
    where = (
        looked.sort(*key, "depth")
        .group_by(key, maintain_order=True)
        .agg(
            *(pl.col(c).first() for c in ("rank", "host", "pid", "t")),
            pl.col("function").filter(in_call).first().alias("call"),
            on_device.any().alias("synchronizes"),
            line.filter(own).first().alias("site"),
        )
    )
    op = pl.coalesce("call", pl.when("synchronizes").then(pl.lit("synchronize"))).alias(
        "op"
    )
    named = where.join(_by_pid(frames), on="pid", how="left", maintain_order="left")
    rank = pl.coalesce("rank", "_rank")
    text = common.sentence(
        "rank ", rank, " stands in ", pl.coalesce("site", pl.lit("no code of its own"))
    )
    return (
        named.with_columns(op, rank.alias("rank"), text.alias("text"))
        .drop_nulls("rank")
        .select(SCHEMA.keys())
    )


def at_work(frames: Frames, ranks: Iterable[int]) -> str:
    """Say where those of `ranks` stand that were seen outside of any call."""
    seen = sites(frames).filter(
        pl.col("rank").is_in(list(ranks))
        & pl.col("op").is_null()
        & pl.col("site").is_not_null()
    )
    told = [
        f"rank {rank} was in {site}"
        for rank, site in seen.select("rank", "site").unique(maintain_order=True).rows()
    ]
    if not told:
        return ""
    return f" When somebody looked at it with py-spy, {common.some(told)}."


def _by_pid(frames: Frames) -> pl.DataFrame:
    """Return `pid _rank` of the pids that one rank alone has."""
    known = frames["ranks"].select("pid", pl.col("rank").alias("_rank")).drop_nulls()
    return known.unique("pid", keep="none")
