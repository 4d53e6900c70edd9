"""Maps members in a status report of NCCL's RAS to ranks and hosts.

RAS names a member by communicator hash, its rank there, its pid and an address. The
hash is the `commId` of NCCL's debug output, which gives the rank. Without that output,
the members of a communicator as large as the job are the ranks themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.traces import communicators
from ncclforensics.model.tables import CITE, SCHEMAS

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

COUNTS = "ncclras.mismatch"
MISSING = "ncclras.incomplete"
TOLD = (COUNTS, MISSING, "ncclras.dead", "ncclras.unanswered")
ADDRESSES = {
    "nccl.bootstrap.using": "address",
    "nccl.net.socket_using": "address",
    "nccl.net.ib_using": "oob_address",
}
_COLUMNS = {
    "message": pl.String(),
    "comm_id": pl.String(),
    "kind": pl.String(),
    "op": pl.String(),
    "operation": pl.Int64(),
    "ranks": pl.Int64(),
    "comm_rank": pl.Int64(),
    "gpu": pl.String(),
    "process": pl.Int64(),
    "node": pl.String(),
    "said_line": pl.Int64(),
    "said": pl.String(),
    "text": pl.String(),
    "t": SCHEMAS["events"]["t"],
    **CITE,
}


def reported(frames: Frames) -> pl.DataFrame:
    """Return what reports say of members: captures of `ncclras`, `rank`, `host`.

    `host` is the name that logs give for an address, or the address itself.
    """
    told = frames.message(*TOLD)
    told = told.select(
        (pl.col(c) if c in told.columns else pl.lit(None)).cast(dtype).alias(c)
        for c, dtype in _COLUMNS.items()
    ).drop_nulls("kind")
    if told.is_empty():
        return pl.DataFrame(
            schema={**_COLUMNS, "rank": pl.Int64(), "host": pl.String()}
        )
    owners = communicators.owners(communicators.inits(frames))
    by_comm = (
        owners.with_columns(pl.col("key").str.strip_prefix("0x").alias("comm_id"))
        .group_by("comm_id", "comm_rank")
        .agg(pl.col("rank", "host").drop_nulls().unique())
        .filter(pl.col("rank").list.len() <= 1)
        .select(
            "comm_id",
            "comm_rank",
            pl.col("rank").list.first(),
            pl.col("host").list.first().alias("logged"),
        )
    )
    hosts = _hosts(frames)
    by_process = owners.group_by("host", "pid").agg(
        pl.col("rank").drop_nulls().unique()
    )
    by_process = by_process.filter(pl.col("rank").list.len() == 1).select(
        "host", pl.col("pid").alias("process"), pl.col("rank").list.first().alias("own")
    )
    spans = _spanning(frames, told)
    return (
        told.join(by_comm, on=["comm_id", "comm_rank"], how="left")
        .join(hosts, on="node", how="left")
        .join(spans, on=["source", "comm_id"], how="left")
        .with_columns(pl.coalesce("logged", "named", "node").alias("host"))
        .join(by_process, on=["host", "process"], how="left", maintain_order="left")
        .with_columns(
            pl.coalesce(
                "rank", "own", pl.when(pl.col("spans")).then("comm_rank")
            ).alias("rank")
        )
        .drop("logged", "named", "own", "spans")
    )


def _hosts(frames: Frames) -> pl.DataFrame:
    """Return `node named`: the only host that prints an address as its own."""
    told = [
        lines.select(pl.col(column).alias("node"), "host")
        for message, column in ADDRESSES.items()
        if column in (lines := frames.message(message)).columns
    ]
    none = pl.DataFrame(schema={"node": pl.String(), "host": pl.String()})
    return (
        pl.concat([none, *told])
        .drop_nulls()
        .unique()
        .filter(pl.len().over("node") == 1)
        .select("node", pl.col("host").alias("named"))
    )


def _spanning(frames: Frames, told: pl.DataFrame) -> pl.DataFrame:
    """Return the communicators that have as many members as the job has GPUs."""
    job = frames.message("ncclras.job")
    none = {"source": pl.String(), "comm_id": pl.String(), "spans": pl.Boolean()}
    if "gpus" not in job.columns:
        return pl.DataFrame(schema=none)
    sizes = (
        told.filter(pl.col("ranks").is_not_null() | (pl.col("kind") == "count"))
        .with_columns(
            # members given as a number are not counted again by their list
            pl.when(pl.col("ranks").is_not_null())
            .then("ranks")
            .when(pl.col("ranks").is_not_null().any().over(*_ONE_OP, "operation"))
            .then(0)
            .otherwise(1)
            .alias("members")
        )
        .group_by(_ONE_OP)
        .agg(pl.col("members").sum())
    )
    gpus = job.group_by("source").agg(pl.col("gpus").max())
    return (
        sizes.join(gpus, on="source")
        .filter(pl.col("members") == pl.col("gpus"))
        .select("source", "comm_id", pl.lit(True).alias("spans"))
        .unique()
    )


_ONE_OP = ["source", "line", "comm_id", "op"]
