"""A host uses the wrong network interface, or finds none at all.

What it means
    NCCL picked an interface that does not lead to the other hosts: a container bridge,
    loopback, or a virtual or management network. Or it found none, because
    NCCL_SOCKET_IFNAME names one that this host does not have. Its bootstrap or its data
    never reaches the peers.

How we know
    `no socket interface found`; or `Bootstrap : Using` and `NET/Socket : Using` bind a
    kind of interface that cannot reach another host, in a job of several hosts; or
    hosts whose interfaces share no subnet with the rest, or with the address in
    NCCL_COMM_ID; or hosts that use Socket while the others use IB; or, only possible,
    an address that is link-local (fe80:…). The hosts with the odd choice are named. Or
    Open MPI connects to the address of Docker's own bridge.

What to do
    Name the right interface on every host: `export NCCL_SOCKET_IFNAME=eth0`. Or exclude
    the wrong ones: `export NCCL_SOCKET_IFNAME=^docker0,lo`. `ip -br addr` lists them.

Looks like
    A job on one host works over any interface, loopback included.
    The same interface everywhere and no connection is `unreachable-peer`.
    A job whose hosts have no fast network at all chose correctly.

References
    NCCL environment variables: NCCL_SOCKET_IFNAME, NCCL_IB_HCA.
"""

from __future__ import annotations

import dataclasses
from shlex import quote
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import common
from ncclforensics.evidence.built_communicators import all_joined, at_home, spans_hosts
from ncclforensics.model import wanted
from ncclforensics.model.findings import Cite, Finding, RuledOut
from ncclforensics.model.folding import are
from ncclforensics.model.words import said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Confidence, Statement
    from ncclforensics.model.frames import Frames

FAMILY = "network"
NEEDS = (
    *("nccl.bootstrap.", "nccl.net.", "nccl.init.", "nccl.socket.no_family"),
    *("nccl.ib.ends_differ", "launchers.mpi.connect_failed"),
    *("rdma.oneccl.no_interface", "c10d.gloo.no_interface"),
)
OF_MPI = ("launchers.mpi.connect_failed", "launchers.mpi.connect_failed.warned")
MISSING, NEXT_TIME = wanted.NCCL
EXPLAINS = (
    *("crashed-rank", "missing-rank", "timeout-masking"),
    *("unreachable-peer", "socket-error"),
)
SPREADS = True

NONE_FOUND = (
    *("nccl.bootstrap.no_interface", "nccl.bootstrap.no_device"),
    *("nccl.bootstrap.no_address", "nccl.socket.no_family"),
    *("rdma.oneccl.no_interface", "c10d.gloo.no_interface"),
)
CITED = ("text", "source", "line")
USING = (
    "nccl.bootstrap.using",
    *("nccl.net.socket_using", "nccl.net.socket_using.early"),
)
# kinds of interface that lead to no other host
LOCAL_ONLY = (
    r"^(?:lo|docker\d*|virbr\d+.*|veth.*|br-.*|cni\d+|podman\d*|lxcbr\d+|dummy\d+"
    # Linux makes these by itself, without a far end, when it loads the tunnel's module
    r"|(?:tunl|ip6tnl|sit|gre|gretap|erspan|ip_vti|ip6_vti|ip6gre)0)$"
)
# of RFC 4291 and RFC 3927
LINK_LOCAL = r"(?i)^(?:fe[89ab][0-9a-f]:|169\.254\.)"
DOCKER = "172.17.0.1"  # of docker0, unless somebody chose another
PAIRED = 0.5  # a choice is odd if less than this share of the hosts made it


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the hosts with the odd choice of network."""
    using = _using(frames)
    looks = (_no_interface, _no_way_there, _local_only, _network_differs, _ends_differ)
    for look in (*looks, _subnet_differs, _own_bridge, _link_local):
        if found := look(frames, using):
            yield found
            return
    hosts = using["host"].n_unique()
    if hosts > 1:
        chosen = common.some(common.strings(using["interface"]))
        why = f"{hosts:,} hosts use {chosen}, and no host differs"
        yield RuledOut("wrong-nic", why, common.cites(using, 2))


def _using(frames: Frames) -> pl.DataFrame:
    """Return one row per process: its bootstrap's interface, or its first for data."""
    lines = frames.message(*USING)
    if "interface" not in lines.columns:
        empty = ("host", "pid", "rank", "interface", "address", *CITED)
        return pl.DataFrame(schema=dict.fromkeys(empty, pl.String()))
    first = lines.drop_nulls("interface").sort(
        pl.col("message") != "nccl.bootstrap.using", "source", "line"
    )
    return first.unique(["host", "pid", "source"], keep="first", maintain_order=True)


def _no_interface(frames: Frames, _using: pl.DataFrame) -> Finding | None:
    lines = frames.message(*NONE_FOUND)
    if lines.is_empty():
        return None
    asked = frames.message("nccl.env", "nccl.env.set")
    named = instead = ""
    if asked.height:
        asked = asked.filter(pl.col("variable") == "NCCL_SOCKET_IFNAME")
        # a rank that only repeats the error does not say whose setting it is
        theirs = asked.drop_nulls("host").select("host", rank=pl.lit(None, pl.Int64))
        if lines["host"].is_null().all() and theirs["host"].n_unique() == 1:
            whose = theirs.head(1)
            lines = lines.drop("host", "rank").join(whose, how="cross")
        values = common.strings(asked["value"])
        if len(values) == 1:
            instead = values[0]
            named = f" (NCCL_SOCKET_IFNAME={instead})"
    where = common.named(common.hosts(lines["host"])) or "a host"
    return _finding(
        frames,
        lines,
        "certain",
        f"no usable network interface on {where}{named}",
        f"{_library(lines)} found no interface to use on {where}{named}: the filter "
        "matches nothing that this host has.",
        (*common.cites(lines, 4), *common.cites(asked, 2)),
        instead=instead,
    )


def _library(lines: pl.DataFrame) -> str:
    """Return the library that a line of NONE_FOUND is of."""
    message = str(lines["message"][0])
    return {"c10d": "Gloo", "rdma": "oneCCL"}.get(message.partition(".")[0], "NCCL")


def _ends_differ(frames: Frames, _using: pl.DataFrame) -> Finding | None:
    """Find connections whose ends chose cards that do not go together.

    The line does not say which end is the odd one, so nobody is named.
    """
    lines = frames.message("nccl.ib.ends_differ")
    if lines.is_empty() or all_joined(frames):
        return None
    where = common.named(common.hosts(lines["host"])) or "a host"
    found = _finding(
        frames,
        lines,
        "likely",
        f"{where} and its peer chose InfiniBand cards that do not go together",
        f"{said(lines['text'][0])} The two ends have different cards, or "
        f"not as many. {where} says so; this evidence does not show which end is "
        f"wrong.",
        common.cites(lines),
    )
    return dataclasses.replace(found, ranks=(), hosts=(), devices=())


def _no_way_there(frames: Frames, using: pl.DataFrame) -> Finding | None:
    """Find hosts without an interface in the subnet of the address they were given."""
    lines = frames.message("nccl.net.no_same_subnet")
    lines = lines.filter(pl.col("level").ne_missing("INFO"))
    if lines.is_empty() or all_joined(frames):
        return None
    hosts = common.hosts(lines["host"])
    bound = using.filter(pl.col("host").is_in(hosts))
    peers = common.some(common.strings(lines["peer"]), 2)
    where = common.named(hosts) or "a host"
    return _finding(
        frames,
        lines,
        "likely",
        f"{where} has no interface in the subnet of {peers}",
        f"The ranks meet at {peers}, and {where} has no interface in that network: a "
        "container on a bridge has only its own.",
        (*common.cites(lines, 4), *common.cites(bound, 2)),
    )


def _local_only(frames: Frames, using: pl.DataFrame) -> Finding | None:
    """Find hosts whose interface leads nowhere, in a job that has other hosts."""
    local = using.filter(pl.col("interface").str.contains(LOCAL_ONLY))
    if local.is_empty() or not spans_hosts(frames, using) or all_joined(frames):
        return None
    local = local.join(at_home(frames), on=["host", "pid"], how="anti")
    if local.is_empty():
        return None
    hosts = common.hosts(local["host"])
    chosen = common.strings(local["interface"])
    others = using.join(local.select("host").unique(), on="host", how="anti")
    right = common.strings(others["interface"])
    uses = "uses" if len(hosts) == 1 else "use"
    return _finding(
        frames,
        local,
        "certain" if right else "likely",
        f"{common.named(hosts)} {uses} {common.some(chosen)}"
        + (f", the others {common.some(right)}" if right else ""),
        f"{common.named(hosts)} bound {common.some(chosen)}, which reaches no other "
        f"host, in a job of several hosts.",
        (*common.cites(local, 4), *common.cites(others, 2)),
        right,
    )


def _network_differs(frames: Frames, _using: pl.DataFrame) -> Finding | None:
    """Find hosts that use another network than most, such as Socket beside IB."""
    lines = frames.message("nccl.net.selected")
    if "network" not in lines.columns or lines["host"].n_unique() < 2:
        return None
    kinds = lines.group_by("network").agg(pl.col("host").n_unique().alias("hosts"))
    if kinds.height < 2 or not _failed(frames):
        return None
    odd = lines.filter(pl.col("network") == "Socket")
    odd = odd if odd.height else _minority(lines, "network")
    hosts = common.hosts(odd["host"])
    if not hosts:
        return None
    rest = lines.join(odd.select("host").unique(), on="host", how="anti")
    mine, theirs = common.strings(odd["network"]), common.strings(rest["network"])
    uses = "uses" if len(hosts) == 1 else "use"
    return _finding(
        frames,
        odd,
        "likely",
        f"{common.named(hosts)} {uses} network {common.some(mine)}, the others "
        f"{common.some(theirs)}",
        "Ranks of one job chose different networks, which do not talk to each other.",
        (*common.cites(odd, 3), *common.cites(rest, 3)),
    )


def _subnet_differs(frames: Frames, using: pl.DataFrame) -> Finding | None:
    """Find hosts of a failed job whose interface and /16 differ from the others'."""
    if using.is_empty() or not _failed(frames) or all_joined(frames):
        return None
    placed = using.with_columns(
        pl.col("address").str.extract(r"^(\d+\.\d+)\.").alias("subnet")
    ).drop_nulls("subnet")
    odd = _minority(placed, "subnet")
    rest = placed.join(odd.select("host").unique(), on="host", how="anti")
    hosts = common.hosts(odd["host"])
    if not hosts or set(odd["interface"]) & set(rest["interface"]):
        return None
    return _finding(
        frames,
        odd,
        "likely",
        f"{common.named(hosts)} {are(len(hosts))} on "
        f"{common.some(common.strings(odd['address']), 2)}, "
        f"the others on {common.some(common.strings(rest['address']), 2)}",
        "The address that NCCL bound there shares no subnet with the other hosts'.",
        (*common.cites(odd, 3), *common.cites(rest, 3)),
        common.strings(rest["interface"]),
    )


def _own_bridge(frames: Frames, _using: pl.DataFrame) -> Finding | None:
    """Find connects of MPI to Docker's bridge, which is each machine's own."""
    lines = frames.message(*OF_MPI)
    lines = lines.filter(pl.col("peer") == DOCKER) if lines.height else lines
    if lines.is_empty():
        return None
    found = _finding(
        frames,
        lines,
        "likely",
        f"MPI was told the address of a Docker bridge ({DOCKER})",
        f"{said(lines['text'][0])} Every machine with Docker has that address itself, "
        "so no other machine answers there. Any of the processes may have published "
        "it.",
        common.cites(lines),
    )
    remedy = "mpirun --mca btl_tcp_if_exclude lo,docker0 …   # and oob_tcp_if_exclude"
    return dataclasses.replace(found, ranks=(), hosts=(), remedy=(remedy,))


def _link_local(frames: Frames, using: pl.DataFrame) -> Finding | None:
    """Find hosts of a failed job whose address is valid on one cable only.

    Hosts on one switch may reach it all the same, if their interfaces are the same.
    """
    bound = using.filter(pl.col("address").str.contains(LINK_LOCAL))
    if bound.is_empty() or not _failed(frames) or all_joined(frames):
        return None
    bound = bound.join(at_home(frames), on=["host", "pid"], how="anti")
    if bound.is_empty() or not spans_hosts(frames, using):
        return None
    where = common.named(common.hosts(bound["host"]))
    chosen = common.some(common.strings(bound["interface"]))
    return _finding(
        frames,
        bound,
        "possible",
        f"{where} bound a link-local address of {chosen}",
        f"{where} told its peers the address {bound['address'][0]}, which is valid "
        "only on the network segment of that interface.",
        common.cites(bound),
    )


def _minority(lines: pl.DataFrame, column: str) -> pl.DataFrame:
    """Return the lines of hosts whose value fewer than half of the hosts share."""
    hosts = lines["host"].n_unique()
    shares = lines.group_by(column).agg(
        (pl.col("host").n_unique() / hosts).alias("share")
    )
    odd = shares.filter(pl.col("share") < PAIRED)
    if odd.height == shares.height:
        return lines.clear()
    return lines.filter(pl.col(column).is_in(odd[column].implode()))


def _interfaces(lines: pl.DataFrame) -> tuple[str, ...]:
    return common.strings(lines["interface"]) if "interface" in lines.columns else ()


def _speeds(frames: Frames, hosts: tuple[str, ...]) -> pl.DataFrame:
    """Return what ethtool tells of interfaces of some hosts; it accuses nobody."""
    lines = frames.message("system.ethtool")
    if "speed" not in lines.columns:
        return lines.clear()
    return lines.filter(pl.col("host").is_in(list(hosts))).drop_nulls("speed")


def _speed_words(speeds: pl.DataFrame) -> str:
    if speeds.is_empty():
        return ""
    told = [
        f"{interface} of {host} runs at {speed}"
        for host, interface, speed in speeds.select("host", "interface", "speed").rows()
    ]
    return f" ethtool: {common.some(told)}."


def _remedy(
    hosts: tuple[str, ...],
    wrong: tuple[str, ...],
    right: tuple[str, ...],
    instead: str,
) -> tuple[str, ...]:
    """Return the setting to use: the other hosts' interface, or all but the wrong."""
    where = common.named(hosts) or "the host that printed it"
    but = ",".join(dict.fromkeys([*(wrong or ("docker0",)), "lo"]))
    only = quote(right[0]) if len(right) == 1 else ""
    setting = only or quote(f"^{but}")
    on = f"in place of {instead}, on {where}" if instead else "on all hosts"
    return (
        f"ip -br addr                                # on {where}",
        f"export NCCL_SOCKET_IFNAME={setting} GLOO_SOCKET_IFNAME={only}   # {on}"
        if only
        else f"export NCCL_SOCKET_IFNAME={setting}      # {on}, or the right one",
    )


def _failed(frames: Frames) -> bool:
    roles = frames["events"]["role"]
    return bool(roles.is_in(["culprit", "victim", "either"]).any())


def _finding(
    frames: Frames,
    lines: pl.DataFrame,
    confidence: Confidence,
    headline: str,
    explanation: str,
    evidence: tuple[Cite, ...],
    right: tuple[str, ...] = (),
    instead: str = "",
) -> Finding:
    hosts = common.hosts(lines["host"])
    ranks = common.numbers(lines["rank"])
    speeds = _speeds(frames, hosts)
    return Finding(
        slug="wrong-nic",
        confidence=confidence,
        headline=headline,
        evidence=(*evidence, *common.cites(speeds, 2)),
        explanation=explanation + _speed_words(speeds),
        remedy=_remedy(hosts, _interfaces(lines), right, instead),
        ranks=ranks,
        hosts=hosts,
        first_seen=common.first_seen(lines),
    )
