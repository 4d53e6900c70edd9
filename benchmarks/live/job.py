"""One job on a cluster: started by its launcher, harmed, collected and ended."""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from live import harm, nodes, ray_cluster, slurm
from live.cases import RANKS

if TYPE_CHECKING:
    import subprocess
    from types import TracebackType

    from live.cases import Case

LIVE = Path(__file__).parent
STALLED = LIVE.parents[1] / "tests/lab/stalled_mount.py"
START_S = 240
SECRET = "0123456789abcdef0123456789abcdef01234567"
ENDS_S = 60
SILENT_RESOLVER = """import socket, time
asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asked.bind(("127.0.0.1", 53))
time.sleep(3600)"""
# all nodes share a kernel: its log is told on the node at fault, from the job on
KERNEL = """#!/bin/sh
grep -qw "$(hostname)" {job}/kernel || exit 0
since=$(date -u -r {job}/kernel +%Y-%m-%dT%H:%M:%S)
/usr/bin/dmesg "$@" | awk -v since="$since" '$1 >= since'
"""


class Job:
    """A job of four ranks; a context that ends all its processes and networks."""

    def __init__(
        self,
        case: Case,
        folder: Path,
        fuse: str,
        step: int = 20,
        *,
        again: bool = False,
    ) -> None:
        """Begin with an empty folder; `fuse` is a Python that has fusepy.

        The fault comes behind `step`, and `again` after as many steps.
        """
        self.case, self.folder, self.fuse = case, folder, fuse
        self.step, self.again = step, again
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "logs").mkdir(parents=True)
        self.stack = ExitStack()
        self.launched: list[subprocess.Popen[bytes]] = []
        self.ray = ""  # the address of its head

    def __enter__(self) -> Job:
        *self.nodes, self.switch = self.stack.enter_context(
            nodes.cluster(self.case.nodes, self.folder)
        )
        self.stack.callback(harm.remove_groups)
        self.path = nodes.serve_ssh(self.nodes, self.folder)
        (self.path / "dmesg").write_text(KERNEL.format(job=self.folder))
        (self.path / "dmesg").chmod(0o755)
        hosts = {self.nodes[r * len(self.nodes) // RANKS].name for r in self.case.ranks}
        (self.folder / "kernel").write_text(" ".join(sorted(hosts)))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stack.close()
        for process in self.launched:
            process.kill()
            process.wait()

    def environment(self, rank: int | None = None) -> dict[str, str]:
        """Return the variables of the job, or those of one rank of it."""
        told = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0"}
        told |= {"MASTER_ADDR": self.nodes[0].address, "MASTER_PORT": "29561"}
        told |= {"JOB": str(self.folder), "FAULT": self.case.name}
        told |= {"STEP": str(self.step)} | ({"AGAIN": "1"} if self.again else {})
        told |= {"TORCH_FR_BUFFER_SIZE": "2000", "WANDB_API_KEY": SECRET}
        told |= {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE": f"{self.folder}/pipe_"}
        told |= {"TORCH_FR_DUMP_TEMP_FILE": f"{self.folder}/comm_lib_trace_rank_"}
        told["FAULT"] = told["FAULT"].removesuffix(f"-{self.case.launch}")
        if rank is None:
            return told
        per = RANKS // len(self.nodes)
        told |= {"RANK": str(rank), "WORLD_SIZE": str(RANKS)}
        told |= {"LOCAL_RANK": str(rank % per), "LOCAL_WORLD_SIZE": str(per)}
        return told | (self.case.odd if rank in self.case.ranks else {})

    def start(self) -> None:
        """Start all ranks by the launcher of the case."""
        self._prepare()
        getattr(self, f"_by_{self.case.launch}")()

    def _prepare(self) -> None:
        """Make what a fault needs before the job is there."""
        mounts = {
            "storage": f"exec {self.fuse} {STALLED} {self.folder}/storage",
            "full-disk": f"mount -t tmpfs -o size=1m none {self.folder}/full",
            "file-lock": f"exec flock {self.folder}/cache.lock sleep infinity",
            "resolver": f"exec {sys.executable} -c '{SILENT_RESOLVER}'",
        }
        if line := mounts.get(self.case.name):
            for name in ("storage", "full"):
                (self.folder / name).mkdir(exist_ok=True)
            rank = self.case.ranks[0]
            node = self.nodes[rank * len(self.nodes) // RANKS]
            self.launched.append(node.start("sh", "-c", line))
            time.sleep(1.5)

    def _by_python(self) -> None:
        for rank in range(RANKS):
            if self.case.harm == "never" and rank in self.case.ranks:
                continue
            node = self.nodes[rank * len(self.nodes) // RANKS]
            with (self.folder / "logs" / f"rank_{rank}.log").open("wb") as log:
                self._launch(node, [sys.executable, LIVE / "train.py"], log, rank)

    def _by_torchrun(self) -> None:
        many = len(self.nodes)
        words = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={many}"]
        words += [f"--nproc-per-node={RANKS // many}", "--redirects=3"]
        words += [f"--log-dir={self.folder}/logs", "--master-port=29561"]
        words += [f"--master-addr={self.nodes[0].address}"]
        for number, node in enumerate(self.nodes):
            own = [*words, f"--node-rank={number}", str(LIVE / "train.py")]
            with (self.folder / "logs" / f"torchrun-{node.name}.log").open("wb") as log:
                self._launch(node, own, log)

    def _by_mpirun(self) -> None:
        per = RANKS // len(self.nodes)
        hosts = ",".join(f"{node.name}:{per}" for node in self.nodes)
        words = ["mpirun", "--allow-run-as-root", "-np", str(RANKS), "--host", hosts]
        words += ["--mca", "btl_tcp_if_include", "eth0", "--tag-output"]
        words += ["--mca", "oob_tcp_if_include", "eth0", "--bind-to", "none"]
        for name in self.environment().keys() - os.environ.keys():
            words += ["-x", name]
        words += [sys.executable, str(LIVE / "train.py")]
        with (self.folder / "logs" / "mpirun.log").open("wb") as log:
            self._launch(self.nodes[0], words, log)

    def _by_srun(self) -> None:
        self.stack.enter_context(slurm.cluster(self.nodes, self.folder))
        per = RANKS // len(self.nodes)
        words = ["srun", "-l", f"-N{len(self.nodes)}", f"--ntasks-per-node={per}"]
        words += ["--export=ALL", sys.executable, str(LIVE / "train.py")]
        with (self.folder / "logs" / "slurm-1.out").open("wb") as log:
            self._launch(self.nodes[0], words, log)

    def _by_ray(self) -> None:
        self.ray = ray_cluster.start(self.nodes, self.folder, self.environment())
        words = [sys.executable, LIVE / "ray_ranks.py", str(RANKS)]
        with (self.folder / "logs" / "ray-driver.log").open("wb") as log:
            self._launch(self.nodes[0], words, log)

    def _launch(
        self, node: nodes.Node, words: list[Any], log: Any, rank: int | None = None
    ) -> None:
        own = {**self.environment(rank), **self._address()}
        own["PATH"] = f"{self.path}:{own['PATH']}"
        # a terminal that nobody types at
        keeps = ["sh", "-c", 'exec "$@" <> /dev/ptmx', "sh"]
        if self.case.name != "debugger":
            keeps = []
        process = node.start(*keeps, *words, env=own, stdout=log, stderr=log)
        self.launched.append(process)

    def _address(self) -> dict[str, str]:
        return {"RAY_ADDRESS": self.ray} if self.ray else {}

    def pid(self, rank: int) -> int:
        """Return the process of a rank, as this machine sees it."""
        return self.nodes[rank * len(self.nodes) // RANKS].rank(rank)

    def on_switch(self, line: str) -> None:
        """Run a line on the switch between the nodes."""
        self.switch.run(line)

    def come_so_far(self) -> None:
        """Wait until all ranks logged the step, or for a while where none comes."""
        if not self.case.starts:
            time.sleep(25)
            return
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            logs = [*(self.folder / "logs").rglob("*.*")]
            logs += (self.folder / "ray").glob("session_2*/logs/worker-*.out")
            told = "".join(log.read_text() for log in logs if log.is_file())
            if told.count(f"step {self.step} loss") >= RANKS:
                return
            time.sleep(0.2)
        raise RuntimeError(f"{self.case.name}: the job did not come so far")

    def hang(self) -> float:
        """Let it come to its fault; returns the moment, in seconds since 1970."""
        self.start()
        self.come_so_far()
        if self.case.harm:
            getattr(harm, self.case.harm)(self)
        moment = time.time()
        time.sleep(self.case.settles_s)
        if self.case.dies:
            until = time.monotonic() + ENDS_S
            while time.monotonic() < until and not self._is_over():
                time.sleep(0.5)
        return moment

    def _is_over(self) -> bool:
        return all(process.poll() is not None for process in self.launched)

    def collect(self, output: Path, again: str) -> dict[str, float]:
        """Collect as the case says; returns how many seconds each node took."""
        shutil.rmtree(output, ignore_errors=True)
        own = {**os.environ, "PATH": f"{self.path}:{os.environ['PATH']}"}
        own |= self._address()
        hosts = self.folder / "hosts.txt"
        hosts.write_text("".join(f"{node.name}\n" for node in self.nodes))
        ways = {"by ssh": ("--ssh", hosts), "by slurm": ("--slurm", "1")}
        if way := (ways | {"by ray": ("--ray",)}).get(self.case.gathers):
            words = ["-m", "ncclforensics", "collect", "-o", output, "--again", again]
            words += [*way, "--no-progress"]
            begun = time.monotonic()
            self.nodes[0].start(sys.executable, *words, env=own).wait()
            return {"all": time.monotonic() - begun}
        words = ["-m", "ncclforensics.collect", "-o", output, "--again", again, "-q"]
        begun = time.monotonic()
        asked_all = {n: n.start(sys.executable, *words, env=own) for n in self.nodes}
        took = {}
        for node, asked in asked_all.items():
            if asked.wait():
                raise RuntimeError(f"collect on {node.name} ended with an error")
            took[node.name] = time.monotonic() - begun
        return took
