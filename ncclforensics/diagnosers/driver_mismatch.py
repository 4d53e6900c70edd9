"""The NVIDIA driver of a host is missing or does not support the CUDA of this job.

What it means
    The image's user-space CUDA needs a newer kernel driver than the host has; or the
    driver was upgraded under a running system; or the container was started without
    its GPUs, so libcuda is missing.

How we know
    `CUDA driver version is insufficient for CUDA runtime version` (35), `The NVIDIA
    driver on your system is too old`, `system has unsupported display driver / cuda
    driver combination` (803), `forward compatibility was attempted on non supported
    HW` (804), `API call is not supported in the installed CUDA driver` (36), or NVML's
    `Driver/library version mismatch`. The hosts that print one of them are named.

What to do
    Run `nvidia-smi` on the named host: its `CUDA Version` must be at least the image's
    (`python -c "import torch; print(torch.version.cuda)"`). After an upgrade, reboot or
    reload the kernel modules. In a container, use `docker run --gpus all`; the image's
    compatibility package has to fit the driver.

Looks like
    Error 802, `system not yet initialized`, is `fabric-manager`.
    torch's warning `Found no NVIDIA driver` on a machine without GPUs, such as a login
    node, is not a failure of the job.

References
    CUDA compatibility guide; cudaError_t 35, 36, 803, 804.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

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
MISSING, NEXT_TIME = wanted.LOGS
EXPLAINS = (
    *("crashed-rank", "missing-rank", "timeout-masking", "socket-error"),
    *("unreachable-peer", "wrong-nic", "rendezvous-failed"),
)
SPREADS = True

MESSAGES = (
    *(*cuda_errors.ERRORS, "python.driver_old", "nccl.driver_old"),
    *("nvidia.nvml_failed", "system.container_failed"),
    *("nvidia.smi.no_driver", "nvidia.api_mismatch"),
    *("nvidia.driver_combination", "nvidia.forward_compatibility"),
    "nccl.nvml.failure",
)
SAYS = (
    r"(?i)driver version is insufficient|driver on your system is too old"
    r"|unsupported display driver / cuda driver combination|Found no NVIDIA driver"
    r"|(?:error|err:|failure:) 803\b"
    r"|forward compatibility was attempted on non supported|please update your driver"
    r"|Driver/library version mismatch|nvml error: driver not loaded"
    r"|NVIDIA-SMI has failed|kernel module has (?:the )?version"
    r"|load library failed: libnvidia-ml"
    r"|CUDA driver is a stub library|compiled with an unsupported toolchain"
    r"|not supported in the installed CUDA driver"
    r"|Driver version found is \d+\. Minimum requirement"
)
# torch goes on after this, without CUDA, as on a machine without GPUs
WARNS = r"Warning: .*(?:Found no NVIDIA driver|driver on your system is too old)"

REMEDY = (
    'python -c "import torch; print(torch.version.cuda)"       # what the image wants',
    "ldconfig -p | grep libcuda   # in the container: docker run --gpus all",
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the hosts whose driver does not fit, or is missing."""
    lines = frames.message(*MESSAGES)
    if lines.is_empty():
        return
    lines = lines.filter(
        pl.col("text").str.contains(SAYS)
        & ~pl.col("text").str.contains(WARNS)
        & pl.col("level").ne_missing("INFO")
    )
    if lines.is_empty():
        return
    ranks = common.numbers(lines["rank"])
    hosts = (
        common.hosts(lines["host"])
        or common.hosts_of(frames, ranks)
        or common.host_of_file(frames, lines)
    )
    who = common.named(hosts) if hosts else common.ranks(ranks) if ranks else ""
    where = f" on {who}" if who else ""
    yield Finding(
        slug="driver-mismatch",
        confidence="certain",
        headline=f"the NVIDIA driver{where} does not fit this CUDA, or is not there",
        evidence=common.cites(lines),
        explanation=f"{said(lines['text'][0])} Every process there fails at its first "
        "call of CUDA; the other hosts wait for it.",
        remedy=(
            f"nvidia-smi | grep -E 'Driver|CUDA'; lsmod | grep nvidia{_on(hosts)}",
            *REMEDY,
        ),
        ranks=ranks,
        hosts=hosts,
        first_seen=common.first_seen(lines),
    )


def _on(hosts: tuple[str, ...]) -> str:
    return f"   # on {common.some(hosts)}" if hosts else ""
