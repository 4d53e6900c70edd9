"""Runs the incidents: each job once, on pretended hosts, and keeps what it left.

    python tests/lab/incident_run.py all | list | SLUG…

The training is real torch over Gloo, the communicators are real NCCL over the stub of
`nccl_stub_cuda.c`, the agents are real torchruns. What a kernel, Slurm or a heartbeat
monitor would have written beside them comes from `incident_text.py`, and truth.toml
names those files. Needs what `torch_run.py` and `nccl_run.py` need.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

import incident_text as text
import nccl_wheels
from incident_cases import CASES
from nccl_hosts import Host, cluster, run_ip

if TYPE_CHECKING:
    from incident_case import Incident

LAB = Path(__file__).parent
INCIDENTS = LAB.parent / "fixtures" / "incidents"
VENV = Path(os.environ.get("LAB_VENV", "/opt/venv"))
PROGRAMS = ("nccl_call.py", "nccl_patch.py", "torch_train.py", "torch_faults.py")
PROGRAMS += ("incident_fork.py",)
VERSION = "2.27.5"
PORT = 29500
LONGEST_RUN_S = 90
LONGEST_START_S = 240
NEVER = re.compile(rb"/work|/root|/tmp/")


def name_of(host: int) -> str:
    return f"gpu{host + 1:04d}"


def command(case: Incident, host: int, rank: int) -> list[str]:
    """What runs on a host: its agent, or with srun one rank."""
    stub = nccl_wheels.LAB / "stub"
    settings = {
        "PATH": f"{VENV}/bin:/usr/bin:/bin",
        "HOME": "/job",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "TORCH_FR_BUFFER_SIZE": "2000",
        "GLOO_SOCKET_IFNAME": "eth0",
        "NCCL_DEBUG": "INFO",
        "LAB_STUB": str(stub / nccl_wheels.STUB_NAMES[0]),
        "LAB_NCCL": str(nccl_wheels.library(VERSION)),
        "LD_LIBRARY_PATH": str(stub),
    }
    if case.nccl_files:
        settings["NCCL_DEBUG_FILE"] = "/job/nccl/nccl.%h.%p.log"
    if case.nccl_subsystems:
        settings["NCCL_DEBUG_SUBSYS"] = case.nccl_subsystems
    if case.odd_host == host:
        settings["NCCL_SOCKET_IFNAME"] = "docker0"
    train = ["train.py", case.fault, "--who", *map(str, case.who), *case.train]
    if case.launch != "torchrun":
        settings |= {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank % case.each),
            "WORLD_SIZE": str(case.hosts * case.each),
            "MASTER_ADDR": name_of(0),
            "MASTER_PORT": str(PORT),
        }
        launcher = ["python3", "-u"]
        if case.launch == "tasks":
            output = f"logs/slurm-{text.JOB}-%t.out"
            launcher += ["incident_fork.py", str(case.each), str(rank), output]
    else:
        launcher = [
            *("torchrun", "--nproc-per-node", str(case.each)),
            *("--log-dir", f"logs/{name_of(host)}", "--redirects", "3"),
            *case.torchrun,
        ]
        if "--rdzv-backend" not in case.torchrun:
            launcher += ["--nnodes", str(case.hosts), "--node-rank", str(host)]
            launcher += ["--master-addr", name_of(0), "--master-port", str(PORT)]
    pairs = [f"{name}={value}" for name, value in settings.items()]
    return ["env", "-i", *pairs, *launcher, *train]


def inside(holder: int, told: list[str]) -> list[str]:
    entered = ["nsenter", f"--target={holder}", "--uts", "--net", "--mount"]
    return [*entered, "--wdns=/job", "--", *told]


def label(pipe: IO[bytes], rank: int, output: IO[bytes], lock: threading.Lock) -> None:
    """Copy a task's lines into the one stream, labelled as srun -l does."""
    for line in pipe:
        with lock:
            output.write(b"%d: " % rank + line.rstrip(b"\n") + b"\n")
            output.flush()


class Run:
    """A job that runs, and what happened to it."""

    def __init__(self, case: Incident, job: Path) -> None:
        self.case, self.job = case, job
        self.holders: dict[str, int] = {}
        self.processes: list[subprocess.Popen[bytes]] = []
        self.ended: list[tuple[str, int, str]] = []
        self.stopped = 0.0

    def start(self) -> None:
        """Start an agent on each host, or a task for each rank."""
        case, lock = self.case, threading.Lock()
        stream = (self.job / f"slurm-{text.JOB}.out").open("ab")
        for host in range(case.hosts):
            holder = self.holders[name_of(host)]
            for local in range(case.each if case.launch == "srun" else 1):
                rank = host * case.each + local
                if case.launch == "srun":
                    output: IO[bytes] | int = subprocess.PIPE
                elif case.launch == "tasks":
                    output = stream
                else:
                    log = f"torchrun-{name_of(host)}.log"
                    output = (self.job / log).open("wb")
                process = subprocess.Popen(
                    inside(holder, command(case, host, rank)),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
                self.processes.append(process)
                if process.stdout is not None:
                    told = (process.stdout, rank, stream, lock)
                    threading.Thread(target=label, args=told, daemon=True).start()

    def wait(self) -> None:
        """Wait for the end, or bring it about."""
        case, began = self.case, time.time()
        ready = began
        longest = LONGEST_RUN_S + (LONGEST_START_S if case.launch == "tasks" else 0)
        while time.time() - began < longest:
            all_ready = len([*self.job.glob(".ready.*")]) == case.hosts * case.each
            if not all_ready and case.odd_host is None:
                ready = time.time()
            if case.stop_after and time.time() - ready > case.stop_after:
                break
            if all(p.poll() is not None for p in self.processes):
                return
            done = any(p.poll() is not None for p in self.processes)
            if case.launch != "torchrun" and done and not case.stop_after:
                time.sleep(12)  # srun --wait: the others speak first
                break
            time.sleep(0.2)
        self.stopped = time.time()
        if case.stop == "node" and case.lost_host is not None:
            self.lose(case.lost_host)
            time.sleep(20)
        for last in (signal.SIGTERM, signal.SIGKILL):
            for process in self.processes:
                if process.poll() is None:
                    process.send_signal(last)
            time.sleep(3)
        for process in self.processes:
            process.wait()

    def lose(self, host: int) -> None:
        """Take a host off the network and end what runs there."""
        holder = self.holders[name_of(host)]
        run_ip(holder, "link set eth0 down")
        here = os.readlink(f"/proc/{holder}/ns/uts")
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                there = os.readlink(entry / "ns" / "uts")
            except OSError:
                continue
            if there == here and int(entry.name) != holder:
                os.kill(int(entry.name), signal.SIGKILL)


def beside(run: Run, began: float) -> list[str]:
    """Write what is rendered; return the names of the files that hold it."""
    case, job = run.case, run.job
    everything = "\n".join(
        p.read_text(errors="replace") for p in sorted(job.rglob("*")) if p.is_file()
    )
    at: dict[int, tuple[float, int]] = {}
    for rank in case.who:
        note = job / f".fault.{rank}"
        if note.exists():
            when, pid = note.read_text().split()
            at[rank] = (float(when), int(pid))
    culprit = case.who[0]
    when, pid = at.get(culprit, (began, 0))
    home = culprit // case.each
    extra: list[tuple[float, str]] = []
    if case.fault_text == "xid":
        extra = text.xid(text.bus_id(everything, culprit), pid)
    elif case.fault_text == "oom":
        extra = text.oom_kill(pid)
    elif case.fault_text == "harmless":
        extra = [
            (2, "NVRM: Xid (PCI:0000:07:00): 63, pid=1201, name=nvidia-smi, "
             "Row Remapper: New row marked for remapping"),
            (3, "mlx5_core 0000:18:00.0 ib0: Link down"),
            (9, "mlx5_core 0000:18:00.0 ib0: Link up"),
        ]  # fmt: skip
    rendered = []
    for host in range(case.hosts):
        if not case.kernel or host == case.lost_host:
            continue
        name = f"{case.kernel}-{name_of(host)}.log"
        mine = [(when + after, line) for after, line in extra] if host == home else []
        (job / name).write_text(
            text.kernel_log(name_of(host), began, mine, case.kernel)
        )
        rendered.append(name)
    if case.fault_text == "gil":
        (log,) = job.glob(
            f"logs/{name_of(home)}/*/attempt_0/{culprit % case.each}/stderr.log"
        )
        with log.open("a") as file:
            file.write(text.stuck(culprit, when + 480, 480))
        rendered.append(str(log.relative_to(job)))
    if case.launch != "torchrun":
        stream = job / f"slurm-{text.JOB}.out"
        labels = "labels, and " if case.launch == "srun" else ""
        rendered.append(f"{stream.name} ({labels}lines of srun and slurmstepd)")
        with stream.open("a") as file:
            file.write(slurm_lines(run, culprit, home))
    if case.stop == "node" and case.lost_host is not None:
        lost = name_of(case.lost_host)
        noticed = text.moment(run.stopped + 17, fraction=True)
        (job / "slurmctld.log").write_text(
            f"[{text.moment(began, fraction=True)}] sched: Allocate JobId={text.JOB} "
            f"NodeList=gpu[0001-000{case.hosts}] #CPUs=64 Partition=train\n"
            f"[{noticed}] error: Nodes {lost} not responding, setting DOWN\n"
            f"[{noticed}] Killing JobId={text.JOB} on failed node {lost}\n"
        )
        rendered.append("slurmctld.log")
    return rendered


def slurm_lines(run: Run, culprit: int, home: int) -> str:
    """Return what srun and slurmstepd say at the end of the step."""
    case = run.case
    if case.stop == "preemption":
        return text.cancelled(name_of(0), run.stopped, "DUE TO PREEMPTION")
    if case.stop == "node":
        lost = name_of(case.lost_host or 0)
        return f"srun: error: Node failure on {lost}\n"
    if case.launch == "tasks":
        names = [name_of(host) for host in range(case.hosts)]
        return text.step_failed(names, case.each, culprit, run.stopped)
    if not case.slurm_says:
        return text.cancelled(name_of(0), run.stopped) if run.stopped else ""
    says = text.task_ended(name_of(home), culprit, case.slurm_says)
    if case.fault_text == "oom":
        says = (
            f"slurmstepd: error: Detected 1 oom_kill event in StepId={text.JOB}.0. "
            "Some of the step tasks have been OOM Killed.\n" + says
        )
    return says + "srun: Job step aborted: Waiting up to 32 seconds for job step.\n"


def keep(case: Incident, job: Path, evidence: Path) -> None:
    """Move what the job left into the fixture, less what is lost, damaged or rotated."""
    for name in (*PROGRAMS, "train.py"):
        (job / name).unlink()
    for left in [*job.rglob(".*"), job / "ckpt", job / "__pycache__"]:
        shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)
    shutil.rmtree(evidence, ignore_errors=True)
    for file in sorted(job.rglob("*")):
        if file.is_file() and not file.stat().st_size:
            file.unlink()
    shutil.copytree(job, evidence)
    for pattern in case.remove:
        for path in [*evidence.glob(pattern)]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for pattern in case.halve:
        for path in evidence.glob(pattern):
            whole = path.read_bytes()
            path.write_bytes(whole[: len(whole) // 2])
    for pattern in case.compress:
        for path in [*evidence.glob(pattern)]:
            packed = gzip.compress(path.read_bytes(), mtime=0)
            path.with_name(path.name + ".gz").write_bytes(packed)
            path.unlink()
    for host in case.pack:
        first = case.each * (int(host.removeprefix("gpu")) - 1)
        dumps = [evidence / f"fr/nccl_trace_rank_{first + n}" for n in range(case.each)]
        pack([dump for dump in dumps if dump.exists()], evidence / f"fr/{host}.tar.gz")
    for path in evidence.rglob("*"):
        if path.is_file() and NEVER.search(path.read_bytes()):
            raise SystemExit(f"{path} names this machine")


def pack(files: list[Path], archive: Path) -> None:
    """Move files into an archive, as somebody collects them."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        for file in files:
            member = tarfile.TarInfo(file.name)
            member.size, member.mtime = file.stat().st_size, int(file.stat().st_mtime)
            tar.addfile(member, io.BytesIO(file.read_bytes()))
            file.unlink()
    archive.write_bytes(gzip.compress(held.getvalue(), mtime=0))


def truth(case: Incident, rendered: list[str]) -> str:
    """Return the truth as TOML."""
    count = case.hosts * case.each
    launcher = "torchrun" if case.launch == "torchrun" else "a process for each task"
    if case.launch == "tasks":
        launcher += " (forked, eight from one interpreter)"
    told: dict[str, object] = {
        "title": case.title,
        "what_happened": case.happened,
        "made_by": f"tests/lab/incident_run.py {case.slug}",
        "how": "real, but for what `rendered` lists",
        "with": f"torch 2.13.0+cpu over Gloo, NCCL {VERSION} over a stub of CUDA, "
        f"{launcher}, {count} ranks on {case.hosts} host namespaces",
        "rendered": rendered,
        "lost": [*case.remove, *(f"half of {name}" for name in case.halve)],
        "outcome": case.outcome,
    }
    if case.failure:
        told["class"] = case.failure
    told["also_acceptable"] = case.also
    told["ranks"] = case.ranks
    told["hosts"] = [name_of(host) for host in case.at]
    if case.seq is not None:
        told["seq"] = case.seq
    if case.group:
        told["process_group"] = case.group
    if case.may_name_nobody:
        told["may_name_nobody"] = True
    if case.second:
        told["second_class"], told["second_rank"] = case.second
    # what JSON writes of strings, numbers and lists is TOML as well
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in told.items())


def make(case: Incident) -> None:
    """Run one incident and write its fixture."""
    scratch = nccl_wheels.LAB / "run" / case.slug
    shutil.rmtree(scratch, ignore_errors=True)
    job = scratch / "job"
    (job / "nccl").mkdir(parents=True)
    if case.launch == "tasks":
        (job / "logs").mkdir()
    (job / "ckpt").mkdir()
    for name in PROGRAMS:
        shutil.copy(LAB / name, job / name)
    shutil.copy(LAB / "incident_train.py", job / "train.py")
    hosts = {}
    for host in range(case.hosts):
        wires = {"eth0": f"10.0.0.{host + 1}/24"}
        if case.odd_host is not None:
            wires["docker0"] = "172.17.0.1/16"
        hosts[name_of(host)] = Host(wires)
    run = Run(case, job)
    began = time.time()
    with cluster(hosts, scratch / "hosts") as holders:
        run.holders = holders
        for host, holder in holders.items():
            mount = ["nsenter", f"--target={holder}", "--mount", "--"]
            subprocess.run([*mount, "mount", "--bind", str(job), "/job"], check=True)
            if case.small_disk is not None and host == name_of(case.small_disk):
                disk = ["mount", "-t", "tmpfs", "-o", "size=1m", "disk", "/job/ckpt"]
                subprocess.run([*mount, *disk], check=True)
        run.start()
        run.wait()
    time.sleep(0.5)
    rendered = beside(run, began)
    folder = INCIDENTS / case.slug
    keep(case, job, folder / "evidence")
    (folder / "truth.toml").write_text(truth(case, rendered))
    shutil.rmtree(scratch)


def main() -> None:
    """Make the incidents that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("slug", nargs="+", help="'all', 'list', or slugs")
    asked = set(parser.parse_args().slug)
    if "list" in asked:
        print(*(case.slug for case in CASES), sep="\n")
    Path("/job").mkdir(exist_ok=True)
    nccl_wheels.stub()
    for case in CASES:
        if {"all", case.slug} & asked:
            print(case.slug, flush=True)
            make(case)


if __name__ == "__main__":
    main()
