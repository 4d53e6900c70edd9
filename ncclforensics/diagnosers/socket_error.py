"""A connection that worked broke: the peer closed, reset or refused it.

What it means
    Sockets do not fail by themselves inside a cluster. Usually the process at the other
    end is gone and its kernel closed its connections; now and then a network in between
    dropped the connection. The ranks that print an error lost a peer. The lost peer
    prints nothing.

How we know
    `Connection closed by remote peer`, `Call to recv from … failed : Connection reset
    by peer`, `Broken pipe`, `Connection refused` after all retries, Gloo's
    `Connection closed by peer`, before any timeout, exception or signal. The host that
    several ranks lost is named, and its rank where every other rank lost a peer. If the
    lines do not say which peer was lost, nobody is named. A peer that only closed, and
    that no line names, is no finding; of Gloo, which raises it as an exception, it is
    possible where the evidence is of one process, or all name one peer, and nothing
    tells of another failure.

What to do
    Read the log of the lost rank to its last line, and the kernel log of its host:
    `dmesg -T | grep -i -E 'killed process|segfault|Xid'`. If its process is still
    alive, check the network path: `ss -ti dst PEER`,
    `ethtool -S IFACE | grep -i -E 'drop|err'`.

Looks like
    Sockets close when a job ends, and when it is torn down after another failure.
    If the death itself is in the evidence, it is `crashed-rank`, `gpu-oom`, …
    A connection that was never made is `unreachable-peer`.

References
    NCCL troubleshooting, networking issues; ncclRemoteError.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs import job
from ncclforensics.evidence import common, lost_peers, teardown
from ncclforensics.model import wanted
from ncclforensics.model.findings import Finding
from ncclforensics.model.tables import TROUBLED
from ncclforensics.model.words import said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Confidence, Statement
    from ncclforensics.model.frames import Frames

FAMILY = "network"
NEEDS = ("nccl.", "c10d.", "launchers.mpi.peer_gone", "rdma.")
MISSING, NEXT_TIME = wanted.NCCL
EXPLAINS = ("timeout-masking",)
SPREADS = True

LOST = (
    *("nccl.socket.peer_closed", "nccl.socket.io_failed"),
    *("nccl.socket.connect_exhausted", "nccl.socket.connect_failed"),
    "nccl.socket.connect_failed.early",
    *("c10d.gloo.closed", "c10d.gloo.io_failed", "c10d.gloo.connect_error"),
    *("launchers.mpi.peer_gone", "c10d.store.closed", "rdma.nixl.disconnected"),
    "rdma.ucx.connect_failed",
)
# an error of a connection, not only its end; Gloo never says who lost which peer
BROKE = (
    *("nccl.socket.io_failed", "nccl.socket.connect_exhausted"),
    *("nccl.socket.connect_failed", "nccl.socket.connect_failed.early"),
    *("c10d.gloo.connect_error", "rdma.ucx.connect_failed"),
)
# exceptions that a process raises which lost the other end of a connection
RAISED = r"^(?:c10d\.(?:gloo|store)|rdma\.nixl)\."
THROWS = "python.cpp_terminate"
USING = ("nccl.bootstrap.using", "nccl.net.socket_using")
UNWINDS = ("nccl.backtrace", "nccl.backtrace.header_file")
SYSTEM_ERROR = 2
# a process prints one of these when it lost a peer, or when it shuts down in order
TOLD_OF_LOSS = ("nccl.comm.abort", "nccl.comm.destroy", "c10d.remote_error")
NO_ANSWER = (
    rf"(?i){lost_peers.NO_WAY}"
    r"|connect to \S+ failed ?: software caused connection abort"
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the peer that the other ranks lost."""
    lost = frames.message(*LOST).filter(pl.col("level").ne_missing("INFO"))
    if job.ended_in_order(frames):
        return
    if lost.is_empty():
        yield from _unwound(frames)
        return
    never_made = pl.col("message").str.contains("connect")
    lines = lost.filter(~(never_made & pl.col("text").str.contains(NO_ANSWER)))
    lines = lost_peers.with_hosts(frames, teardown.before(frames, lines))
    if lines.is_empty():
        return
    ranks = _lost_ranks(frames, lines)
    # Gloo names no host, and does not say which host an address belongs to
    of_gloo = pl.col("message").str.starts_with("c10d.")
    known = ~of_gloo | pl.col("peer_host").is_in(
        common.strings(frames["ranks"]["host"])
    )
    kept = lost_peers.ends(lines).filter(known & pl.col("host").is_not_null())
    found = lost_peers.pairs(kept)
    blame = lost_peers.blame(found)
    # who alone tells that it lost several peers may be the only one whose log is here
    alone = blame is not None and set(blame.hosts) == set(found["host"].drop_nulls())
    hosts = blame.hosts if blame and blame.how != "pair" and not alone else ()
    if ranks:
        hosts = common.hosts_of(frames, ranks) or hosts
    # a line whose prefix was stripped still names the peer that was lost
    nameless = ~of_gloo & pl.col("host").is_null()
    told = nameless & pl.col("peer_host").is_not_null()
    if kept.is_empty() and not ranks:
        # lines without a prefix show only the peer: all must have lost the same one
        named = common.strings(lines.filter(told)["peer_host"])
        hosts = named if len(named) == 1 else ()
    broke = lines.filter(pl.col("message").is_in(BROKE) | told).height > 0
    confidence: Confidence = "likely"
    if not hosts and not ranks and not broke:
        yield from _unwound(frames)
        if not _is_all(frames, lines):
            return
        confidence = "possible"
    who = common.ranks(ranks) if ranks else "a process"
    if not hosts and not ranks:
        # an address of Gloo's does not tell which host has it, nor which end broke
        at = common.hosts(lines["peer_host"])
        unnamed = "a peer that the lines do not name"
        who = f"the peer at {common.some(at)}" if at else unnamed
    where = common.on(hosts)
    printers = common.hosts(lines["host"]) or ("a rank",)
    several = len(printers) > 1 or bool(ranks) or not hosts
    did = "lost the connection to"
    why = "Nothing here shows why it was closed; usually the process there ended."
    if lines["message"].str.contains("connect").all():
        did = "could not connect to"
        why = "Usually the process there ended, or had not begun to listen."
    yield Finding(
        slug="socket-error",
        confidence=confidence if several else "possible",
        headline=f"{common.some(printers)} {did} {who}{where}",
        evidence=common.cites(lines),
        explanation=f"{common.some(printers).capitalize()} {did} {who}{where}: "
        f"{said(lines['text'][0], 160)} {why}",
        remedy=_remedy(hosts[0] if hosts else "", _interface(frames, lines)),
        ranks=ranks,
        hosts=hosts,
        devices=common.devices_of(frames, ranks),
        first_seen=common.first_seen(lines),
    )


def _is_all(frames: Frames, lines: pl.DataFrame) -> bool:
    """Whether only these lines, exceptions, tell of a failure, and of one peer.

    Of several ranks that lost different peers, those that lost none are suspects.
    """
    one = len(common.hosts(lines["peer_host"])) == 1
    several = frames["ranks"].height > 1 and not one
    if several or not lines["message"].str.contains(RAISED).all():
        return False
    bad = frames["events"].filter(pl.col("role").is_in(TROUBLED))
    bad = bad.join(lines, on=["source", "line"], how="anti")
    # C++ says what it throws in the line below
    throws = lines.select("source", pl.col("line") - 1, message=pl.lit(THROWS))
    bad = bad.join(throws, on=["source", "line", "message"], how="anti")
    ends = frames.quoted("python.traceback").rename({"line": "_head"})
    theirs = ends.join(
        lines.select("source", said_line="line"), on=["source", "said_line"]
    )
    heads = theirs.select("source", line="_head")
    return bad.join(heads, on=["source", "line"], how="anti").is_empty()


def _unwound(frames: Frames) -> Iterator[Finding]:
    """Find processes that failed in NCCL's socket code, if its WARN line is lost.

    A failure unwinds from the inside, so a process's first line is the innermost.
    """
    told = frames.message(*UNWINDS).sort("source", "line")
    if "file" not in told.columns:
        return
    key = ["source", "host", "pid"]
    first = told.unique(key, keep="first", maintain_order=True)
    mine = first.filter(
        pl.col("file").str.contains(r"(?:^|/)socket\.(?:cc|h)$")
        & (pl.col("result") == SYSTEM_ERROR)
    )
    up = frames.message("nccl.init.complete").select(key).unique()
    mine = mine.join(up, on=key, how="anti", nulls_equal=True)
    lines = teardown.before(frames, mine)
    if lines.is_empty():
        return
    who = common.named(common.hosts(lines["host"])) or "a process"
    yield Finding(
        slug="socket-error",
        confidence="likely",
        headline=f"{who} gave up a connection: {said(lines['text'][0], 80)}",
        evidence=common.cites(lines),
        explanation=f"NCCL failed on {who} in its socket code, with a system error. "
        "The lines do not say which connection failed, or why.",
        remedy=(
            "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,NET,ENV",
            "iptables -L -n; ufw status     # on each host of the job",
        ),
        first_seen=common.first_seen(lines),
    )


def _lost_ranks(frames: Frames, lines: pl.DataFrame) -> tuple[int, ...]:
    """Return the one rank of a whole communicator that does not report a lost peer.

    A log truncated while it was written is silent as well, so all other members must
    have reported one, and every member must be known.
    """
    complete = frames.message("nccl.init.complete").drop_nulls("rank")
    if "nranks" not in complete.columns or complete.is_empty():
        return ()
    members = set(common.numbers(complete["rank"]))
    told = pl.concat([lines["rank"], frames.message(*TOLD_OF_LOSS)["rank"]])
    silent = sorted(members - set(common.numbers(told)))
    is_whole = complete["nranks"].max() == len(members) > 2
    return tuple(silent) if is_whole and len(silent) == 1 else ()


def _interface(frames: Frames, lines: pl.DataFrame) -> str:
    """Return the one interface that the printing hosts use, or ""."""
    used = frames.message(*USING)
    if "interface" not in used.columns:
        return ""
    mine = used.filter(pl.col("host").is_in(lines["host"].implode()))
    names = common.strings(mine["interface"])
    return names[0] if len(names) == 1 else ""


def _remedy(host: str, interface: str) -> tuple[str, ...]:
    there = host or "the peer's host"
    card = f"; ethtool -S {quote(interface)} | grep -iE 'drop|err'" if interface else ""
    return (
        f"dmesg -T | grep -i -E 'killed process|segfault|Xid'   # on {there}",
        f"read the log of the ranks on {there} to their last line",
        f"ss -ti{f' dst {quote(host)}' if host else ''}{card}   # if the process lives",
    )
