"""Who makes a job slow? Real torch processes with Gloo, of which one may be slower.

    python benchmarks/slowness_real.py [--jobs N] [--ranks N] [--steps N] [--hosts]

Each job trains for some steps: ranks work (they sleep, so that a busy machine does not
decide), now and then longer or shorter, and average two gradients. One rank works
longer by a share of the step, or is stopped by SIGSTOP now and then, or nobody is; or
stages pass messages, which is a bubble and nobody's fault. Needs torch. With `--hosts`
the dumps lie in one folder a host, else nothing tells which ranks share a clock.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from slowness import told

KINDS = ("steady", "pipeline", "5 %", "10 %", "30 %", "stopped 30 %")
STEP = 0.15  # seconds of work


def train(rank: int, ranks: int, kind: str, who: int, steps: int, into: str) -> None:
    """Train as one rank, and dump."""
    import torch
    import torch.distributed as dist
    from torch._C import _distributed_c10d

    recorder: Any = _distributed_c10d
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    draw = random.Random(f"{rank} {into}")
    share = 0.0 if rank != who or "%" not in kind else float(kind.split()[-2]) / 100
    for step in range(steps):
        work = STEP * draw.gauss(1, 0.02) + (share * STEP if kind[0] != "s" else 0)
        if kind == "pipeline":
            pass_on(dist, torch, rank, ranks, work)
        else:
            time.sleep(work)
        if kind[0:4] == "stop" and share and step % 3 == 0:
            time.sleep(3 * share * STEP)
        for size in (4096, 64):
            dist.all_reduce(torch.ones(size))
    Path(into).mkdir(parents=True, exist_ok=True)
    dump = recorder._dump_fr_trace(True, True, False)
    (Path(into) / f"comm_lib_trace_rank_{rank}").write_bytes(dump)
    dist.barrier()
    dist.destroy_process_group()


def pass_on(dist: Any, torch: Any, rank: int, ranks: int, work: float) -> None:
    """Pass an activation through the stages; the first stage has more to do."""
    if rank:
        dist.recv(torch.ones(16), src=rank - 1)
    time.sleep(work / ranks * (2 if rank == 0 else 1))
    if rank + 1 < ranks:
        dist.send(torch.ones(16), dst=rank + 1)


def play(kind: str, ranks: int, who: int, steps: int, root: Path, hosts: int) -> None:
    """Run one job, with its dumps below `root`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCH_FR_BUFFER_SIZE": "2000",
        "OMP_NUM_THREADS": "1",
    }
    context = get_context("spawn")
    started = []
    for rank in range(ranks):
        into = root / f"gpu{rank * hosts // ranks + 1:04d}" if hosts else root / "fr"
        given = (rank, ranks, kind, who, steps, str(into))
        started.append(context.Process(target=train, args=given))
    for process in started:
        process.start()
    for process in started:
        process.join(300)
        if process.is_alive() and process.pid:
            os.kill(process.pid, signal.SIGKILL)


def main() -> int:
    """Run the jobs, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--hosts", type=int, default=0)
    parser.add_argument("--kind", nargs="*", default=list(KINDS))
    given = parser.parse_args()
    for kind in given.kind:
        for n in range(given.jobs):
            who = random.Random(f"{kind} {n}").randrange(given.ranks)
            with tempfile.TemporaryDirectory() as scratch:
                play(kind, given.ranks, who, given.steps, Path(scratch), given.hosts)
                slug, ranks, words = told(Path(scratch))
            want = f"rank {who}" if "%" in kind else "nobody"
            print(f"{kind:14} want {want:8} got {slug:12} {sorted(ranks)} {words}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
