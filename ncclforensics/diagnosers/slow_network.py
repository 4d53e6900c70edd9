"""The network works, but far slower than it could.

What it means
    A link came up at a lower speed, one host's card is slower than the same card on
    other hosts, or NCCL uses TCP although the host has InfiniBand or RoCE. Nothing
    fails. Every step takes longer on all ranks, because collectives run at the pace of
    the slowest.

How we know
    `speed change detected: 400000 -> 200000 Mbps` (NCCL 2.30); the speed of a card in
    `NET/IB: [0] mlx5_0:…` (since 2.27) below that of the same card on the other hosts;
    or `Using network Socket` on a host whose NET/IB lines list devices. The host with
    the slower card is named.

    Or by how long calls take on their last member, which waits for nobody: twice as
    long in one group or link as in its sisters, all the time. GPU times tell that, of
    dumps with `TORCH_NCCL_ENABLE_TIMING=1` or of NCCL's Inspector. If only one host is
    common to all that are slow, it is named; else nobody is named, and the members or
    the two ends are suspects. If the only sign is that calls, or the steps of a log
    (Megatron, NeMo, `dt=8.9s`), take twice as long from one on to the end, this is
    possible, and nobody is named, unless `ethtool` or `ibstat` shows one host's port
    slower than the port of that name on most hosts: then that host is named.

What to do
    `ibstat mlx5_X | grep Rate` and `mlxlink -d mlx5_X` on the named host: reseat or
    replace the cable, and check the switch port. If NCCL uses TCP in place of
    InfiniBand: `unset NCCL_IB_DISABLE NCCL_NET`, and check that the container sees
    /dev/infiniband.

Looks like
    A host that has no fast network is right to use sockets, unless `NCCL_IB_HCA` names
    cards that NCCL does not find. Hosts that chose different
    networks are `wrong-nic`. One slow GPU is `thermal-throttle`.
    Steps that save or evaluate take longer, and the next ones do not. Larger batches
    take longer as well.

References
    NCCL_IB_DISABLE, NCCL_NET, NCCL_IB_HCA.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.identity import host_blocks
from ncclforensics.correlate.steps import regular_forms
from ncclforensics.evidence import common, logged_transfers, step_times, transfers
from ncclforensics.model import wanted
from ncclforensics.model.actions import Action
from ncclforensics.model.findings import (
    MOST_SUSPECTS,
    Cite,
    Finding,
    NotChecked,
    Suspect,
)
from ncclforensics.theory import slow_jobs, slow_ranks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.evidence.transfers import Slower
    from ncclforensics.model.findings import Confidence, Statement
    from ncclforensics.model.frames import Frames

FAMILY = "network"
TABLES = ("timers.megatron.", "timers.gathered", "timers.metrics")
SHOWS = ("nccl.", *TABLES, *step_times.TIMED, "inspector.", "collectives")
NEEDS = (*SHOWS, regular_forms.LINES)
MISSING, NEXT_TIME = wanted.NCCL
EXPLAINS = ("straggler", "timeout-masking", "slow-rank")
SPREADS = True

CHANGE, CARD = "nccl.ib.speed_change", "nccl.ib.device"
PORT, CARDS = "system.ethtool", "rdma.ports"
NUMBER = "hca_port"
CHOSEN, DEVICES = "nccl.net.selected", "nccl.net.ib_using"
NO_DEVICE, HCA = "nccl.net.ib_no_device", "NCCL_IB_HCA"
ASKED = ("nccl.env", "nccl.env.set")

# why the calls that are slower than others wait for nobody
LAST = "That is the time on the member that came last, so no wait is in it"
EVEN = (
    "All of them take that long in each step, and none works longer, so they do not "
    "wait for one of them"
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the hosts with a network that is slower than it could be."""
    looks = (_slowed, _slower_card, _slower_port, _socket, _by_calls, _by_steps)
    for look in looks:
        if found := look(frames):
            yield found
            return
    # lines that count steps, and tell no time, show nothing of the network
    if not frames.tells(SHOWS) and not step_times.of_steps(frames).height:
        yield NotChecked("slow-network", MISSING, NEXT_TIME)


def _slowed(frames: Frames) -> Finding | None:
    """Find links whose last speed change left them slower than they were."""
    lines = frames.message(CHANGE)
    if lines.is_empty():
        return None
    link = ["host", "hca", "hca_port"]
    ends = lines.sort("source", "line").group_by(link, maintain_order=True)
    slow = ends.agg(pl.col("old_mbps").max(), pl.col("new_mbps").last()).filter(
        pl.col("new_mbps") < pl.col("old_mbps")
    )
    lines = lines.join(slow.select(link), on=link, how="semi", nulls_equal=True)
    if lines.is_empty():
        return None
    hca, old, new = slow.select("hca", "old_mbps", "new_mbps").row(0)
    what = f"{hca} fell from {old // 1000} to {new // 1000} Gbit/s"
    return _finding(lines, "likely", what, common.cites(lines), hca)


def _slower_card(frames: Frames) -> Finding | None:
    """Find hosts with a card slower than the card of that name on most hosts."""
    return _below_others(frames.message(CARD), "mlxlink -d")


def _slower_port(frames: Frames) -> Finding | None:
    """Find hosts with an interface slower than that of its name on most hosts.

    Only of a job that became slow: the job may not use the interface.
    """
    if not frames.tells((PORT, CARDS)):
        return None
    if step_times.slowdown(frames) is None and transfers.fallen(frames) is None:
        return None
    lines = frames.message(PORT)
    if {"interface", "speed"} <= set(lines.columns):
        told = pl.col("speed").str.extract(r"^(\d{1,9})Mb/s").cast(pl.Int64)
        ports = pl.col("interface").alias("hca"), pl.lit(None, pl.Int64).alias(NUMBER)
        speeds = lines.with_columns(told.alias("speed_mbps"), *ports)
        if found := _below_others(speeds, "ethtool"):
            return found
    cards = frames.message(CARDS)
    if not {"hca", "port", "rate"} <= set(cards.columns):
        return None
    rates = cards.filter(pl.col("state") == "ACTIVE").with_columns(
        (pl.col("rate") * 1000).alias("speed_mbps"), pl.col("port").alias(NUMBER)
    )
    return _below_others(rates, "ibstat")


def _below_others(lines: pl.DataFrame, ask: str) -> Finding | None:
    """Return the finding for `hca hca_port host speed_mbps` that differ; or None.

    `ask` is the command that shows the speed of a card.
    """
    if lines.is_empty() or lines["host"].n_unique() < 2:
        return None
    port = ["hca", "hca_port"]
    card = lines.group_by(*port, "host").agg(pl.col("speed_mbps").max())
    usual = pl.col("speed_mbps").max().over(port)
    fast = (pl.col("speed_mbps") == usual).sum().over(port)
    slow = (
        card.with_columns(usual.alias("usual"))
        .filter(2 * fast >= pl.len().over(port))
        .filter((pl.col("speed_mbps") < pl.col("usual")) & (pl.col("speed_mbps") > 0))
        .sort("host", "hca")
    )
    if slow.is_empty():
        return None
    mine = lines.join(slow, on=[*port, "host"], how="semi", nulls_equal=True)
    theirs = lines.join(slow, on=port, how="semi", nulls_equal=True)
    theirs = theirs.join(mine, on="host", how="anti")
    hca, speed, usually = slow.select("hca", "speed_mbps", "usual").row(0)
    what = (
        f"{hca} runs at {speed // 1000} Gbit/s, on the others at "
        f"{usually // 1000} Gbit/s"
    )
    evidence = (*common.cites(mine, 3), *common.cites(theirs, 2))
    return _finding(mine, "likely", what, evidence, hca, ask)


def _socket(frames: Frames) -> Finding | None:
    """Find processes that chose TCP although their host has InfiniBand, or should.

    NCCL had listed devices, or its environment names some and it found none.
    """
    chosen = frames.message(CHOSEN)
    if "network" not in chosen.columns:
        return None
    tcp = chosen.filter(pl.col("network") == "Socket")
    asked = frames.message(*ASKED)
    if "variable" in asked.columns:
        asked = asked.filter(pl.col("variable") == HCA)
    none = frames.message(NO_DEVICE)
    there = "NCCL uses TCP sockets although InfiniBand or RoCE devices are there"
    wanted_ = f"NCCL uses TCP sockets: it finds none of the devices that {HCA} names"
    for devices, also, what in (
        (frames.message(DEVICES), None, there),
        (none, asked, wanted_),
    ):
        lines = _of_one_process(tcp, devices)
        if also is not None:
            lines = _of_one_process(lines, also)
        if lines.height:
            cites = (*common.cites(lines, 3), *common.cites(devices, 2))
            return _finding(lines, "possible", what, cites, "mlx5_0")
    return None


def _of_one_process(lines: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """Return the lines of processes that also printed some others."""
    process = ["host", "pid", "source"]
    printed = others.select(process).unique()
    return lines.join(printed, on=process, how="semi", nulls_equal=True)


def _by_calls(frames: Frames) -> Finding | None:
    """Find groups or links whose calls take longer than in sisters, or than before."""
    if slow_jobs.sure(frames) is None:
        return None
    if (told := transfers.slower(frames)) is not None:
        sisters = "on other links" if told.is_message else "in its sister groups"
        sure: Confidence = "possible" if told.even else "likely"
        return _of_calls(frames, told, sisters, LAST, sure)
    slow = slow_ranks.slow(frames)
    is_even = slow is None or slow.may_be_stage
    if is_even and (told := logged_transfers.slower(frames)) is not None:
        sure = "possible" if told.even else "likely"
        return _of_calls(frames, told, "elsewhere", EVEN, sure)
    if (told := transfers.fallen(frames)) is not None:
        return _of_calls(frames, told, "before", LAST, "possible")
    return None


def _of_calls(
    frames: Frames, told: Slower, than: str, alone: str, confidence: Confidence
) -> Finding:
    """Return the finding of calls that are slower `than`; `alone`: by no wait."""
    ends = f"{common.ranks(told.ranks)}{common.on(told.hosts)}"
    who = (
        f"messages of {ends} take" if told.is_message else f"{told.op} of {ends} takes"
    )
    more = f", and so in {told.many - 1} more" if told.many > 1 else ""
    what = (
        f"{who} {told.slow_ms:,.1f} ms, {told.usual_ms:,.1f} {than}: "
        f"{told.slow_ms / told.usual_ms:.1f} times as long{more}"
    )
    hosts = told.blamed
    where = f"{common.named(hosts)}: " if hosts else ""
    test = common.some(told.hosts) if told.hosts else common.ranks(told.ranks)
    at = f"   # on {'' if told.hosts else 'the hosts of '}{test}"
    return Finding(
        slug="slow-network",
        confidence=confidence,
        headline=f"{where}{what}",
        evidence=tuple(
            Cite(*row)
            for row in told.lines.select("source", "line", "text").iter_rows()
        ),
        explanation=f"{alone}: the transfer is slow, by a link, a card, a switch port, "
        f"or the traffic of others.{_rail(frames, told)}",
        remedy=(
            Action(f"ibstat | grep -E 'CA|Rate'{at}", only="infiniband"),
            Action(f"ethtool IFACE | grep Speed{at}", only="no infiniband"),
            f"all_reduce_perf -b 1G -e 1G   # nccl-tests, {test}",
        ),
        hosts=hosts,
        suspects=() if hosts else _ends(frames, told),
    )


def _ends(frames: Frames, told: Slower) -> tuple[Suspect, ...]:
    """Return the ranks between which calls are slow, each as suspect as the others."""
    many = len(told.ranks)
    what = "messages are" if told.is_message else f"{told.op} is"
    why = f"its {what} slow; it may be the other {'end' if many == 2 else 'members'}"
    return tuple(
        Suspect(rank, common.host_of(frames, rank), round(1 / many, 3), why)
        for rank in sorted(told.ranks)[:MOST_SUSPECTS]
    )


def _rail(frames: Frames, told: Slower) -> str:
    """Say that ranks are one GPU of each host, at the same place: one rail; or ""."""
    seats = [
        place
        for host in told.hosts
        if len(home := host_blocks.whole(frames, host)) > 1
        for place, rank in enumerate(home)
        if rank in told.ranks
    ]
    # at one place, no two are of one host
    if not len(seats) == len(told.ranks) == len(told.hosts) > 1 == len({*seats}):
        return ""
    gpu = f"GPU {seats[0]} of each of their hosts"
    return f" They are {gpu}: compare the cards of that rail."


def _by_steps(frames: Frames) -> Finding | None:
    """Find a job whose steps take twice as long from one step on."""
    found = step_times.slowdown(frames)
    if found is None:
        return None
    times = found.after_ms / found.before_ms
    what = (
        f"each step takes {times:.1f} times as long since step {found.step:,}: "
        f"{found.after_ms:,.0f} ms, not {found.before_ms:,.0f}"
    )
    return Finding(
        slug="slow-network",
        confidence="possible",
        headline=what,
        evidence=common.cites(found.lines),
        explanation="The batches are as large as before. A link that came up slower "
        "does this, and so do a GPU that lowers its clocks and a data loader that "
        "lags; nothing here shows which.",
        remedy=(
            "nvidia-smi -q -d PERFORMANCE | grep -E 'GPU 0|Slowdown'   # on every host",
            Action("ibstat | grep -E 'CA|Rate'   # on every host", only="infiniband"),
            Action(
                "ethtool IFACE | grep Speed   # on every host", only="no infiniband"
            ),
            "all_reduce_perf -b 1G -e 1G   # nccl-tests, over halves of the hosts",
        ),
        first_seen=common.first_seen(found.lines[1:]),
    )


def _finding(
    lines: pl.DataFrame,
    confidence: str,
    what: str,
    evidence: tuple[Cite, ...],
    hca: str,
    ask: str = "mlxlink -d",
) -> Finding:
    hosts = common.hosts(lines["host"])
    where = f"{common.named(hosts)}: " if hosts else ""
    at = f"   # on {common.some(hosts)}" if hosts else ""
    card = quote(hca)
    return Finding(
        slug="slow-network",
        confidence="likely" if confidence == "likely" else "possible",
        headline=f"{where}{what}",
        evidence=evidence,
        explanation="Collectives go at the pace of their slowest link.",
        remedy=(
            Action(
                f"ibstat {card} | grep Rate; mlxlink -d {card}{at}", only="infiniband"
            ),
            Action(f"{ask} {card}{at}", only="no infiniband"),
            "env | grep ^NCCL_; ls /dev/infiniband   # inside the job",
            "unset NCCL_IB_DISABLE NCCL_NET",
        ),
        hosts=hosts,
        first_seen=common.first_seen(lines),
    )
