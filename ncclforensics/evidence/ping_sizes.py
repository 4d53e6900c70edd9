"""Pings of two sizes to one host: large packets get lost where small ones arrive.

A switch port or a tunnel with a smaller MTU drops them silently, so both ends show the
MTU they should have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

SEVERAL = 2  # paths that must be narrow to tell which end is
BEGAN, ENDED = "system.ping", "system.ping.ended"


def lost(frames: Frames) -> pl.DataFrame:
    """Return the unanswered pings to peers that answered smaller ones.

    Columns: those of `events`, `peer`, and bytes: `packet` of this ping, and `passed`
    of the largest one that was answered.
    """
    began, ended = frames.message(BEGAN), frames.message(ENDED)
    schema = {**began.schema, "peer": pl.String(), "packet": pl.Int64()}
    if began.is_empty() or ended.is_empty():
        return pl.DataFrame(schema={**schema, "passed": pl.Int64()})
    tries = began.sort("line").join_asof(
        ended.select("source", "line", "received").sort("line"),
        on="line",
        by="source",
        strategy="forward",
        check_sortedness=False,
    )
    way = ["host", "peer_address"]
    arrived = tries.filter(pl.col("received") > 0).group_by(way)
    known = arrived.agg(pl.col("packet").max().alias("passed"))
    return (
        tries.filter(pl.col("received") == 0)
        .join(known, on=way, nulls_equal=True)
        .filter(pl.col("packet") > pl.col("passed"))
        .select(*schema, "passed")
    )


def odd_host(lost: pl.DataFrame) -> str | None:
    """Return the host whose large packets reach no other, if each other lost one path.

    `lost` is as `lost` returns it, of pings that several hosts sent.
    """
    paths = lost.drop_nulls("host").group_by("host").agg(pl.col("peer").n_unique())
    many = paths.filter(pl.col("peer") >= SEVERAL)
    if many.height != 1 or paths.height <= SEVERAL:
        return None
    return str(many["host"][0])
