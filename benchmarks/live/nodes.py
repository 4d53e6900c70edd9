"""Nodes of a cluster, out of the namespaces of one machine, and a switch between them.

Each has processes, mounts, a name and a network of its own: eth0, to which the others
answer, dead0, which leads nowhere, and sshd. All share the files. Ending a node's first
process ends everything on it, and its network with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

KINDS = ("net", "uts", "ipc", "mount", "pid")
SET_UP = """
hostname {name}
ip link set lo up
mount --bind {job}/hosts /etc/hosts
mount -t tmpfs shm /dev/shm
echo ready
exec sleep infinity
"""
SSHD = """Port 22
HostKey {job}/ssh/host
PidFile {job}/ssh/{name}.pid
AuthorizedKeysFile {job}/ssh/id.pub
StrictModes no
PermitRootLogin yes
UsePAM no
SetEnv PATH={path} PYTHONPATH={pythonpath}
"""
CLIENT = """Host gpu*
User root
IdentityFile {job}/ssh/id
UserKnownHostsFile /dev/null
LogLevel ERROR
StrictHostKeyChecking no
"""


@dataclass(frozen=True)
class Node:
    """One node: its name, address, and first process as this machine sees it."""

    name: str
    address: str
    pid: int

    def command(self, *words: str | Path) -> list[str]:
        """Return the command line that runs `words` on the node."""
        enter = ["nsenter", "--target", str(self.pid), "--all", "--wdns=/"]
        return [*enter, *map(str, words)]

    def start(self, *words: str | Path, **how: object) -> subprocess.Popen[bytes]:
        """Start a command on the node."""
        return subprocess.Popen(self.command(*words), **how)  # type: ignore[call-overload, no-any-return]

    def run(self, line: str) -> None:
        """Run a line of a shell on the node; raises where it fails."""
        subprocess.run(self.command("sh", "-ec", line), check=True)

    def processes(self) -> list[int]:
        """Return the pids of its processes as this machine sees them."""
        own = os.readlink(f"/proc/{self.pid}/ns/pid")
        found = []
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and os.readlink(f"/proc/{name}/ns/pid") == own:
                    found.append(int(name))
            except OSError:
                continue
        return sorted(found)

    def rank(self, rank: int) -> int:
        """Return the pid of a rank's topmost Python process."""
        told = tuple(
            f"\0{name}={rank}\0".encode()
            for name in ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
        )
        for pid in self.processes():
            try:
                environment = b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
                command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            is_program = b"python" in command[0] and b"train.py" in command[-2]
            if is_program and any(name in environment for name in told):
                return pid
        raise RuntimeError(f"{self.name} has no rank {rank}")


@contextmanager
def cluster(many: int, job: Path) -> Iterator[list[Node]]:
    """Set up nodes gpu0001, … and the switch between them, until it is left."""
    names = [f"gpu{n:04d}" for n in range(1, many + 1)]
    addresses = [f"10.78.0.{n}" for n in range(1, many + 1)]
    lines = [f"{a} {n}" for a, n in zip(addresses, names, strict=True)]
    (job / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
    with ExitStack() as stack:
        switch = stack.enter_context(_namespace("switch", job))
        script = f"nsenter --target {switch} --net ip"
        _ip(script, "link add br0 type bridge", "link set br0 up mtu 9000")
        nodes = []
        for name, address in zip(names, addresses, strict=True):
            pid = stack.enter_context(_namespace(name, job))
            port, far = f"port{len(nodes) + 1}", f"netns {pid}"
            _ip(
                script,
                f"link add {port} mtu 9000 type veth peer name eth0 mtu 9000 {far}",
                f"link set {port} master br0 up",
                f"link add void{len(nodes) + 1} type veth peer name dead0 {far}",
                f"link set void{len(nodes) + 1} up",
            )
            # with segments of one packet each the kernel does not cut them up
            _ip(
                f"nsenter --target {pid} --net ip",
                f"addr add {address}/24 dev eth0",
                "link set eth0 up gso_max_segs 1",
                f"addr add 10.1.{len(nodes) + 1}.1/24 dev dead0",
                "link set dead0 up",
            )
            nodes.append(Node(name, address, pid))
        yield [*nodes, Node("switch", "", switch)]


def _ip(enter: str, *lines: str) -> None:
    for line in lines:
        subprocess.run([*enter.split(), *line.split()], check=True)


@contextmanager
def _namespace(name: str, job: Path) -> Iterator[int]:
    kinds = [f"--{kind}" for kind in KINDS]
    words = ["unshare", *kinds, "--fork", "--mount-proc", "--kill-child"]
    keeper = subprocess.Popen(
        [*words, "sh", "-ec", SET_UP.format(name=name, job=job)], stdout=subprocess.PIPE
    )
    try:
        assert keeper.stdout is not None
        if keeper.stdout.readline() != b"ready\n":
            raise RuntimeError(f"{name} could not be set up")
        children = Path(f"/proc/{keeper.pid}/task/{keeper.pid}/children").read_text()
        yield int(children.split()[0])
    finally:
        keeper.send_signal(signal.SIGKILL)
        keeper.wait()


def serve_ssh(nodes: Sequence[Node], job: Path) -> Path:
    """Start sshd on each node; returns a folder with an `ssh` that reaches them."""
    folder, path = job / "ssh", job / "bin"
    folder.mkdir()
    path.mkdir(exist_ok=True)
    Path("/run/sshd").mkdir(exist_ok=True)
    for key in ("host", "id"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key]
        subprocess.run(words, check=True)
    (folder / "config").write_text(CLIENT.format(job=job))
    (path / "ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {folder}/config "$@"\n')
    (path / "ssh").chmod(0o755)
    told = {"path": os.environ["PATH"], "pythonpath": os.environ.get("PYTHONPATH", "")}
    for node in nodes:
        text = SSHD.format(job=job, name=node.name, **told)
        (folder / f"{node.name}.conf").write_text(text)
        node.run(f"/usr/sbin/sshd -f {folder}/{node.name}.conf")
    return path
