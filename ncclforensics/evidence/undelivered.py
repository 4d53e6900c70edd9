"""Connections of ranks over which nothing comes, as two looks of `collect` show them.

Bytes stand in the queue of the one end, and the other end, which was looked at as well,
has not got them; or a connection is not made. A rank that does not read has the bytes
in its own queue: that is no fault of the network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import alive
from ncclforensics.model.frames import remembered

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

SOCKET, MANIFEST = "collect.socket", "collect.manifest"
ROUTE = "route to "
ENDS = ["local", "remote"]


@remembered
def sockets(frames: Frames) -> pl.DataFrame:
    """Return the connections that stood in both looks, with `peer_host` of the far end.

    Those to a host that was not looked at are left out.
    """
    told = (
        frames.message(SOCKET).with_columns(
            pl.col(c).str.replace(r"^\[::ffff:(.*)\]:", "$1:") for c in ENDS
        )
        if frames.message(SOCKET).height
        else frames.message(SOCKET)
    )
    if told.is_empty():
        return told.with_columns(pl.lit(None, pl.String).alias("peer_host"))
    key = ["host", "rank", *ENDS, "state", "send_queue"]
    waits = (pl.col("state") == "SYN_SENT") | (pl.col("send_queue") > 0)
    outside = ~pl.col("remote").str.contains(r"^(?:127\.|\[::1\])")
    both = told.filter(waits & outside).sort("taken")
    both = both.filter(pl.col("taken").n_unique().over(key) > 1)
    both = both.unique(key, keep="last", maintain_order=True)
    address = pl.col("local").str.replace(r":\d+$", "").alias("_address")
    homes = told.select(address, pl.col("host").alias("peer_host")).unique()
    homes = homes.unique("_address", keep="none")
    far = pl.col("remote").str.replace(r":\d+$", "").alias("_address")
    found = both.with_columns(far).join(homes, on="_address", how="left")
    # what lies in the queue of the far end has arrived there
    arrived = told.filter(pl.col("receive_queue") > 0)
    arrived = arrived.select(
        pl.col("local").alias("remote"), pl.col("remote").alias("local")
    )
    found = found.join(arrived.unique(), on=ENDS, how="anti", maintain_order="left")
    seen = alive.seen(frames)["host"].unique()
    here = pl.col("peer_host").is_in(seen.implode())
    return found.filter(here & (pl.col("peer_host") != pl.col("host"))).drop("_address")


def odd_host(frames: Frames) -> str | None:
    """Return the host that all such connections have in common, if it is one.

    Of two ends, the one whose own routes do not lead to the other.
    """
    ends = sockets(frames).select("host", "peer_host").unique()
    common = [{*row} for row in ends.iter_rows()]
    shared = set.intersection(*common) if common else set()
    if len(shared) > 1:
        shared &= {*without_route(frames)["host"]}
    return shared.pop() if len(shared) == 1 else None


def without_route(frames: Frames) -> pl.DataFrame:
    """Return what `collect` said of peers to which a node has no route, by `host`."""
    told = frames.message(MANIFEST)
    if told.is_empty():
        return told
    peers = sockets(frames)["remote"].str.replace(r":\d+$", "")
    address = pl.col("asked").str.strip_prefix(ROUTE)
    return told.filter(
        pl.col("asked").str.starts_with(ROUTE) & address.is_in(peers.implode())
    )
