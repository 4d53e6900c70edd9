"""NCCL variables that must be equal on all ranks of a job differ between them.

What it means
    Every rank computes NCCL's rings, transports and protocols by itself and relies on
    all others to get the same result. If only some ranks have a variable set, their
    results differ: they fail while they connect, or wait for each other forever.

How we know
    `… set by environment to …` with different values on ranks of one job; or on some
    ranks of a host and not on others that got as far, or on a few hosts and not on
    others that print other variables. Where the environment of the processes was
    collected, it shows for all ranks what is set and what is not. Only variables that
    all ranks must agree on count, and only where the job failed or hangs.

What to do
    Set the variable for the whole job: in the script that every node runs, with
    `mpirun -x`, or with `srun --export=ALL`. Look for it in /etc/nccl.conf,
    ~/.nccl.conf and ~/.bashrc of the odd host.

Looks like
    Values that each node may choose for itself: interfaces, HCAs, file names, debug
    settings.
    A host that chose the wrong interface is `wrong-nic`.

References
    NCCL environment variables; nccl.conf.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import common, environments
from ncclforensics.model import wanted
from ncclforensics.model.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAMILY = "launch"
NEEDS = ("nccl.env", "environment.")
MISSING, NEXT_TIME = wanted.NCCL
EXPLAINS = ("crashed-rank", "missing-rank", "timeout-masking", "collective-mismatch")
SPREADS = True

# variables on which all ranks must agree; the others may differ between nodes. With
# TORCH_DISTRIBUTED_DEBUG a rank makes calls that check the others'
SHARED = (
    r"^TORCH_DISTRIBUTED_DEBUG$|^TORCH_NCCL_USE_COMM_NONBLOCKING$"
    r"|^[RN]CCL_(?:ALGO|PROTO|NTHREADS|(?:MIN|MAX)_NCHANNELS|(?:MIN|MAX)_CTAS|BUFFSIZE"
    r"|(?:LL|LL128)_BUFFSIZE|P2P_DISABLE|P2P_LEVEL|P2P_DIRECT_DISABLE|SHM_DISABLE"
    r"|IB_DISABLE|NET|NET_PLUGIN|CROSS_NIC|COLLNET_ENABLE|NVLS_ENABLE|MNNVL_ENABLE"
    r"|CUMEM_ENABLE|CUMEM_HOST_ENABLE|COMM_SPLIT_SHARE_RESOURCES|PXN_DISABLE"
    r"|NVB_DISABLE|CHECKS_DISABLE|P2P_NET_CHUNKSIZE|NCHANNELS_PER_NET_PEER"
    r"|NET_SHARED_BUFFERS|GRAPH_FILE|LL_THRESHOLD|TREE_THRESHOLD|SINGLE_RING_THRESHOLD"
    r"|IGNORE_DISABLED_P2P|RUNTIME_CONNECT|WORK_FIFO_BYTES|NVLSTREE_MAX_CHUNKSIZE)$"
)
# printed only by ranks that have already read their variables
FAR = ("nccl.comm.layout", "nccl.init.connected", "nccl.init.complete")
BAD = ("culprit", "victim", "either")
FEW = 0.5  # the odd ranks are fewer than this share of all


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the ranks whose variables differ from those of the others."""
    failed = frames["events"].filter(pl.col("role").is_in(BAD)).height
    if not failed and frames["calls"].is_empty():
        return
    read = frames.message("nccl.env", "nccl.env.set", environments.VARIABLE)
    if read.is_empty():
        return
    told = (
        read.filter(pl.col("variable").str.contains(SHARED))
        .drop_nulls("rank")
        .unique(["rank", "variable", "value"], keep="first", maintain_order=True)
    )
    odd = [
        found
        for (name,), part in told.group_by(["variable"], maintain_order=True)
        if (found := _odd(frames, str(name), part)) is not None
    ]
    if not odd:
        return
    lines = pl.concat(odd)
    ranks = common.numbers(lines["rank"])
    hosts = common.hosts_of(frames, ranks)
    said = lines.select("variable", "value").unique(maintain_order=True).rows()
    words = common.some([f"{name}={value}" for name, value in said])
    who = common.ranks(ranks)
    verb = "have" if len(ranks) > 1 else "has"
    where = common.on(hosts)
    yield Finding(
        slug="inconsistent-env",
        confidence="likely",
        headline=f"{who} alone {verb} {words}"[:200],
        evidence=common.cites(lines),
        explanation=f"{who.capitalize()}{where} {verb} {words}; the other ranks do "
        "not. All ranks have to agree on it.",
        remedy=(
            f"unset {quote(said[0][0])}   # for {who}, or set it for all",
            "grep -H NCCL_ /etc/nccl.conf ~/.nccl.conf ~/.bashrc   # on "
            + (common.some(hosts) or "the host of that rank"),
            "srun --export=ALL   # or: mpirun -x VARIABLE, for each of them",
        ),
        ranks=ranks,
        hosts=hosts,
        devices=common.devices_of(frames, ranks),
        first_seen=common.first_seen(lines),
    )


def _odd(frames: Frames, name: str, told: pl.DataFrame) -> pl.DataFrame | None:
    """Return the lines of the few ranks that differ in one variable, or None."""
    columns = ("variable", "value", "rank", "t", "text", "source", "line")
    values = told.group_by("value").agg(pl.col("rank").n_unique()).sort("rank")
    if values.height == 2 and values["rank"][0] < values["rank"][1]:
        return told.filter(pl.col("value") == values["value"][0]).select(columns)
    if values.height != 1:
        return None
    known = environments.ranks(frames)
    if unset := known - set(common.numbers(told["rank"])):
        few = told["rank"].n_unique() < len(unset)
        return told.select(columns) if few else None
    # a missing line means "not set" only for ranks that came as far, on the same host,
    # or on hosts alike that print such lines as well
    mine = {*common.numbers(told["rank"])}
    homes = common.hosts_of(frames, [*mine])
    far = {*common.numbers(frames.message(*FAR)["rank"])} - mine
    speak = {*common.numbers(frames.message("nccl.env")["rank"])}
    without = far & {*common.ranks_on(frames, homes)} if len(homes) == 1 else set()
    if not without and _are_alike(frames):
        without = far & speak
    if len(mine) >= FEW * (len(mine) + len(without)):
        return None
    return told.select(columns)


def _are_alike(frames: Frames) -> bool:
    """Whether all hosts have as many ranks: then NCCL reads the same on each."""
    many = frames["ranks"].drop_nulls("host").group_by("host").len()["len"]
    return many.n_unique() == 1
