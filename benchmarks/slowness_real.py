"""Who makes a job slow? Real torch processes with Gloo, of which one may be slower.

    python benchmarks/slowness_real.py [--jobs N] [--ranks N] [--steps N] [--kind …]

Each job trains for some steps: ranks work (mostly they sleep, and run ahead of all else
on the machine, so that its load decides little), now and then longer or shorter, and
average two gradients. One rank is slowed from outside, by about the share of a step
that its kind names: by a CPU quota, by the throttle of its disk, by SIGSTOP now and
then, or by the bandwidth of its interface (tc; all ranks then have a network namespace
of their own).
Or it works longer itself, or nobody is slow; or stages pass messages, which is a bubble
and nobody's fault. Needs torch, and root and cgroups v1 for quota, throttle and tc.

Each rank also measures how long it works in a step itself. `asked` are the jobs whose
slow rank works longer than the others by 10 % in truth, `named` those in which it alone
is told, as the class or as fastest gain; `innocent` those in which anybody else is.
`hidden` is a slow interface: all members wait in the transfer of a call alike, and Gloo
tells no durations.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import mmap
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slowness import HEAD, Row

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = (
    *("steady", "pipeline", "work 5 %", "work 10 %", "work 30 %"),
    *(
        f"{how} {share} %"
        for how in ("cpu", "disk", "stop", "tc")
        for share in (10, 30)
    ),
)
STEP = 0.5  # seconds of work
PIECE_S = 0.02  # of the work: who is stopped while it sleeps does not sleep longer
BURNT = 0.02  # seconds of CPU time in a step
BATCH, PIECE = 1 << 18, 1 << 16  # bytes read in a step, and at once
LEAST_READ = 0.15  # seconds; a throttle lets pass what takes less than 0.1
SHARES = 1 << 18  # of the CPU, the most there are: a quota is to limit, and not others
FLOATS = 65_536  # of a gradient
GROUPS = Path("/sys/fs/cgroup")
NETS = Path("/run/netns")


def share_of(kind: str) -> float:
    """Return by what share of a step a rank is slower."""
    return float(kind.split()[-2]) / 100 if "%" in kind else 0.0


def train(
    rank: int, ranks: int, kind: str, who: int, steps: int, store: str, into: Path
) -> None:
    """Train as one rank, and dump."""
    how, more = kind.split()[0], share_of(kind) * STEP if rank == who else 0.0
    if how == "tc":
        with (NETS / name_of(rank)).open() as net:
            ctypes.CDLL(None).setns(net.fileno(), 0)  # os.setns is of Python 3.12
        os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
    import torch
    import torch.distributed as dist
    from torch._C import _distributed_c10d

    recorder: Any = _distributed_c10d
    if how != "cpu" or rank != who:  # a quota does not hold for such a process
        with suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    dist.init_process_group("gloo", store, rank=rank, world_size=ranks)
    draw = random.Random(f"{rank} {into}")
    batch, file = mmap.mmap(-1, PIECE), os.open(into.parent / "data", DIRECT)
    own, every = 0.0, math.ceil(LEAST_READ / (share_of(kind) * STEP or LEAST_READ))
    with ExitStack() as slowed:
        if more and how in ("cpu", "disk"):
            slowed.enter_context(limited(how, more * (every if how == "disk" else 1)))
        for step in range(steps):
            begun = time.monotonic()
            reads = how == "disk" and step % every == 0
            for piece in range(0, BATCH if reads else 0, PIECE):
                os.preadv(file, [batch], step % 16 * BATCH + piece)
            until = time.process_time() + BURNT
            while time.process_time() < until:
                pass
            work = STEP * draw.gauss(1, 0.02) - BURNT + (more if how == "work" else 0)
            if kind == "pipeline":
                pass_on(dist, torch, rank, ranks, work)
            else:
                for _ in range(pieces := round(work / PIECE_S)):
                    time.sleep(work / pieces)
            own += time.monotonic() - begun
            for size in (FLOATS, 64):
                dist.all_reduce(torch.ones(size))
    dump = recorder._dump_fr_trace(True, True, False)
    (into / f"comm_lib_trace_rank_{rank}").write_bytes(dump)
    (into.parent / f"own_{rank}").write_text(str(own / steps))
    dist.barrier()
    dist.destroy_process_group()


DIRECT = os.O_RDONLY | os.O_DIRECT


@contextmanager
def limited(how: str, more: float) -> Iterator[None]:
    """Limit CPU or disk of this process, so that it takes `more` seconds longer."""
    kind = "cpu" if how == "cpu" else "blkio"
    group = GROUPS / kind / f"slow-{os.getpid()}"
    group.mkdir()
    if how == "cpu":
        period = 20_000
        (group / "cpu.cfs_period_us").write_text(str(period))
        quota = round(period * BURNT / (BURNT + more))
        (group / "cpu.cfs_quota_us").write_text(str(max(quota, 1000)))
        (group / "cpu.shares").write_text(str(SHARES))
    else:
        device = Path.cwd().stat().st_dev
        whole = f"{os.major(device)}:{os.minor(device) // 16 * 16}"
        rate = f"{whole} {round(BATCH / more)}"
        (group / "blkio.throttle.read_bps_device").write_text(rate)
    (group / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield
    finally:
        (GROUPS / kind / "cgroup.procs").write_text(str(os.getpid()))
        with suppress(OSError):
            group.rmdir()


def pass_on(dist: Any, torch: Any, rank: int, ranks: int, work: float) -> None:
    """Pass an activation through the stages; the first stage has more to do."""
    if rank:
        dist.recv(torch.ones(16), src=rank - 1)
    time.sleep(work / ranks * (2 if rank == 0 else 1))
    if rank + 1 < ranks:
        dist.send(torch.ones(16), dst=rank + 1)


def name_of(rank: int) -> str:
    """Return the name of a rank's network namespace."""
    return f"slow{rank}"


@contextmanager
def network(ranks: int, who: int, more: float) -> Iterator[None]:
    """Set up a namespace a rank, and a bridge; one interface is slow."""

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True)

    with ExitStack() as stack:
        ip("link", "add", "slowbr", "type", "bridge")
        stack.callback(ip, "link", "del", "slowbr")
        ip("addr", "add", "10.79.0.254/24", "dev", "slowbr")
        ip("link", "set", "slowbr", "up")
        for rank in range(ranks):
            name = name_of(rank)
            ip("netns", "add", name)
            stack.callback(ip, "netns", "del", name)
            veth = ("type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "add", f"slowp{rank}", *veth)
            ip("link", "set", f"slowp{rank}", "master", "slowbr", "up")
            at = f"10.79.0.{rank + 1}/24"
            ip("-n", name, "addr", "add", at, "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up", "gso_max_segs", "1")
            ip("-n", name, "link", "set", "lo", "up")
        if more:
            # it sends each gradient twice but for its own part
            rate = 8 * 4 * FLOATS * 2 * (ranks - 1) / ranks / more
            limit = ("rate", f"{round(rate)}bit", "burst", "16kb", "latency", "1s")
            dev = ("dev", "eth0", "root", "tbf", *limit)
            command = ["ip", "netns", "exec", name_of(who), "tc", "qdisc", "add", *dev]
            subprocess.run(command, check=True)
        yield


def play(kind: str, ranks: int, who: int, steps: int, root: Path) -> list[float]:
    """Run one job, with its dumps below `root`; return the own seconds of each rank."""
    more = share_of(kind) * STEP
    with ExitStack() as stack:
        at = "127.0.0.1"
        if kind.startswith("tc"):
            stack.enter_context(network(ranks, who, more))
            at = "10.79.0.1"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        os.environ |= {"TORCH_FR_BUFFER_SIZE": "2000", "OMP_NUM_THREADS": "1"}
        (root / "fr").mkdir()
        (root / "data").write_bytes(random.Random(1).randbytes(16 * BATCH))
        # torch is imported once: on a busy machine this takes longer than a job
        context = get_context("forkserver")
        context.set_forkserver_preload(["torch.distributed"])
        started = []
        for rank in range(ranks):
            given = (rank, ranks, kind, who, steps, f"tcp://{at}:{port}", root / "fr")
            started.append(context.Process(target=train, args=given))
        for process in started:
            process.start()
        until = time.monotonic() + 300
        slow = started[who].pid or 0
        while any(process.is_alive() for process in started):
            time.sleep(3 * STEP)
            if time.monotonic() > until:
                for process in started:
                    process.kill()
            elif kind.startswith("stop") and started[who].is_alive():
                with suppress(ProcessLookupError):  # it may end meanwhile
                    os.kill(slow, signal.SIGSTOP)
                    time.sleep(3 * more)
                    os.kill(slow, signal.SIGCONT)
        for process in started:
            process.join()
        (root / "data").unlink()
        return [float((root / f"own_{rank}").read_text()) for rank in range(ranks)]


def main() -> int:
    """Run the jobs, and print a line for each and a row for each kind."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", nargs="*", default=list(KINDS))
    parser.add_argument("--keep", type=Path, help="a folder for the dumps")
    given = parser.parse_args()
    for kind in given.kind:
        row = Row(kind, share_of(kind))
        for n in range(given.jobs):
            seed = f"{given.seed} {kind} {n}"
            who = random.Random(seed).randrange(given.ranks)
            with tempfile.TemporaryDirectory(dir=given.keep or Path.cwd()) as scratch:
                own = play(kind, given.ranks, who, given.steps, Path(scratch))
                usual = statistics.median(own[:who] + own[who + 1 :])
                worked = own[who] / usual - 1
                row.share = share_of(kind) if kind.startswith("tc") else worked
                if given.keep:
                    kept = given.keep / seed.replace(" %", "").replace(" ", "-")
                    (Path(scratch) / "fr").rename(kept)
                    at = kept
                else:
                    at = Path(scratch)
                slow = {who} if "%" in kind else set()
                seen = not kind.startswith("tc")
                said = row.add(at, slow, row.share if slow else 0.0, seen=seen)
                each = " ".join(f"{seconds:.3f}" for seconds in own)
                print(f"{kind}: {worked:.0%} longer, of {each}", said, flush=True)
        print(HEAD, row, sep="\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
