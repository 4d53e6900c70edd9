"""The MTU of a host or of the path to it differs, and large messages get lost.

What it means
    Small packets pass, so the job starts and its first small collectives complete. The
    first message that fills a packet never arrives, and all ranks hang in it. One host
    has an MTU of 9000 where the others or a switch have 1500, or a RoCE port has a
    different one.

How we know
    NCCL prints nothing about it. In a job that failed or hangs: hosts whose interfaces
    of the same name, or whose queue pairs, show different MTUs; a ping that reports
    `Message too long, mtu=…` or `Frag needed and DF set`, or whose large packets all
    get lost while small ones arrive. The hosts with the rarer MTU are named; of two
    hosts that differ, and of the two ends of a path, neither is. Without any MTU in the
    evidence: dumps in which all members are in a call of 64 KiB or more that nobody
    finishes, where all earlier calls between hosts were small and ended, and NCCL used
    sockets or RoCE. That is no more than `possible`.

What to do
    Between the hosts, run `ping -M do -s 8972 PEER` (9000 less headers), and again with
    -s 1472. Check `ip link show IFACE` and `ibv_devinfo | grep active_mtu`. Then set
    one MTU everywhere: `ip link set dev IFACE mtu 9000`, and on every switch port.

Looks like
    A hang in a large collective after other collectives of that size is
    `stuck-in-collective`.
    Loopback and container bridges have MTUs of their own.

References
    NCCL troubleshooting, networking; ip-link(8); ibv_devinfo(1).
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs import job
from ncclforensics.diagnosers import stuck_in_collective, wrong_nic
from ncclforensics.evidence import common, first_large_call, ping_sizes
from ncclforensics.model.findings import Finding, NotChecked
from ncclforensics.model.tables import CITE, TIME
from ncclforensics.theory import awaited, wording

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAMILY = "network"
NEEDS = (
    "system.mtu",
    "system.ip_json",
    "system.ping",
    "nccl.ib.queue_pair",
    "nccl.net.",
)
MISSING = "nothing shows an MTU: ip link, ping -M do"
NEXT_TIME = "ip link and ibv_devinfo of every host; NCCL_DEBUG_SUBSYS=INIT,NET"
EXPLAINS = (
    *("stuck-in-collective", "timeout-masking", "missing-rank", "ib-error"),
    *("socket-error", "slow-network"),
)
SPREADS = True

LINKS = ("system.mtu", "system.ip_json")
EXCEEDED, PAIR = "system.mtu_exceeded", "nccl.ib.queue_pair"
FEWEST = 2  # hosts whose MTUs can be compared
CHOSEN, DEVICES = "nccl.net.selected", "nccl.net.ib_using"
USING = ("nccl.bootstrap.using", "nccl.net.socket_using")
VERBS = 128  # ibv_mtu: 1 is 256 bytes, and each step doubles it
SCHEMA = {
    "host": pl.String(),
    "interface": pl.String(),
    "mtu": pl.Int64(),
    "text": pl.String(),
    "t": TIME,
    **CITE,
}


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the hosts whose MTU differs from that of the others, in a failed job."""
    failed = bool(job.signs_of_failure(frames)) or awaited.hangs(frames)
    tried, lost = frames.message(EXCEEDED), ping_sizes.lost(frames)
    sizes = _sizes(frames)
    seen, odd = _differing(sizes)
    few = seen.is_empty() and sizes["host"].drop_nulls().n_unique() < FEWEST
    if few and not lost.height and not tried.height:
        symptom = _by_symptom(frames) if failed else None
        yield symptom or NotChecked("mtu-mismatch", MISSING, NEXT_TIME)
        return
    tried = pl.concat([tried, lost], how="diagonal_relaxed")
    if not failed or (seen.is_empty() and tried.is_empty()):
        return
    narrow = ping_sizes.odd_host(lost)
    hosts = (narrow,) if narrow and odd.is_empty() else common.hosts(odd["host"])
    names = _interfaces(frames)
    name = quote(names[0]) if len(names) == 1 else "IFACE"
    what = "a packet of the usual size does not fit through the network"
    if seen.height:
        name = str(seen["interface"][0])
        each = seen.unique(["host", "mtu"], maintain_order=True)
        each = each.select(pl.col("host").fill_null("a host"), "mtu").sort("mtu")
        told = [f"{host} {mtu}" for host, mtu in each.rows()]
        what = f"MTUs of {name} differ: {common.some(told)}"
    elif lost.height:
        to, packet, passed = lost.select("peer", "packet", "passed").row(0)
        what = (
            f"packets of {packet:,} bytes to {to} get lost, those of {passed:,} arrive"
        )
    others = [h for h in common.hosts(seen["host"].drop_nulls()) if h not in hosts]
    tried_to = common.strings(lost["peer"])
    peer = quote(next(iter((*hosts, *others, *tried_to)), "PEER"))
    other = next((h for h in others if quote(h) != peer), "another host of the job")
    yield Finding(
        slug="mtu-mismatch",
        confidence="likely" if tried.height or hosts else "possible",
        headline=what,
        evidence=(
            *common.cites(tried, 3),
            *common.cites(frames.message(ping_sizes.ENDED), 2 if lost.height else 0),
            *common.cites(seen),
        ),
        explanation="Small messages pass, the first large one gets lost, and "
        "the ranks wait for it.",
        remedy=(
            f"ping -M do -s 8972 {peer}; ping -M do -s 1472 {peer}    # on {other}",
            *_links_of(name),
        ),
        hosts=hosts,
        first_seen=common.first_seen(tried),
    )


def _by_symptom(frames: Frames) -> Finding | None:
    """Report the first large call over sockets or RoCE, if all members hang in it."""
    network = _sockets_or_roce(frames)
    call = None if network.is_empty() else stuck_in_collective.full_call(frames)
    large = None if call is None else first_large_call.first_large(frames, call)
    if call is None or large is None:
        return None
    failing = common.collective(frames, call)
    return Finding(
        slug="mtu-mismatch",
        confidence="possible",
        headline=f"all are stuck in the first large call, {common.call_words(failing)}",
        evidence=(*large.evidence, *common.cites(network, 2)),
        explanation=f"Every member made {common.call_words(failing)} and none finished "
        f"it. {large.words}.",
        remedy=(*first_large_call.PING, *_links_of("IFACE")),
        collective=failing,
        first_seen=wording.onset(frames, call),
    )


def _sockets_or_roce(frames: Frames) -> pl.DataFrame:
    """Return the lines that show that data goes over sockets or RoCE."""
    chosen, devices = frames.message(CHOSEN), frames.message(DEVICES)
    if "network" in chosen.columns:
        tcp = chosen.filter(pl.col("network") == "Socket")
        if tcp.height:
            return tcp
    if "devices" in devices.columns:
        return devices.filter(pl.col("devices").str.contains("/RoCE", literal=True))
    return devices.clear()


def _links_of(name: str) -> tuple[str, ...]:
    return (
        f"ip link show {name}; ibv_devinfo | grep active_mtu",
        f"ip link set dev {name} mtu 9000      # on all hosts and ports",
    )


def _sizes(frames: Frames) -> pl.DataFrame:
    """Return the lines on MTUs of interfaces and devices, in SCHEMA."""
    return pl.concat([links(frames), _pairs(frames)]).drop_nulls("mtu")


def _differing(lines: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the lines on the first interface whose MTUs differ, and the odd lines.

    `lines` are those of `_sizes`. An interface has one MTU: lines of unknown hosts that
    differ are of several, and none of them is known to be odd.
    """
    kinds = pl.col("mtu").n_unique().over("interface")
    differing = lines.filter(kinds > 1).sort("interface", "host", "source", "line")
    mine = differing.filter(pl.col("interface") == pl.col("interface").first())
    if mine.is_empty():
        return mine, mine
    counts = mine.group_by("mtu").agg(pl.col("host").n_unique().alias("hosts"))
    most = counts.filter(pl.col("hosts") == pl.col("hosts").max())["mtu"]
    is_known = most.len() == 1 and not mine["host"].has_nulls()
    odd = mine.filter(pl.col("mtu") != most[0]) if is_known else mine.clear()
    return mine, odd


def _interfaces(frames: Frames) -> tuple[str, ...]:
    lines = frames.message(*LINKS)
    return common.strings(lines["interface"]) if "interface" in lines.columns else ()


def links(frames: Frames) -> pl.DataFrame:
    """Return the MTUs of interfaces that lead to other hosts: NCCL's, if known."""
    lines = frames.message(*LINKS)
    if "interface" not in lines.columns:
        return pl.DataFrame(schema=SCHEMA)
    lines = lines.drop_nulls("interface")
    # a line of JSON tells of all interfaces: quote the one that counts
    name, mtu = pl.col("interface"), pl.col("mtu")
    quoted = common.sentence('"ifname":"', name, '" … "mtu":', mtu)
    is_json = pl.col("message") == "system.ip_json"
    text = pl.when(is_json).then(quoted).otherwise("text").alias("text")
    lines = lines.with_columns(text)
    leads = ~pl.col("interface").str.contains(wrong_nic.LOCAL_ONLY)
    used = frames.message(*USING)
    if "interface" in used.columns:
        leads &= pl.col("interface").is_in(used["interface"].unique().implode())
    return lines.filter(leads).select(SCHEMA.keys())


def _pairs(frames: Frames) -> pl.DataFrame:
    """Return the MTUs of queue pairs in bytes; `interface` is the device number."""
    lines = frames.message(PAIR)
    if lines.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    number = pl.coalesce("ib_dev", "named_dev").cast(pl.String)
    return lines.with_columns(
        common.sentence("device ", number).alias("interface"),
        (VERBS * 2 ** pl.col("mtu_code")).cast(pl.Int64).alias("mtu"),
    ).select(SCHEMA.keys())
