"""InfiniBand or RoCE failed: a link went down, or transfers got no answer.

What it means
    A network card gave up a transfer, or reports that its port, queue or firmware is in
    error. Status 12 means that the other side never acknowledged: its link, the switch,
    a wrong GID, ACS, or a process that is gone. Status 13: the other side was not ready
    to receive. Status 4: this side's memory registration. Status 9 to 11: the other
    side refused.

How we know
    `Got completion … with status=12` and its spellings since NCCL 2.4, `ibv_modify_qp
    failed`, an async `port error` or fatal event, a device marked as failed, `mlx5_core
    … Link down`. A port that reports itself names its host. For failed transfers, the
    host that most of the failed pairs share is named; for a single pair, the peer,
    because it did not answer. Where no peer is printed, and only one
    host reports, it is that host.

What to do
    On the named host: `ibstat`, `ibstatus`, `mlxlink -d mlx5_X`, `dmesg | grep mlx5`,
    `show_gids` (RoCE). For the fabric: `ibdiagnet`. Replace the cable or drain the
    host. For RoCE check NCCL_IB_GID_INDEX; a slow fabric needs NCCL_IB_TIMEOUT=22.

Looks like
    Status 5 (flush) follows every other failure and by itself blames nobody.
    After a rank died or timed out, its peers' transfers fail too: an echo.
    `port active`, `client reregistration` and the like are recoveries, although they
    are logged as WARN. A port that `ibstat` shows down, and counters of `perfquery`,
    `ethtool -S` and the like, are states, maybe older than the job: they accuse nobody.

References
    NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT, NCCL_IB_GID_INDEX; ibv_wc_status;
    ibv_get_async_event(3).
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import (
    common,
    kernel_log,
    lost_peers,
    port_state,
    teardown,
)
from ncclforensics.model import wanted
from ncclforensics.model.actions import Action
from ncclforensics.model.findings import Finding, NotChecked
from ncclforensics.model.tables import with_nulls
from ncclforensics.model.words import said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Confidence, Statement
    from ncclforensics.model.frames import Frames

FAMILY = "network"
LOGS = ("nccl.", "kernel.nic", "rdma.", "launchers.mpi.abort")
NEEDS = (*LOGS, "system.mtu")
MISSING, NEXT_TIME = wanted.NCCL
EXPLAINS = ("crashed-rank", "missing-rank", "timeout-masking", "socket-error")
SPREADS = True

COMPLETION = (
    *("nccl.ib.completion_error", "rdma.ucx.completion", "rdma.completion"),
    *("rdma.ucx.verbs_completion", "rdma.mooncake.completion"),
    *("rdma.ucx.completion.early", "rdma.perftest.completion"),
    *("rdma.mscclpp.completion", "rdma.gloo.completion"),
)
# libfabric has status numbers of its own; most of these lines name no peer
FABRIC = (
    *("rdma.ofi.failed", "rdma.efa.failed", "nccl.ib.no_device_left"),
    *("rdma.cxi.failed", "rdma.mlx5.completion", "launchers.mpi.abort"),
    "rdma.efa.failed.early",
)
CONNECT = (
    *("nccl.ib.modify_qp_failed", "rdma.modify_qp_failed"),
    "rdma.nvshmem.connect_failed",
)
# lines in which a host reports its own device
OWN = ("nccl.ib.port_event", "nccl.ib.device_failed", "rdma.ucx.port_event")
OF_KERNEL = ("kernel.nic_health", "kernel.nic_stuck")
CALLS = (
    *("nccl.ib.call_failed", "nccl.ib.call_failed.early"),
    "rdma.ucx.call_failed",
)
TRANSFERS = (*COMPLETION, *CONNECT, *CALLS, *FABRIC)
LINK = ("kernel.nic_link",)
RECOVERED = ("nccl.ib.port_recovered", "rdma.ucx.port_recovered")
FLUSH = 5
MANY = 2  # lines without a time count as early if this many hosts fail together
INVALID = (19, 22, 61)  # no such device, no such GID: this side's own configuration
INVALID_SAYS = r"(?i)^(?:invalid argument|no such device|no data available)"
LOCAL = (1, 2, 4, 8)  # length, queue, protection, access: errors of this side
REPORTS = "Only that host reports it, and no line names its peer; either may be broken."
FAILED = (
    *(*COMPLETION, *CONNECT, *CALLS, *FABRIC),
    *("c10d.watchdog.timeout", "nccl.ib.comm_fatal"),
)
MEANS = {
    4: "memory that this side registered was refused",
    5: "flushed after another failure",
    9: "the peer refused the request",
    10: "the peer refused the access to its memory",
    11: "the peer could not do the transfer",
    12: "the peer never acknowledged",
    13: "the peer was not ready to receive",
}
SHARED = ["text", "t", "rank", "host", "device", "source", "line", "hca"]

# captures that are read of lines
EVENT = dict.fromkeys(("hca", "event"), pl.String())
LINK_EVENT = dict.fromkeys(("state", "interface", "event"), pl.String())
FAILURE = {
    **dict.fromkeys(("hca", "error", "peer", "remote_gid", "network"), pl.String()),
    **dict.fromkeys(("status", "code", "errno", "setup_code"), pl.Int64()),
}


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the host that reports its own device, else the one most pairs share."""
    if not frames.tells((*OWN, *OF_KERNEL, *LINK, *TRANSFERS)):
        yield from _shown(frames)
        return
    own = _own(frames)
    failed = _failed(frames)
    if own.is_empty() and failed.is_empty():
        yield from _shown(frames)
        return
    confidence: Confidence
    named = common.hosts(own["host"]) or common.host_of_file(frames, own)
    if own.height and named:
        hosts, confidence = named, "certain"
        why = "Its own device reports it."
        if failed.height:
            why += f" Transfers failed as well (lines: {failed.height:,})."
    elif failed.is_empty():
        hosts, confidence = (), "likely"
        why = "The device of a host that the lines do not name reports it."
    else:
        hosts, confidence, why = _by_majority(failed, lost_peers.pairs(failed))
    told = pl.concat([own.select(SHARED), failed.select(SHARED)])
    mine = told.filter(pl.col("host").is_in(hosts)) if hosts else told
    cards = common.strings(mine["hca"])
    down = _down(frames, common.strings(told["hca"]))
    which = f" ({common.some(cards)})" if cards else ""
    reports = why == REPORTS
    where = f" at {common.named(hosts)}{which}" if hosts and not reports else ""
    says = f", as {common.named(hosts)} reports{which}" if reports else ""
    what = _what(own, failed)
    # the ranks that use the failed port lose their transfers, too
    reporting = told if len(hosts) == 1 else own.select(SHARED)
    ranks = common.numbers(reporting.filter(pl.col("host").is_in(hosts))["rank"])
    yield Finding(
        slug="ib-error",
        confidence=confidence,
        headline=f"IB or RoCE failed{where}: {what}{says}"[:200],
        evidence=(
            *common.cites(own, 4),
            *common.cites(failed, 4),
            *common.cites(down, 2),
        ),
        explanation=f"{said(told['text'][0])} {why}{_down_words(down)}",
        remedy=_remedy(failed, hosts, cards),
        hosts=hosts,
        ranks=() if reports else ranks,
        first_seen=common.first_seen(told),
        reports=reports,
    )


def _down(frames: Frames, cards: tuple[str, ...]) -> pl.DataFrame:
    """Return what tools show of the failed cards.

    A state, so it accuses nobody: the report only tells it beside what failed.
    """
    names = [card.partition(":")[0] for card in cards]
    return port_state.defects(frames).filter(pl.col("hca").is_in(names))


def _down_words(down: pl.DataFrame) -> str:
    return f" A tool shows {port_state.told(down)}." if down.height else ""


def _shown(frames: Frames) -> Iterator[NotChecked]:
    """Tell what tools show of ports, which accuses nobody."""
    if (odd := port_state.defects(frames)).height:
        yield NotChecked(
            "ib-error",
            f"{port_state.SHOWN}{port_state.told(odd)}",
            "dmesg -T of that host: when its links went down",
        )
    elif not any(name.startswith(LOGS) for name in frames.messages):
        yield NotChecked("ib-error", MISSING, NEXT_TIME)


def _own(frames: Frames) -> pl.DataFrame:
    """Return the lines in which a host reports its own device, if it did not recover.

    Columns `SHARED` and `event`.
    """
    lines = teardown.before(frames, frames.message(*OWN))
    lines = lines.filter(pl.col("level").ne_missing("INFO"))
    lines = with_nulls(lines, EVENT)
    told = frames.message(*OF_KERNEL, *LINK)
    links = kernel_log.of_this_job(frames, told).filter(~pl.col("is_far"))
    links = with_nulls(links, LINK_EVENT)
    sick = links.filter(pl.col("message").is_in(OF_KERNEL))
    sick = sick.with_columns(pl.col("interface").alias("hca"))
    lines = pl.concat([lines.select(*SHARED, "event"), sick.select(*SHARED, "event")])
    down = links.filter(pl.col("message").is_in(LINK))
    down = down.with_columns(pl.col("interface").alias("hca"))
    down = down.filter(pl.col("state").str.contains(port_state.DOWN))
    if frames.message(*FAILED).height:
        down = down.with_columns(pl.lit("link down").alias("event"))
        return pl.concat([lines, down.select(*SHARED, "event")])
    # a port that came back, in a job that lost no transfer, was only a flap
    back = with_nulls(frames.message(*RECOVERED), EVENT)
    back = back.filter(pl.col("event") == "port active").select(
        "host", "hca", pl.lit("port error").alias("event")
    )
    key = ["host", "hca", "event"]
    return lines.join(back.unique(), on=key, how="anti", nulls_equal=True)


def _failed(frames: Frames) -> pl.DataFrame:
    """Return the failed transfers and connections, with `peer_host` and `status`."""
    lines = frames.message(*TRANSFERS)
    lines = with_nulls(lines, FAILURE)
    # MPI aborts for many reasons, and its rank only reports what the network did
    of_mpi = pl.col("message") == "launchers.mpi.abort"
    lines = lines.filter(~of_mpi | pl.col("network").is_not_null())
    lines = lines.with_columns(pl.when(~of_mpi).then("rank").alias("rank"))
    # RoCE's GID holds the peer's IPv4 address
    address = pl.col("remote_gid").str.extract(r"(?i)^::ffff:([\d.]+)$")
    lines = lines.with_columns(pl.coalesce("peer", address).alias("peer"))
    lines = lines.filter(pl.col("level").ne_missing("INFO"))
    first = lines.filter(pl.col("status").ne_missing(FLUSH))
    # flushes alone still show a failure, whose own line is missing
    lines = first if first.height else lines
    return lost_peers.with_hosts(frames, teardown.before(frames, lines, MANY))


def _by_majority(
    failed: pl.DataFrame, found: pl.DataFrame
) -> tuple[tuple[str, ...], Confidence, str]:
    """Return the hosts to blame, how sure that is, and why."""
    if failed["status"].eq_missing(FLUSH).all():
        return (), "likely", "They were flushed: the failure before them is not here."
    code = pl.coalesce("code", "errno")
    local = (
        pl.col("status").is_in(LOCAL).fill_null(False)
        | pl.col("message").is_in(CALLS)
        | pl.col("setup_code").is_not_null()
        | (
            pl.col("message").is_in(CONNECT)
            & (
                code.is_in(INVALID).fill_null(False)
                | pl.col("error").str.contains(INVALID_SAYS).fill_null(False)
            )
        )
    )
    if failed.select(local.all()).item():
        hosts = common.hosts(failed["host"])
        return hosts, "likely", "The call failed on this side of the wire."
    reporters = common.hosts(failed["host"])
    if not failed["peer_host"].count() and len(reporters) == 1:
        # no line names a peer: the host that reports is where to look first
        return reporters, "likely", REPORTS
    blame = lost_peers.blame(found)
    told = common.some([f"{a or '?'} -> {b}" for a, b in found.iter_rows()])
    connecting = failed["message"].is_in(CONNECT).all()
    if blame is None or (blame.how == "peer" and connecting):
        pairs = f" ({told})" if told else ""
        return (), "likely", f"Which end is at fault is not in the evidence{pairs}."
    if blame.how == "pair":
        why = f"Both ends of one link report it ({told}): card, cable or switch port."
        return blame.hosts, "possible", why
    if blame.how == "peer":
        why = f"Only {told} is seen: the end that did not answer is named."
        return blame.hosts, "likely", why
    return blame.hosts, "likely", f"The failed pairs have it in common: {told}."


def _what(own: pl.DataFrame, failed: pl.DataFrame) -> str:
    """Return the failure in a few words, as the lines put it."""
    if own.height:
        event = own["event"].drop_nulls()
        return str(event[0] if event.len() else own["text"][0].rpartition(": ")[2])
    statuses = common.numbers(failed["status"])
    if statuses:
        words = [f"status {s}, {MEANS.get(s, 'see ibv_wc_status')}" for s in statuses]
        return common.some(words, 2)
    error = failed["error"].drop_nulls()
    if "call" in failed.columns and (called := failed["call"].drop_nulls()).len():
        return f"{called[0]}" + (f" ({error[0]})" if error.len() else "")
    call, fails, _ = str(failed["text"][0]).partition(" failed")
    call = call.rpartition(" ")[2]
    if not fails and error.len():
        return str(error[0])
    return f"{call} failed" + (f" ({error[0]})" if error.len() else "")


def _remedy(
    failed: pl.DataFrame, hosts: tuple[str, ...], cards: tuple[str, ...]
) -> tuple[str | Action, ...]:
    where = hosts[0] if hosts else "both ends"
    card = quote(cards[0].split(":")[0]) if cards else ""
    look = f"; mlxlink -d {card}" if card else ""
    at = f"      # on {where}"
    both = pl.concat([failed["host"], failed["peer_host"]])
    ends = [h for h in common.strings(both) if h not in hosts[:1]]
    other = ends[0] if ends else "another host"
    first, second = (where, other) if hosts or len(ends) < 2 else ends[:2]
    measure = f"ib_write_bw; ib_write_bw {quote(first)}      # there, then on {second}"
    codes = {*common.numbers(failed["code"]), *common.numbers(failed["errno"])}
    gid = "show_gids; export NCCL_IB_GID_INDEX=3   # RoCE v2, all hosts"
    slow = "export NCCL_IB_TIMEOUT=22             # only for a slow fabric"
    return (
        Action(f"ibstat {card}".rstrip() + look + at, only="infiniband"),
        Action(f"rdma link{look}{at}", only="no infiniband"),
        *((gid,) if codes & {22, 110, 61} else ()),
        *((measure,) if hosts or len(ends) > 1 else ()),
        f"dmesg -T | grep -i -E 'mlx5|infiniband'{at}",
        *((slow,) if 12 in failed["status"] else ()),
    )
