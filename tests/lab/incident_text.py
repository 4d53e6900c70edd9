"""What a kernel or Slurm would have written beside a job of the lab: rendered text.

Nothing here was printed by the program that it looks like. The formats are those that
the kernel, NVIDIA's driver and Slurm use; times, hosts, pids and bus ids are those of
the job that really ran.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

JOB = 50917
SOUND = (
    (-5400, "mlx5_core 0000:18:00.0 ib0: Link up"),
    (-3600, "perf: interrupt took too long (2503 > 2500), lowering rate to 79000"),
    (-900, "EXT4-fs (nvme0n1p2): re-mounted. Quota mode: none."),
    (600, "audit: type=1400 audit(1.0:29): apparmor=\"STATUS\" name=\"docker-default\""),
)  # fmt: skip


def kernel_log(
    host: str, began: float, lines: list[tuple[float, str]], style: str
) -> str:
    """Return a kernel log: what every host prints, and some lines with their times."""
    told = sorted([(began + after, text) for after, text in SOUND] + lines)
    return "".join(f"{_stamp(host, t, style)} {text}\n" for t, text in told)


def _stamp(host: str, t: float, style: str) -> str:
    moment = datetime.fromtimestamp(t, UTC)
    if style == "dmesg":
        return moment.strftime("[%a %b %d %H:%M:%S %Y]")
    return f"{moment.isoformat(timespec='microseconds')} {host} kernel:"


def xid(bus_id: str, pid: int) -> list[tuple[float, str]]:
    """Return the lines of a GPU that fell off the bus, seconds before it showed."""
    bus = int(bus_id, 16)
    pci = f"{bus >> 20:04x}:{bus >> 12 & 0xFF:02x}:{bus >> 4 & 0xFF:02x}"
    return [
        (-1.2, f"NVRM: GPU at PCI:{pci}: GPU-6a1f0c52-0000-4000-8000-0a1b2c3d4e5f"),
        (
            -1.2,
            f"NVRM: Xid (PCI:{pci}): 79, pid={pid}, name=python3, GPU has fallen off "
            "the bus.",
        ),
        (-1.1, f"NVRM: GPU {pci}.0: GPU has fallen off the bus."),
        (
            -0.9,
            f"NVRM: Xid (PCI:{pci}): 154, GPU recovery action changed from 0x0 (None) "
            "to 0x2 (Node Reboot Required)",
        ),
    ]


def oom_kill(pid: int) -> list[tuple[float, str]]:
    """Return what the kernel says when it kills a process for its job's memory."""
    return [
        (
            -0.3,
            "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, "
            "oom_score_adj=0",
        ),
        (
            -0.2,
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=step_0,"
            f"mems_allowed=0-1,oom_memcg=/slurm/job_{JOB},task_memcg=/slurm/job_{JOB}"
            f"/step_0,task=python3,pid={pid},uid=1000",
        ),
        (
            -0.1,
            f"Memory cgroup out of memory: Killed process {pid} (python3) "
            "total-vm:201326592kB, anon-rss:104857600kB, file-rss:1024kB, "
            "shmem-rss:0kB, UID:1000 pgtables:300000kB oom_score_adj:0",
        ),
    ]


def moment(t: float, fraction: bool = False) -> str:
    """Return a time as Slurm's daemons print it."""
    text = datetime.fromtimestamp(t, UTC).isoformat(timespec="milliseconds")
    return text[:23] if fraction else text[:19]


def cancelled(host: str, t: float, cause: str = "") -> str:
    """Return what slurmstepd says when a step is cancelled."""
    why = f" {cause}" if cause else ""
    return (
        f"slurmstepd: error: *** STEP {JOB}.0 ON {host} CANCELLED AT {moment(t)}"
        f"{why} ***\n"
    )


def task_ended(host: str, task: int, end: str) -> str:
    """Return what srun says of a task that ended."""
    return f"srun: error: {host}: task {task}: {end}\n"


def step_failed(hosts: list[str], each: int, culprit: int, t: float) -> str:
    """Return what srun says where all tasks but one ended, and it then ends that one."""
    told = []
    for number, host in enumerate(hosts):
        first = number * each
        tasks = f"{first}-{first + each - 1}"
        if first <= culprit < first + each:
            parts = [(first, culprit - 1), (culprit + 1, first + each - 1)]
            tasks = ",".join(
                f"{a}-{b}" if a < b else f"{a}" for a, b in parts if a <= b
            )
        told.append(f"srun: error: {host}: tasks {tasks}: Exited with exit code 1\n")
    told.insert(1, f"srun: Terminating StepId={JOB}.0\n")
    told.append(cancelled(hosts[0], t))
    return "".join(told) + task_ended(hosts[culprit // each], culprit, "Killed")


def stuck(rank: int, t: float, seconds: int) -> str:
    """Return what a heartbeat monitor of NCCL's watchdog prints of a lost GIL."""
    stamp = datetime.fromtimestamp(t, UTC).strftime("%m%d %H:%M:%S.%f000")
    group = f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]"
    where = f"[rank{rank}]:[E{stamp} ProcessGroupNCCL.cpp"
    return (
        f"{where}:1685] {group} ProcessGroupNCCL's watchdog got stuck for {seconds} "
        "seconds without making progress in monitoring enqueued collectives. This "
        "typically indicates a NCCL/CUDA API (e.g., CudaEventDestroy) hang blocking "
        "the watchdog, and could be triggered by another thread holding the GIL inside "
        "a CUDA api (for example, CudaEventDestroy), or other deadlock-prone "
        "behaviors.\n"
        f"{where}:1350] {group} Could not acquire GIL within 300 ms on exit, possible "
        "GIL induced hang\n"
    )


def bus_id(log: str, rank: int) -> str:
    """Return the bus id that NCCL printed for a rank."""
    found = re.search(
        rf"rank {rank} nranks \d+ cudaDev \d+ nvmlDev \d+ busId (\w+)", log
    )
    if found is None:
        raise LookupError(f"NCCL printed no bus id of rank {rank}")
    return found[1]
