"""One host's ports cannot be reached from another: no route, or no answer.

What it means
    The ranks agreed on addresses, but the connection itself was never made: there is no
    route, a firewall drops packets, or a switch port is in the wrong network. NCCL
    picks its ports at random, so an open store port (29500) proves nothing about them.

How we know
    `Connect to ADDRESS failed : No route to host`, `Network is unreachable` or
    `Connection timed out`; the same as the reason why NCCL gave up its retries; retries
    that go on to the end of the log; a connect given up in NCCL's bootstrap; Gloo's
    `connectFullMesh failed`. The host that several others cannot reach is named, or the
    host that reaches none while others reach its peer; for a single pair, the address
    that did not answer. Or two looks of `collect`: connections that are not made, or
    bytes that stand in the queue of one end and never reach the other, though its
    process lives.

What to do
    From the host that prints the error: `ip route get ADDRESS`, `ping -c 3 ADDRESS` and
    `nc -vz ADDRESS PORT`. Open all TCP ports between the nodes of the job
    (`iptables -L -n`, `ufw status`, the cloud's security group), or make sure that
    NCCL_SOCKET_IFNAME (and GLOO_SOCKET_IFNAME) names the interface that leads there.

Looks like
    A host that bound docker0 or lo is unreachable as well: that is `wrong-nic`.
    `Connection refused` comes from a host that answers: its process is gone or late.
    If the store cannot be reached before NCCL begins, it is `rendezvous-failed`.

References
    NCCL troubleshooting, networking issues; connect(2).
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.identity import world
from ncclforensics.correlate.timing import process_motion
from ncclforensics.evidence import (
    common,
    lost_peers,
    ping_sizes,
    teardown,
    undelivered,
)
from ncclforensics.model import wanted
from ncclforensics.model.findings import Finding
from ncclforensics.theory import awaited

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAMILY = "network"
NEEDS = (
    *("nccl.", "c10d.gloo.connect", "launchers.mpi.connect_failed"),
    *("collect.socket", "rdma.ucx.connect_failed"),
)
MISSING, NEXT_TIME = wanted.NCCL
EXPLAINS = (
    *("crashed-rank", "missing-rank", "timeout-masking", "socket-error"),
    *("stuck-in-collective", "rendezvous-failed"),
)
SPREADS = True

FAILED = (
    *("nccl.socket.connect_failed", "nccl.socket.connect_exhausted"),
    *("nccl.socket.connect_gave_up", "nccl.socket.connect_failed.early"),
    *("c10d.gloo.connect_error", "c10d.gloo.connect_failed"),
    *("launchers.mpi.connect_failed", "launchers.mpi.connect_failed.warned"),
    *("launchers.mpi.connect_failed.daemon", "rdma.ucx.connect_failed"),
)
RETRY = ("nccl.socket.connect_retry",)
REASONS = ("error", "timeout", "poll_error", "errno", "what")
NO_ANSWER = (
    rf"(?i){lost_peers.NO_WAY}"
    r"|timeouts|^connect timeout|software caused connection abort"
    # Gloo gives up on a pair of ranks without an error of the system
    r"|\] (?:no error|connect timeout)"
    r"|unable to complete a TCP connection"  # as Open MPI's daemons do
)
# of a connection that was not made in time, in Open MPI's words
UNMADE = r"^(?:Operation now in progress|Resource temporarily unavailable)$"
SOCKET, BOOTSTRAP = r"(?:^|/)socket\.cc$", r"(?:^|/)bootstrap\.cc$"
PENDING = "(Operation now in progress)"
# this many attempts in a row take longer than resolving an address
TRIES = 5
# up to 2.17 attempts are not counted, and each that times out takes two minutes
TIMED_OUT = "(?i)timed out"
MANY = 2  # hosts that have to print for a silent one to be the odd one


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the host that the failed connections have in common."""
    failed = _without_answer(frames.message(*FAILED))
    failed = teardown.before(frames, failed.filter(pl.col("level").ne_missing("INFO")))
    lines = failed if failed.height else _still_trying(frames)
    lines = lines if lines.height else _never_made(frames)
    if lines.is_empty():
        yield from _undelivered(frames)
        return
    lines = lost_peers.with_hosts(frames, lines)
    found = lost_peers.pairs(lines)
    blame = lost_peers.blame(found) or _silent(frames, lines)
    if blame and blame.how == "peer":
        blame = _of_one_pair(frames, blame, found, lines)
    hosts = blame.hosts if blame else ()
    ranks = common.numbers(lines.filter(pl.col("host").is_in(hosts))["rank"])
    reason = str(lines["reason"][0]).rpartition("] ")[2]
    who = _words(blame, found)
    yield Finding(
        slug="unreachable-peer",
        confidence="likely",
        headline=f"{who}: {reason}",
        evidence=common.cites(lines),
        explanation=f"{_pairs_told(found)} ({reason}), so the connection between "
        "them was never made. " + _why(blame),
        remedy=_remedy(lines),
        ranks=ranks,
        hosts=hosts,
        first_seen=common.first_seen(lines),
    )


def _undelivered(frames: Frames) -> Iterator[Finding]:
    """Find the host to and from which nothing comes, though its ranks live."""
    lines = undelivered.sockets(frames)
    # what small packets pass and large ones do not is `mtu-mismatch`
    if lines.is_empty() or ping_sizes.lost(frames).height:
        return
    if not (awaited.hangs(frames) or process_motion.standing(frames)):
        return
    host = undelivered.odd_host(frames)
    ranks = common.numbers(lines.filter(pl.col("host").eq_missing(host))["rank"])
    ranks = ranks or common.ranks_on(frames, [host] if host else [])
    pairs = lines.select("host", "peer_host").unique().sort("host", "peer_host")
    told = common.some([f"{a} to {b}" for a, b in pairs.iter_rows()])
    who = f"{host} and its peers" if host else "hosts"
    lost = undelivered.without_route(frames).filter(pl.col("host").eq_missing(host))
    routes = common.some(
        [f"{row['asked']}: {row['why_not']}" for row in lost.to_dicts()]
    )
    yield Finding(
        slug="unreachable-peer",
        confidence="likely",
        headline=f"nothing comes through between {who}",
        evidence=(*common.cites(lost, 2), *common.cites(lines, 4)),
        explanation=(f"{host} cannot send there: {routes}. " if lost.height else "")
        + f"In two looks the same connections stood: from {told}. The bytes "
        "were sent and never arrived, though the processes of both ends live."
        + (f" All of this has {host} in common." if host else ""),
        remedy=(
            f"ip -br link; ip -br addr; ip route   # on {host or 'these hosts'}",
            *_remedy(lost_peers.with_hosts(frames, lines)),
        ),
        ranks=ranks if host else (),
        hosts=(host,) if host else (),
        first_seen=None,
    )


def _without_answer(lines: pl.DataFrame) -> pl.DataFrame:
    """Add `reason`, and keep the lines whose reason is that nobody answered."""
    if lines.is_empty():
        return lines.with_columns(pl.lit(None, pl.String).alias("reason"))
    told = [pl.col(c) for c in REASONS if c in lines.columns]
    # the first column with a value wins: a poll error outranks the errno beside it
    reason = pl.coalesce(*told, pl.lit(None, pl.String))
    of_mpi = pl.col("message").str.starts_with("launchers.mpi.")
    return lines.with_columns(reason.alias("reason")).filter(
        pl.col("reason").str.contains(NO_ANSWER)
        | (of_mpi & pl.col("reason").str.contains(UNMADE))
    )


def _never_made(frames: Frames) -> pl.DataFrame:
    """Return where processes gave up a connect in the bootstrap, its WARN line lost.

    A failure unwinds from the inside: out of the socket code into the bootstrap's. The
    errno that is left is that of a connect whose answer has not come.
    """
    told = frames.message("nccl.backtrace").sort("source", "line")
    if "file" not in told.columns or frames.message("nccl.init.complete").height:
        return told.clear()
    key = ["source", "host", "pid"]
    within = pl.col("file").str.contains(BOOTSTRAP).any().over(key)
    inner = told.filter(within).unique(key, keep="first", maintain_order=True)
    mine = inner.filter(
        pl.col("file").str.contains(SOCKET) & (pl.col("tail") == PENDING)
    )
    reason = pl.col("tail").str.strip_chars("()")
    return mine.with_columns(reason.alias("reason"), peer=pl.lit(None, pl.String))


def _still_trying(frames: Frames) -> pl.DataFrame:
    """Return the last attempts of processes that kept trying and never came up."""
    tries = _without_answer(frames.message(*RETRY))
    if tries.is_empty():
        return tries
    key = ["host", "pid", "source"]
    waited = pl.col("reason").str.contains(TIMED_OUT) & (pl.len().over(key) > 1)
    counted = pl.lit(False)
    if "attempt_no" in tries.columns:
        counted = (pl.col("attempt_no") >= TRIES).fill_null(False)
        waited = waited & pl.col("attempt_no").is_null()
    tries = tries.with_columns((waited | counted).alias("_long"))
    tries = tries.sort("source", "line").unique(key, keep="last", maintain_order=True)
    up = frames.message("nccl.init.complete", "nccl.init.connected")
    tries = tries.join(up.select(key).unique(), on=key, how="anti", nulls_equal=True)
    return tries.filter("_long").drop("_long")


def _of_one_pair(
    frames: Frames, blame: lost_peers.Blame, found: pl.DataFrame, lines: pl.DataFrame
) -> lost_peers.Blame | None:
    """Return which end of the only pair is to blame, or None if it may be either.

    Every rank first connects to the process of rank 0. A third host that started there
    and prints no error has reached it, so the host that prints the error is the odd
    one. It may be either end if third hosts show nothing, if they may exist without
    logs, or if the printing host itself has no route.
    """
    printer, peer = found["host"][0], found["peer_host"][0]
    seen = frames["events"].filter(pl.col("message").str.starts_with("nccl."))
    third = set(common.hosts(seen["host"])) - {printer, peer}
    started = frames.message("nccl.init.start")
    if not third and _others_possible(started, printer):
        return None
    if not third:
        own_route = lines["reason"].str.contains("(?i)network is unreachable").all()
        return None if own_route else blame
    if printer is None or "comm_rank" not in started.columns:
        return None
    root = started.filter(pl.col("comm_rank") == 0)["host"].unique().to_list()
    troubled = set(common.strings(frames.message(*FAILED, *RETRY)["host"]))
    reached = set(common.hosts(started["host"])) & third - troubled
    return lost_peers.Blame((printer,), "odd") if root == [peer] and reached else None


def _others_possible(started: pl.DataFrame, printer: str | None) -> bool:
    """Whether the job has more ranks than two hosts like the printer's hold."""
    if "nranks" not in started.columns or started.is_empty():
        return False
    mine = started.filter(pl.col("host") == printer)["comm_rank"].n_unique()
    size = started["nranks"].max()
    return isinstance(size, int) and size > 2 * mine


def _silent(frames: Frames, lines: pl.DataFrame) -> lost_peers.Blame | None:
    """Return the host of the only one without an error, if no line tells of whom.

    Hosts are compared, or ranks where the lines do not show their hosts.
    """
    if lines["peer_host"].null_count() < lines.height:
        return None
    hosts = {*common.hosts(lines["host"])}
    left = {*common.hosts(frames["ranks"]["host"])} - hosts
    many = len(hosts)
    if not hosts:
        ranks = {*common.numbers(lines["rank"])}
        silent = world.ranks(frames) - ranks
        left = {*common.hosts_of(frames, silent)} if len(silent) == 1 else set()
        many = len(ranks)
    alone = many >= MANY and len(left) == 1
    return lost_peers.Blame((left.pop(),), "silent") if alone else None


def _words(blame: lost_peers.Blame | None, found: pl.DataFrame) -> str:
    if blame is None:
        told = [f"{a or 'a host'} cannot reach {b}" for a, b in found.iter_rows()]
        return told[0] if len(told) == 1 else "hosts cannot reach each other"
    if blame.how == "pair":
        return f"{' and '.join(blame.hosts)} cannot reach each other"
    (host,) = blame.hosts
    others = common.strings(found.filter(pl.col("peer_host") == host)["host"])
    if others:
        return f"{common.some(others)} cannot reach {host}"
    theirs = common.strings(found.filter(pl.col("host") == host)["peer_host"])
    return f"{host} cannot reach {common.some(theirs)}" if theirs else f"{host}"


def _pairs_told(found: pl.DataFrame) -> str:
    if found.is_empty():
        return "A peer that the lines do not name did not answer"
    told = [f"{a or 'a host'} to {b}" for a, b in found.iter_rows()]
    return f"Nothing answered from {common.some(told)}"


def _why(blame: lost_peers.Blame | None) -> str:
    if blame is None:
        return "The evidence does not tell which end is at fault."
    return {
        "shared": f"All of this has {blame.hosts[0]} in common.",
        "silent": f"All of this has {blame.hosts[0]} in common.",
        "odd": f"Others do reach that host, {blame.hosts[0]} does not.",
        "peer": "It is one pair: a firewall or the route of either end may cause this.",
        "pair": "It is one pair, and both ends say so: check the network between them.",
    }[blame.how]


def _remedy(lines: pl.DataFrame) -> tuple[str, ...]:
    named = {"peer", "peer_host"} <= set(lines.columns)
    known = lines.drop_nulls(["peer", "peer_host"]) if named else lines.clear()
    if known.is_empty():
        return (
            "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,NET,ENV"
            "   # tells which address it was",
            "iptables -L -n; ufw status     # on each host of the job",
            "allow all TCP ports between the nodes of a job: NCCL picks them at random",
        )
    first = known.sort("peer", "source", "line").row(0, named=True)
    peer, port = quote(first["peer"]), first.get("peer_port")
    host = first["host"] or "the host"
    return (
        f"ip route get {peer}; nc -vz {peer} {port or 29500}   # on {host}",
        f"iptables -L -n; ufw status                # on {peer} and {host}",
        "allow all TCP ports between the nodes of a job: NCCL picks them at random",
    )
