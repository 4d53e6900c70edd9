"""GPUs of one host cannot reach each other directly, though NCCL or CUDA expects it.

What it means
    Peer access over NVLink or PCIe is refused or broken: PCIe ACS or an IOMMU sends the
    traffic through the root complex, a virtual machine hides the topology, an NVLink is
    down, or CUDA IPC is not allowed between the containers of the ranks.

How we know
    `P2P is disabled between NVLINK connected GPUs A and B`, CUDA's `peer access is not
    supported between these two devices` (217) as an error, `cudaIpcGetMemHandle
    failed`; or `lspci` with `ACSCtl: SrcValid+`, or RCCL's `Missing "iommu=pt"`, where
    all ranks hang in one collective or somebody says beside it that the job hangs.
    The host that prints it is named.

What to do
    On the named host, run `nvidia-smi topo -p2p r` and `nvidia-smi nvlink -s`. Switch
    off ACS (`setpci -s BRIDGE ECAP_ACS+0x6.w=0000`), and set the IOMMU to passthrough
    (`iommu=pt`). Run once with NCCL_P2P_DISABLE=1: if the job works then, this is the
    cause.

Looks like
    INFO `Could not enable P2P between dev A and dev B` comes from a probe and is
    healthy: NCCL then uses shared memory. A hang without any of these signs is
    `stuck-in-collective`.

References
    NCCL troubleshooting, GPU-to-GPU communication; NCCL_P2P_DISABLE, NCCL_P2P_LEVEL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs import unknown_failures
from ncclforensics.evidence import common, cuda_errors
from ncclforensics.model import wanted
from ncclforensics.model.findings import Finding
from ncclforensics.model.words import said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAMILY = "platform"
NEEDS = ("events",)
MISSING, NEXT_TIME = wanted.NCCL
EXPLAINS = (
    *("crashed-rank", "missing-rank", "timeout-masking", "socket-error"),
    "stuck-in-collective",
)
SPREADS = True

DISABLED = (
    *("nccl.p2p.disabled", "nccl.ipc_failed", "nccl.ipc_failed.early"),
    *("nccl.peer_failed", "python.cuda_error.peer.words"),
)
SAYS = r"(?i)peer access is not supported|peer access (?:has not been|is not) enabled"
OPEN = ("system.acs_on", "nccl.iommu")  # traffic goes through the root complex
SHARED = ["text", "t", "rank", "host", "source", "line"]


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the hosts on which GPUs cannot reach each other."""
    if not frames.tells((*cuda_errors.ERRORS, *DISABLED, *OPEN)):
        return
    refused = frames.message(*cuda_errors.ERRORS).filter(
        pl.col("text").str.contains(SAYS)
    )
    lines = pl.concat(
        [frames.message(*DISABLED).select(SHARED), refused.select(SHARED)]
    )
    told = frames["events"].filter(pl.col("level") == "INFO").select("source", "line")
    lines = lines.join(told, on=["source", "line"], how="anti")
    seen = lines if lines.height else _redirected(frames)
    if seen.is_empty():
        return
    ranks = common.numbers(seen["rank"])
    hosts = common.hosts(seen["host"]) or common.hosts_of(frames, ranks)
    where = common.on(hosts)
    at = f"   # on {common.some(hosts)}" if hosts else ""
    yield Finding(
        slug="p2p-blocked",
        confidence="likely" if lines.height else "possible",
        headline=f"GPUs{where} cannot reach each other directly (P2P)",
        evidence=common.cites(seen),
        explanation=f"{said(seen['text'][0])} NCCL wants to copy between the GPUs"
        f"{where} without the host, and that is refused or does not arrive.",
        remedy=(
            f"nvidia-smi topo -p2p r; nvidia-smi nvlink -s{at}",
            "export NCCL_P2P_DISABLE=1    # once, as a test: slow, but it tells",
            "for b in $(lspci | grep 'PCI bridge' | cut -d' ' -f1); do "
            f"setpci -s $b ECAP_ACS+6.w=0000; done   # as root{where}: "
            "ACS is off until it boots",
        ),
        ranks=ranks,
        hosts=hosts,
        first_seen=common.first_seen(seen),
    )


def _redirected(frames: Frames) -> pl.DataFrame:
    """Return the lines on ACS or the IOMMU, if a group hangs in one call.

    Or if a person says of a log without a word of a call that the job hangs.
    """
    lines = frames.message(*OPEN).select(SHARED)
    calls = frames["calls"]
    stuck = calls.filter(
        (pl.col("waiting").list.len() == pl.col("members").list.len())
        & (pl.col("members").list.len() > 1)
    )
    said = unknown_failures.lines(frames)["message"] == unknown_failures.OF_PERSON
    is_so = stuck.height or (calls.is_empty() and said.any())
    return lines if is_so else lines.clear()
