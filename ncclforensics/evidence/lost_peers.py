"""Which host a line about a lost or unreachable peer means, and which many blame.

NCCL names a peer by address, or by what the address resolves to; the interfaces that
each process binds show whose address that is. Either end of a broken connection may
print, so a single pair blames the end that is silent, and many pairs blame the end that
they share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import polars as pl

from ncclforensics.correlate.identity import addresses
from ncclforensics.correlate.identity.host_names import NOWHERE

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

# an address or a name, and not the uninitialised memory that NCCL may print
SPELLED = r"^[\[\]A-Za-z0-9._:%-]*[A-Za-z0-9][\[\]A-Za-z0-9._:%-]*$"
ADDRESS = r"^(?:\d+(?:\.\d+){3}|[0-9a-fA-F]*:[0-9a-fA-F:.]*)$"
# the name that a cloud gives a machine by its address
CLOUD = r"^ip-(\d{1,3})-(\d{1,3})-(\d{1,3})-(\d{1,3})(?:\..*)?$"
# placeholders for addresses in logs that people anonymized
SCRUBBED = (
    r"(?i)^(?:x[x.:_-]*|\d{1,3}(?:\.(?:\d{1,3}|x+|\*)){0,3}\.(?:x+|\*)[x.*]*|y+)$"
)
# an exception that mentions other ranks or a wait that timed out, or that torch's C++
# throws when a connection ends
TOLD = (
    r"(?i)\b(?:an)?other (?:rank|worker|peer)s?\b|\bTimed out waiting \d+ ?ms\b"
    r"|^RuntimeError: (?:Broken pipe|No route to host|Network is unreachable"
    r"|Connection (?:timed out|refused|reset by peer))$"
    # a barrier with a timeout, and the comparison of DETAIL, raise on every rank
    r"|^RuntimeError: (?:\[Rank \d+\]:? |Rank \d+ successfully reached "
    r"|Detected mismatch between collectives"
    r"|ProcessGroupWrapper: Monitored Barrier encountered error)"
    r"|\bHorovod has been shut down\b"
)
# why a connection got no answer, in the words of the system
NO_WAY = r"no route to\b|network is unreachable|host is unreachable|timed out"
# an established connection whose other end is gone
GONE = ("c10d.gloo.closed", "c10d.gloo.io_failed", "nccl.socket.peer_closed")
MANY = 2
SCHEMA = {"host": pl.String(), "peer_host": pl.String()}


@dataclass(frozen=True, slots=True)
class Blame:
    """The hosts that the pairs of a broken network blame, and by which rule."""

    hosts: tuple[str, ...]
    how: Literal["shared", "silent", "peer", "pair", "odd"]


def with_hosts(frames: Frames, lines: pl.DataFrame) -> pl.DataFrame:
    """Add `peer_host`: the host that `peer` means, as the evidence names hosts.

    For a host that the evidence does not know it is the address or name itself. It is
    null if the line names no host, or garbage.
    """
    if "peer" not in lines.columns:
        return lines.with_columns(pl.lit(None, pl.String).alias("peer_host"))
    # people shorten long names with an ellipsis
    spelled = pl.col("peer").str.strip_chars("[]….").str.replace(r"(?i)^::ffff:", "")
    spelled = spelled.str.replace(r"%.*$", "")
    is_address = pl.col("_peer").str.contains(ADDRESS)
    label = pl.col("_peer").str.replace(r"\..*$", "")
    name = pl.when(is_address).then("_peer").otherwise(label)
    return (
        lines.with_columns(
            pl.when(
                pl.col("peer").str.strip_chars("….").str.contains(SPELLED)
                & ~pl.col("peer").str.contains(SCRUBBED)
            )
            .then(spelled)
            .alias("_peer")
        )
        .with_columns(pl.col("_peer").str.replace(CLOUD, "$1.$2.$3.$4").alias("_at"))
        .join(
            addresses.owners(frames).rename({"address": "_at", "owner": "_owner"}),
            on="_at",
            how="left",
            maintain_order="left",
        )
        .with_columns(
            pl.when(pl.col("_peer").str.contains(NOWHERE))
            .then("host")
            .otherwise(pl.coalesce("_owner", name))
            .alias("peer_host")
        )
        .drop("_peer", "_owner", "_at")
    )


def pairs(lines: pl.DataFrame) -> pl.DataFrame:
    """Return the distinct pairs of two hosts in lines of `with_hosts`, in SCHEMA."""
    known = lines.select(SCHEMA.keys()).drop_nulls("peer_host").unique()
    # a line without a host often repeats one that has it
    named = known.drop_nulls()
    repeats = pl.col("host").is_null() & pl.col("peer_host").is_in(
        named["peer_host"].implode()
    )
    known = _with_own_names(known.filter(~repeats))
    return known.filter(pl.col("host").ne_missing(pl.col("peer_host"))).sort(
        "host", "peer_host", nulls_last=True
    )


def _with_own_names(pairs: pl.DataFrame) -> pl.DataFrame:
    """Replace an address that all hosts but one report by the name of that one.

    No host reports itself. That one has to report as many addresses as there are other
    hosts, at least MANY: else the address may be that of a host that prints nothing.
    """
    known = pairs.drop_nulls()
    printers = {*known["host"]}
    lost = dict(known.group_by("host").agg(pl.col("peer_host").n_unique()).iter_rows())
    by_peer = known.group_by("peer_host").agg("host")
    owners: dict[str, str] = {}
    for peer, hosts in by_peer.filter(pl.col("peer_host").str.contains(ADDRESS)).rows():
        left = printers - {*hosts}
        if len(hosts) >= MANY and len(left) == 1 and lost[min(left)] == len(hosts):
            owners[peer] = left.pop()
    # an address that two hosts might own is neither's
    if len(set(owners.values())) < len(owners):
        return pairs
    return pairs.with_columns(pl.col("peer_host").replace(owners))


def ends(lines: pl.DataFrame) -> pl.DataFrame:
    """Drop lines of `with_hosts` on a peer that had itself lost another peer.

    A victim that gives up closes its other connections, and so the loss spreads.
    """
    told = lines.select(SCHEMA.keys()).drop_nulls().unique()
    passed = told.join(
        told.select(
            pl.col("host").alias("peer_host"), pl.col("peer_host").alias("_beyond")
        ),
        on="peer_host",
    ).filter(
        (pl.col("_beyond") != pl.col("host"))
        & (pl.col("_beyond") != pl.col("peer_host"))
    )
    keys = list(SCHEMA)
    return lines.join(passed.select(keys).unique(), on=keys, how="anti")


def blame(pairs: pl.DataFrame) -> Blame | None:
    """Return the hosts that some pairs blame, or None if they blame none.

    The first rule that applies counts. "silent": the only host that several others lost
    and that lost none itself. "shared": the host that more than half of the pairs
    share. "peer": the only host that was lost. "pair": both hosts of the only
    connection.
    """
    if pairs.is_empty():
        return None
    printers = set(pairs["host"].drop_nulls())
    losses = pairs.group_by("peer_host").len().filter(pl.col("len") > 1)
    silent = sorted(set(losses["peer_host"]) - printers)
    if len(silent) == 1:
        return Blame((silent[0],), "silent")
    ends = pl.concat([pairs["host"], pairs["peer_host"].alias("host")]).drop_nulls()
    shares = ends.value_counts(sort=True).rows()
    if len(pairs) > 1 and 2 * shares[0][1] > len(pairs) and shares[0][1] > shares[1][1]:
        return Blame((str(shares[0][0]),), "shared")
    if pairs["peer_host"].n_unique() == 1:
        return Blame((str(pairs["peer_host"][0]),), "peer")
    if ends.n_unique() == 2:
        return Blame(tuple(sorted(ends.unique())), "pair")
    return None
