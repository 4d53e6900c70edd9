"""The NVSwitch fabric of a host is not up, so its GPUs cannot be used together.

What it means
    On machines with NVSwitch, the daemon nvidia-fabricmanager sets up the switches.
    Until then, CUDA refuses to initialise (error 802), or NCCL cannot use multicast
    over NVLink. A fabric manager whose version differs from the driver's has the same
    effect.

How we know
    CUDA error 802 `system not yet initialized`; NCCL's messages about Fabric Manager or
    NVSwitches; a `Fabric State` other than Completed; or a service that is not active.
    The hosts that print it are named; their peers wait for them. Or, in a start-up that
    hangs: the only host whose logs stop before the topology that all others printed.

What to do
    On that host, run `systemctl status nvidia-fabricmanager` and compare
    `nv-fabricmanager --version` with the driver version of `nvidia-smi`. Restart the
    service. Drain the node if `nvidia-smi -q | grep -A2 Fabric` does not say Completed.

Looks like
    `CUDA driver version is insufficient` is `driver-mismatch`: the library, not the
    switches. `UUID 0.0 … state 3` is normal on HGX machines.

References
    NVIDIA Fabric Manager user guide; CUDA error codes, cudaErrorSystemNotReady.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs import job
from ncclforensics.evidence import common, cuda_errors, startup_stop
from ncclforensics.model import wanted
from ncclforensics.model.findings import Finding
from ncclforensics.model.folding import count
from ncclforensics.model.words import said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAMILY = "platform"
NEEDS = ("events",)
MISSING, NEXT_TIME = wanted.NCCL
EXPLAINS = (
    *("crashed-rank", "missing-rank", "timeout-masking", "wrong-nic"),
    *("socket-error", "unreachable-peer", "p2p-blocked"),
)
SPREADS = True

NOT_READY = (
    *(*cuda_errors.ERRORS, "nvidia.not_initialized", "nvidia.not_ready"),
    "nvidia.not_initialized.words",
)
SAYS_802 = r"(?i)system not yet initialized|\b802\b|SystemNotReady"
SERVICE = (
    *("nvidia.fabric_manager.inactive", "nvidia.fabric_manager.error"),
    "nvidia.fabric_manager.version",
)
STATUS = "nvidia.fabric_manager.status"  # systemctl status of the service
FABRIC = ("nvidia.fabric_state", "nvidia.smi.gpu_xml")  # nvidia-smi -q, and with -x
NVLS = (
    *("nccl.nvls.bind_failed", "nccl.nvls.cuda_failure", "nccl.mnnvl.unavailable"),
    "rdma.nvshmem.multicast_failed",
)

REMEDY = (
    "systemctl status nvidia-fabricmanager          # on {}",
    "nv-fabricmanager --version; nvidia-smi --query-gpu=driver_version --format=csv",
    "systemctl restart nvidia-fabricmanager && nvidia-smi -q | grep -A2 Fabric",
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the hosts whose fabric is not up."""
    not_ready = frames.message(*NOT_READY)
    if not_ready.height:
        says_so = pl.col("text").str.contains(SAYS_802)
        not_ready = not_ready.filter(says_so & pl.col("level").ne_missing("INFO"))
    certain = [
        not_ready,
        frames.message(*SERVICE),
        _unlike(frames, STATUS, "active", r"^active"),
        *(
            _unlike(frames, message, "state", r"(?i)^(?:completed|n/?a)")
            for message in FABRIC
        ),
    ]
    shared = ["text", "t", "rank", "host", "source", "line"]
    some = [frame for frame in certain if frame.height] or certain[:1]
    lines = pl.concat([frame.select(shared) for frame in some])
    likely = _multicast(frames).select(shared)
    if lines.is_empty() and likely.is_empty():
        yield from _stopped_first(frames)
        return
    told = lines if lines.height else likely
    ranks = common.numbers(told["rank"])
    hosts = (
        common.hosts(told["host"])
        or common.hosts_of(frames, ranks)
        or common.host_of_file(frames, told)
    )
    where = common.named(hosts) if hosts else "a host that the lines do not name"
    yield Finding(
        slug="fabric-manager",
        confidence="certain" if lines.height else "likely",
        headline=f"the NVSwitch fabric is not up on {where}",
        evidence=common.cites(told),
        explanation=f"CUDA or NCCL could not use the NVSwitch fabric on {where}: "
        f"{said(told['text'][0], 160)} The fabric manager is down, still starting, or "
        f"of another version than the driver.",
        remedy=tuple(step.replace("{}", where) for step in REMEDY),
        ranks=ranks,
        hosts=hosts,
        first_seen=common.first_seen(told),
    )


def _multicast(frames: Frames) -> pl.DataFrame:
    """Return the lines of failed multicast after which their file shows no step.

    NCCL has other ways to use NVLink. If it fell back to one, the job went on. Where
    CUDA itself did not start in a process, nothing is known of the fabric.
    """
    lines = frames.message(*NVLS)
    if lines.is_empty():
        return lines
    if "error" in lines.columns:
        lines = lines.filter(pl.col("error").ne_missing("initialization error"))
    lines = lines.filter(pl.col("level").ne_missing("INFO"))
    steps = frames.message(*job.STEPS).group_by("source")
    last = steps.agg(pl.col("line").max().alias("_step"))
    told = lines.join(last, on="source", how="left", maintain_order="left")
    return told.filter((pl.col("line") > pl.col("_step")).fill_null(True))


def _unlike(frames: Frames, message: str, column: str, healthy: str) -> pl.DataFrame:
    """Return the lines of a message whose `column` does not match `healthy`."""
    lines = frames.message(message)
    if column not in lines.columns or lines.is_empty():
        return lines
    return lines.filter(~pl.col(column).str.contains(healthy))


def _stopped_first(frames: Frames) -> Iterator[Finding]:
    """Name the only host whose logs stop before the topology that others printed."""
    stop = startup_stop.first_stop(frames)
    if stop is None:
        return
    host = stop.host
    at_start = (stop.last["message"] == "nccl.init.start").all()
    words = "Init START and nothing more" if at_start else "no topology"
    yield Finding(
        slug="fabric-manager",
        confidence="likely",
        headline=f"{host} stopped first: its ranks printed {words}",
        evidence=(*common.cites(stop.last, 3), *common.cites(stop.later, 2)),
        explanation=f"Of the {stop.size:,} ranks of the communicator, those of "
        f"{count(stop.others, 'host')} went on to their network and topology, "
        f"those of {host} never did: its driver or its fabric does not answer.",
        remedy=tuple(step.replace("{}", host) for step in REMEDY),
        hosts=(host,),
        first_seen=common.first_seen(stop.last),
    )
