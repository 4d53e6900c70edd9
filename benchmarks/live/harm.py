"""What is done to a running job from outside; each function gets the job."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from live.job import Job

CPU, MEMORY = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/memory")
FREEZER = Path("/sys/fs/cgroup/freezer")
PTRACE_ATTACH = 16


def stop(job: Job) -> None:
    os.kill(job.pid(2), signal.SIGSTOP)


def stop_node_2(job: Job) -> None:
    for rank in (2, 3):
        os.kill(job.pid(rank), signal.SIGSTOP)


def freeze(job: Job) -> None:
    """Freeze rank 1, as `docker pause` does."""
    group = FREEZER / f"live-{os.getpid()}"
    group.mkdir()
    (group / "cgroup.procs").write_text(str(job.pid(1)))
    (group / "freezer.state").write_text("FROZEN")


def trace(job: Job) -> None:
    """Attach to rank 1 as a debugger does, and leave it stopped."""
    calls = ctypes.CDLL(None, use_errno=True)
    if calls.ptrace(PTRACE_ATTACH, job.pid(1), None, None):
        raise OSError(ctypes.get_errno(), "ptrace")


def lose_a_route(job: Job) -> None:
    """Let node 2 throw away what goes to node 3."""
    job.nodes[1].run("ip route add blackhole 10.78.0.3/32")


def kill(job: Job) -> None:
    os.kill(job.pid(1), signal.SIGKILL)


def kill_worker(job: Job) -> None:
    main = job.pid(1)
    children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
    workers = [p for p in children if _is_worker(int(p))]
    os.kill(int(workers[0]), signal.SIGKILL)


def _is_worker(pid: int) -> bool:
    return b"resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_bytes()


def starve(job: Job) -> None:
    """Give rank 1 two hundredths of a core."""
    group = CPU / f"live-{os.getpid()}"
    group.mkdir()
    (group / "cpu.cfs_period_us").write_text("100000")
    (group / "cpu.cfs_quota_us").write_text("2000")
    (group / "cgroup.procs").write_text(str(job.pid(1)))


def limit_memory(job: Job) -> None:
    """Let rank 1 have little more memory than it has."""
    group = MEMORY / f"live-{os.getpid()}"
    group.mkdir()
    (group / "cgroup.procs").write_text(str(job.pid(1)))
    (group / "memory.limit_in_bytes").write_text(str(300 << 20))


def remove_groups() -> None:
    """Remove the control groups that were made."""
    for base in (CPU, MEMORY, FREEZER):
        group = base / f"live-{os.getpid()}"
        if base == FREEZER and group.exists():
            (group / "freezer.state").write_text("THAWED")
        for _ in range(20):
            with suppress(FileNotFoundError):
                for pid in (group / "cgroup.procs").read_text().split():
                    (base / "cgroup.procs").write_text(pid)
            with suppress(OSError):
                group.rmdir()
            if not group.exists():
                break
            time.sleep(0.1)


def narrow(job: Job) -> None:
    job.on_switch("ip link set port2 mtu 1500")


def cut(job: Job) -> None:
    job.nodes[1].run("ip link set eth0 down")


def cut_node_3(job: Job) -> None:
    job.on_switch("ip link set port3 down")


def lose_the_resolver(job: Job) -> None:
    """Let node 2 ask a resolver that answers nobody; at the start all use theirs."""
    text = "nameserver 127.0.0.1\noptions timeout:30 attempts:5\n"
    (job.folder / "resolv").write_text(text)
    job.nodes[1].run(f"mount --bind {job.folder}/resolv /etc/resolv.conf")
    (job.folder / "silent").touch()


def hold_file(job: Job) -> None:
    """Nothing more: the lock was taken before the job began."""


def never(job: Job) -> None:
    """Nothing: a rank is missing from the start."""
