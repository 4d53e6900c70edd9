"""Runs the torch lab: each case once, on pretended hosts, and keeps its evidence.

A pretended host is a set of Linux namespaces (host name, network, process ids, mounts)
with the name gpu0001 and an address of 10.0.0.0/24; /job is shared by all of them.
Needs root, `unshare`, `nsenter` and `ip`, and a venv with torch whose path may be
published, by default /opt/venv; some cases need py-spy, by default the one on PATH, or
fusepy in the Python that LAB_FUSE names.

    python tests/lab/torch_run.py all | list | SLUG…
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import torch_cases_absent
import torch_cases_apart
import torch_cases_differ
import torch_cases_other

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch_case import Case

LAB = Path(__file__).parent
JOBS = LAB.parent / "fixtures" / "jobs"
CASES = torch_cases_differ.CASES + torch_cases_absent.CASES + torch_cases_other.CASES
CASES += torch_cases_apart.CASES
PING = os.environ.get("LAB_PING", "ping")
SPY = os.environ.get("LAB_SPY", "py-spy")
FUSE = os.environ.get("LAB_FUSE", sys.executable)  # a Python that has fusepy
VENV = Path(os.environ.get("LAB_VENV", "/opt/venv"))
HUNG_TASK = Path("/proc/sys/kernel/hung_task_timeout_secs")
PROGRAM = {"torch_train.py": "train.py", "torch_faults.py": "torch_faults.py"}
PORT = 29500
LONGEST_RUN_S = 120
STALLED_RUN_S = 75
HUNG_AFTER_S = 10  # instead of the 120 s of a kernel's own setting
PATIENCE_S = 12  # of whoever started the ranks by hand, once the first has ended

SET_UP_HOST = """
hostname {name}
mount --bind {shared}/hosts /etc/hosts
mount --bind {shared}/job /job
mount -t tmpfs tmpfs /tmp
mkdir /tmp/ckpt
mount -t tmpfs -o size=1m tmpfs /tmp/ckpt
echo {pid} > /proc/sys/kernel/ns_last_pid
ip link set lo up
echo ready
exec sleep infinity
"""


def host_name(node: int) -> str:
    return f"gpu{node + 1:04d}"


def address(node: int) -> str:
    return f"10.0.0.{node + 1}"


@contextmanager
def host(node: int, shared: Path) -> Iterator[int]:
    """Start a pretended host; yields the process id to enter it by."""
    script = SET_UP_HOST.format(name=host_name(node), shared=shared, pid=41000)
    kinds = ["--uts", "--net", "--mount", "--pid", "--mount-proc", "--kill-child"]
    keeper = subprocess.Popen(
        ["unshare", *kinds, "--fork", "sh", "-ec", script], stdout=subprocess.PIPE
    )
    try:
        if keeper.stdout is None or keeper.stdout.readline() != b"ready\n":
            raise RuntimeError(f"{host_name(node)} could not be set up")
        children = Path(f"/proc/{keeper.pid}/task/{keeper.pid}/children").read_text()
        yield int(children.split()[0])
    finally:
        keeper.kill()
        keeper.wait()


def inside(pid: int, command: list[str]) -> list[str]:
    return ["nsenter", "--target", str(pid), "--all", "--wdns=/job", *command]


def connect(pids: list[int]) -> None:
    """Give each host an eth0; its cable ends at the other host, or in the air."""
    far_end = ["eth0", "netns", str(pids[1])] if len(pids) > 1 else ["uplink"]
    add = ["ip", "link", "add", "eth0", "type", "veth", "peer", "name"]
    enter = ["nsenter", "--target", str(pids[0]), "--net"]
    subprocess.run([*enter, *add, *far_end], check=True)
    for node, pid in enumerate(pids):
        setup = f"ip addr add {address(node)}/24 dev eth0 && ip link set eth0 up"
        setup += "" if len(pids) > 1 else " && ip link set uplink up"
        subprocess.run(inside(pid, ["sh", "-c", setup]), check=True)


def connect_narrowly(pids: list[int]) -> None:
    """Connect two hosts of MTU 9000 by a bridge whose far port takes 1500 bytes.

    A bridge drops what does not fit without a word, as a wrongly set switch does. With
    segments of one packet each the kernel does not cut them up for it.
    """
    near = (
        *("link add eth0 type veth peer name port0", "link add switch type bridge"),
        *("addr add 10.0.0.1/24 dev eth0", "link set port0 master switch"),
        *("link set eth0 mtu 9000", "link set port0 mtu 9000"),
        f"link add port1 type veth peer name eth0 netns {pids[1]}",
        *("link set port1 master switch", "link set port1 mtu 1500"),
        "link set eth0 gso_max_segs 1",
        *(f"link set {name} up" for name in ("port0", "port1", "switch", "eth0")),
    )
    far = ("addr add 10.0.0.2/24 dev eth0", "link set eth0 mtu 9000 gso_max_segs 1")
    for pid, lines in ((pids[0], near), (pids[1], (*far, "link set eth0 up"))):
        enter = ["nsenter", "--target", str(pid), "--net", "ip"]
        for line in lines:
            subprocess.run([*enter, *line.split()], check=True)


def look_at_the_way(pids: list[int], job: Path) -> None:
    """Keep what an engineer would type: ip link of both hosts, and two pings."""
    for node, pid in enumerate(pids):
        shown = subprocess.run(
            inside(pid, ["ip", "link", "show", "eth0"]), capture_output=True, check=True
        )
        (job / f"ip-link-{host_name(node)}.txt").write_bytes(shown.stdout)
    for size in (1472, 8972):
        ping = [PING, "-M", "do", "-s", str(size), "-c", "3", "-W", "1", host_name(1)]
        tried = subprocess.run(inside(pids[0], ping), capture_output=True, check=False)
        with (job / f"ping-{host_name(0)}.txt").open("ab") as file:
            file.write(tried.stdout + tried.stderr)


@contextmanager
def stalled_mount(pid: int, job: Path) -> Iterator[None]:
    """Mount what does not answer, and keep what ps and the kernel tell of its victims.

    The kernel's own lines, less those of other programs and its release; its patience
    is shortened meanwhile.
    """
    usual = HUNG_TASK.read_text()
    HUNG_TASK.write_text(str(HUNG_AFTER_S))
    HUNG_TASK.with_name("hung_task_warnings").write_text("2")  # reports are enough
    began = time.clock_gettime(time.CLOCK_BOOTTIME)
    make = ["sh", "-c", "mount -t tmpfs tmpfs /mnt && mkdir /mnt/ckpt"]
    subprocess.run(inside(pid, make), check=True)
    serve = [FUSE, str(LAB / "stalled_mount.py"), "/mnt/ckpt"]
    server = subprocess.Popen(inside(pid, serve), stderr=subprocess.DEVNULL)
    time.sleep(1)
    try:
        yield
        show = ["ps", "-eo", "pid,stat,wchan:32,args"]
        shown = subprocess.run(inside(pid, show), capture_output=True, check=True)
        ours = [
            line for line in shown.stdout.decode().splitlines() if "train.py" in line
        ]
        head = shown.stdout.decode().splitlines()[0]
        (job / f"ps-{host_name(0)}.txt").write_text("\n".join([head, *ours, ""]))
        told = subprocess.run(["dmesg"], capture_output=True, check=True)
        (job / f"dmesg-{host_name(0)}.txt").write_text(
            hung_tasks(told.stdout.decode(), began)
        )
    finally:
        HUNG_TASK.write_text(usual)
        server.kill()


def hung_tasks(dmesg: str, began: float) -> str:
    """Return the kernel's reports of blocked tasks since `began`, of another release."""
    lines = [
        line
        for line in dmesg.splitlines()
        if (stamp := re.match(r"\[ *([\d.]+)\]", line)) and float(stamp[1]) >= began
    ]
    text = "\n".join([*lines, ""])
    release = f"tainted {os.uname().release} {os.uname().version.split()[0]}"
    return text.replace(release, "tainted 6.18.0 #1")


def command(case: Case, node: int, rank: int = 0) -> list[str]:
    """What is typed on one host, environment included; of `rank` if ranks are apart."""
    settings = {"PATH": f"{VENV}/bin:/usr/bin:/bin", "HOME": "/job", "LANG": "C.UTF-8"}
    settings["TORCH_FR_BUFFER_SIZE"] = "2000"
    if case.debug:
        settings["TORCH_DISTRIBUTED_DEBUG"] = case.debug
    if case.record:
        settings["RECORD_ERRORS"] = "1"
    train = ["train.py", case.fault, *case.train]
    train += ["--dump", case.dump] if case.dump else []
    train += ["--who", *map(str, case.who)] if case.who else []
    launcher = [
        *("torchrun", "--nproc-per-node", str(case.processes)),
        *("--log-dir", f"logs/{host_name(node)}" if case.nodes > 1 else "logs"),
    ]
    if not case.unmarked:
        launcher += ["--tee" if case.merged else "--redirects", "3"]
    if "--rdzv-backend" not in case.torchrun:
        nodes = case.nodes + (case.launch == "absent-node")
        launcher += ["--nnodes", str(nodes), "--node-rank", str(node)]
        launcher += ["--master-addr", host_name(0), "--master-port", str(PORT)]
    plain = ("python", "apart")
    launcher = ["python3"] if case.launch in plain else [*launcher, *case.torchrun]
    if case.launch == "apart":
        settings |= {"RANK": str(rank), "WORLD_SIZE": str(case.processes)}
        settings |= {"MASTER_ADDR": host_name(0), "MASTER_PORT": str(PORT)}
    pairs = [f"{name}={value}" for name, value in settings.items()]
    return ["env", "-i", *pairs, *launcher, *train]


def run(case: Case, shared: Path) -> None:
    """Run the job to its end; the launchers' output lies in /job afterwards."""
    with ExitStack() as stack:
        pids = [stack.enter_context(host(node, shared)) for node in range(case.nodes)]
        (connect_narrowly if case.narrow else connect)(pids)
        if case.busy_port:
            serve = f"import http.server as h; h.test(port={PORT}, bind='::')"
            subprocess.Popen(
                inside(pids[0], [sys.executable, "-c", serve]),
                stderr=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
            time.sleep(2)
        if case.stalled:
            stack.enter_context(stalled_mount(pids[0], shared / "job"))
        if case.launch == "apart":
            run_apart(case, pids[0], shared / "job")
            return
        agents = []
        for node, pid in enumerate(pids):
            name = (
                "job"
                if case.merged or case.unmarked
                else case.launch.replace("absent-node", "torchrun")
            )
            name += f"-{host_name(node)}" if case.nodes > 1 else ""
            output = stack.enter_context((shared / "job" / f"{name}.log").open("wb"))
            agents.append(
                subprocess.Popen(
                    inside(pid, command(case, node)),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            )
        if case.spy_after:
            until_all_joined(shared / "job", case.processes * case.nodes)
            time.sleep(case.spy_after)
            for node, pid in enumerate(pids):
                spy(pid, shared / "job" / "spy" / host_name(node))
        for agent in agents:
            with suppress(subprocess.TimeoutExpired):  # a process in state D never ends
                agent.wait(STALLED_RUN_S if case.stalled else LONGEST_RUN_S)
        if case.narrow:
            look_at_the_way(pids, shared / "job")


def run_apart(case: Case, host: int, job: Path) -> None:
    """Start each rank by itself, with a log of its own, as a script or a unit does.

    Nobody tells the others when one fails; what still runs a while later is ended with
    its host, without a word.
    """
    (job / "logs").mkdir()
    ranks = [
        subprocess.Popen(
            inside(host, command(case, 0, rank)),
            stdin=subprocess.DEVNULL,
            stdout=(job / "logs" / f"rank_{rank}.log").open("wb"),
            stderr=subprocess.STDOUT,
        )
        for rank in range(case.processes)
    ]
    until = time.monotonic() + LONGEST_RUN_S
    while all(rank.poll() is None for rank in ranks) and time.monotonic() < until:
        time.sleep(0.2)
    time.sleep(PATIENCE_S)


def until_all_joined(job: Path, ranks: int) -> None:
    """Wait until every rank has written that it is ready."""
    for _ in range(LONGEST_RUN_S):
        written = (log.read_text() for log in job.rglob("*.log"))
        if "".join(written).count(" is ready") >= ranks:
            return
        time.sleep(1)


def spy(host: int, folder: Path) -> None:
    """Dump the stacks of the training program's processes, and of their agent."""
    folder.mkdir(parents=True)
    found = subprocess.run(
        inside(host, ["pgrep", "-f", "train.py"]), capture_output=True, check=True
    )
    for pid in found.stdout.decode().split():
        # it cannot stop a process that waits in the kernel, and would wait with it
        look = ["timeout", "10", SPY, "dump", "--nonblocking", "--pid", pid]
        dumped = subprocess.run(inside(host, look), capture_output=True, check=False)
        (folder / f"{pid}.txt").write_bytes(dumped.stdout)


def collect(case: Case, job: Path, evidence: Path) -> None:
    """Move what the job left into the fixture, less what the case says is lost."""
    shutil.rmtree(evidence, ignore_errors=True)
    for program in PROGRAM.values():
        (job / program).unlink()
    shutil.rmtree(job / "__pycache__", ignore_errors=True)
    if case.merged or case.unmarked:
        shutil.rmtree(job / "logs", ignore_errors=True)
    shutil.copytree(job, evidence)
    if any(evidence.rglob(".*")):
        raise RuntimeError("a rank was ended while it wrote its dump")
    for name in case.lost:
        path = evidence / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name in case.halved:
        path = evidence / name
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])


def toml(value: str | int | bool | list[str] | list[int]) -> str:
    """Write a value as TOML; the strings here hold no control characters."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case list():
            return "[" + ", ".join(toml(item) for item in value) + "]"
        case _:
            return str(value)


def taken(evidence: Path) -> list[str]:
    """Say when the files of each look were written, which git does not keep."""
    return [
        f"{look} {datetime.fromtimestamp(written, UTC).isoformat(timespec='seconds')}"
        for look in ("first", "second")
        for written in [
            max((f.stat().st_mtime for f in evidence.glob(f"{look}/*")), default=0)
        ]
        if written
    ]


def truth(case: Case, evidence: Path) -> str:
    """The truth as TOML; a culprit's host counts only where the evidence names it."""
    seen = b"".join(path.read_bytes() for path in evidence.rglob("*.log"))
    culprits = sorted({host_name(rank // case.processes) for rank in case.ranks})
    names = " ".join(path.name for path in evidence.rglob("*")).encode()
    hosts = [name for name in culprits if name.encode() in seen + names]
    where = "1 host" if case.nodes == 1 else f"{case.nodes} hosts"
    version = (VENV / "lib").glob("python3*/site-packages/torch-*.dist-info")
    torch = next(version).name.removeprefix("torch-").removesuffix(".dist-info")
    launcher = "python" if case.launch in ("python", "apart") else "torchrun"
    processes = 1 if case.launch == "python" else case.processes * case.nodes
    with_ = f"torch {torch}, Gloo, {launcher}, {processes} processes on {where}"
    fields: dict[str, str | int | bool | list[str] | list[int] | None] = {
        "title": case.title,
        "what_happened": case.happened,
        "made_by": f"tests/lab/torch_run.py {case.slug}",
        "how": "real",
        "with": f"{with_}, {case.debug}" if case.debug else with_,
        "outcome": case.outcome,
        "class": case.failure or None,
        "also_acceptable": list(case.also),
        "ranks": list(case.ranks),
        "tie": True if case.tie else None,
        "hosts": hosts,
        "seq": case.seq,
        "op": case.op or None,
        "process_group": case.group or None,
        "taken": taken(evidence) or None,
    }
    known = ((key, value) for key, value in fields.items() if value is not None)
    return "".join(f"{key} = {toml(value)}\n" for key, value in known)


def make(case: Case) -> None:
    """Run one case and write its fixture."""
    fixture = JOBS / f"torch-{case.slug}"
    with tempfile.TemporaryDirectory() as scratch:
        shared = Path(scratch)
        (shared / "job").mkdir()
        for source, name in PROGRAM.items():
            shutil.copy(LAB / source, shared / "job" / name)
        names = [f"{address(node)} {host_name(node)}\n" for node in range(2)]
        (shared / "hosts").write_text("127.0.0.1 localhost\n" + "".join(names))
        run(case, shared)
        collect(case, shared / "job", fixture / "evidence")
    (fixture / "truth.toml").write_text(truth(case, fixture / "evidence"))


def main() -> None:
    """Make the fixtures that are asked for."""
    parser = argparse.ArgumentParser(description="Make torch fixtures.")
    parser.add_argument("slug", nargs="+", help="'all', 'list', or slugs")
    asked = set(parser.parse_args().slug)
    if "list" in asked:
        print(*(case.slug for case in CASES), sep="\n")
    Path("/job").mkdir(exist_ok=True)
    for case in CASES:
        if {"all", case.slug} & asked:
            print(case.slug, flush=True)
            make(case)


if __name__ == "__main__":
    main()
