"""A job of the lab: what is run on which host, and what truly happened then.

``run`` starts every process in its host, lets the job go on for its time, ends what
is still there (as an operator would) and leaves the logs in the evidence directory.
"""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import nccl_wheels
from nccl_hosts import Host, cluster, inside

HERE = Path(__file__).parent
GPUS_OF_A_HOST = 8
DOCKER0 = "172.17.0.1/16"
COUNT_CALLS = {"NCCL_DEBUG_SUBSYS": "INIT,ENV,COLL"}


@dataclass(frozen=True, slots=True)
class Rank:
    """One process: where it runs, what it does, and how it differs from the others."""

    host: str
    rank: int
    steps: str
    device: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    version: str | None = None
    communicator: str = "world"
    driver: bool = True
    nranks: int | None = None
    log: str | None = None


@dataclass(frozen=True, slots=True)
class Truth:
    """The part of truth.toml that an analysis is held to."""

    outcome: str
    failure: str | None = None
    also_acceptable: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """One fixture: hosts, processes, and the truth about them."""

    slug: str
    title: str
    what_happened: str
    version: str
    hosts: Mapping[str, Host]
    ranks: tuple[Rank, ...]
    truth: Truth
    environment: Mapping[str, str] = field(default_factory=dict)
    log: str = "{host}/rank_{rank}.log"
    debug_file: str | None = None
    seconds: float = 15.0
    block_buffered: bool = False
    name_service: bool = True

    def versions(self) -> list[str]:
        """Every NCCL version in the job."""
        return sorted({rank.version or self.version for rank in self.ranks})

    def nranks(self, communicator: str) -> int:
        """How many ranks that communicator should have."""
        members = {r.rank for r in self.ranks if r.communicator == communicator}
        return len(members)


def eth0(*names: str) -> dict[str, Host]:
    """Hosts with one wire each, 10.0.0.1 and up."""
    return {
        name: Host({"eth0": f"10.0.0.{number}/24"})
        for number, name in enumerate(names, start=1)
    }


def ranks_on(hosts: Iterable[str], each: int, steps: str) -> tuple[Rank, ...]:
    """The same steps on every host, ``each`` ranks a host, in order."""
    return tuple(
        Rank(host, number * each + local, steps, device=local)
        for number, host in enumerate(hosts)
        for local in range(each)
    )


def one_odd(hosts: Iterable[str], odd: Rank, steps: str) -> tuple[Rank, ...]:
    """Two ranks on every host, all alike but one."""
    alike = ranks_on(hosts, 2, steps)
    return tuple(odd if rank.rank == odd.rank else rank for rank in alike)


def start(
    job: Job, rank: Rank, holder: int, evidence: Path, scratch: Path
) -> subprocess.Popen[bytes]:
    """Start one process; what it prints goes to its log file."""
    device = rank.rank % GPUS_OF_A_HOST if rank.device is None else rank.device
    stub = nccl_wheels.LAB / "stub" / nccl_wheels.STUB_NAMES[0]
    environment = {"PATH": "/usr/bin:/bin", "NCCL_DEBUG": "INFO"}
    environment |= {**job.environment, **rank.environment}
    if job.debug_file:
        environment["NCCL_DEBUG_FILE"] = str(scratch / job.debug_file)
    command = [sys.executable, "-B", str(HERE / "nccl_call.py")]
    command += ["--rank", str(rank.rank), "--device", str(device)]
    command += ["--nranks", str(rank.nranks or job.nranks(rank.communicator))]
    command += ["--id-file", str(scratch / f"{rank.communicator}.id")]
    if rank.driver:
        command += ["--stub", str(stub)]
        environment["LD_LIBRARY_PATH"] = str(stub.parent)
    if job.block_buffered:
        command.append("--block-buffered")
    command += [str(nccl_wheels.library(rank.version or job.version))]
    command += rank.steps.split()
    log = evidence / (rank.log or job.log).format(host=rank.host, rank=rank.rank)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        return subprocess.Popen(
            inside(holder, command),
            env=environment,
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )


def wait_or_end(processes: Sequence[subprocess.Popen[bytes]], seconds: float) -> None:
    """Give the processes their time, then end the rest.

    They are stopped before they are killed, so that none sees another go.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(p.poll() is None for p in processes):
        time.sleep(0.1)
    for last_signal in (signal.SIGSTOP, signal.SIGKILL):
        for process in processes:
            process.send_signal(last_signal)
    for process in processes:
        process.wait()


def run(job: Job, evidence: Path) -> None:
    """Run the job; its logs lie in the evidence directory afterwards."""
    scratch = nccl_wheels.LAB / "run" / job.slug
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.rmtree(evidence, ignore_errors=True)
    scratch.mkdir(parents=True)
    names = scratch / "hosts" if job.name_service else None
    with cluster(job.hosts, names) as holders:
        processes = [
            start(job, rank, holders[rank.host], evidence, scratch)
            for rank in job.ranks
        ]
        wait_or_end(processes, job.seconds)
    for written in scratch.glob("nccl.*"):
        written.rename(evidence / written.name)
    shutil.rmtree(scratch)
    for log in [*evidence.rglob("*.*")]:
        if not log.stat().st_size:
            log.unlink()
    for directory in [*evidence.iterdir()]:
        if directory.is_dir() and not any(directory.iterdir()):
            directory.rmdir()
