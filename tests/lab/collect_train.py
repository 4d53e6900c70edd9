"""A training program of one Gloo rank that hangs on purpose, for `collect` to look at.

Its argument is what goes wrong after step STEP: `stopped` (rank 2 gets SIGSTOP), `lock`
(rank 1's main thread waits for a lock that another thread never gives back), `storage`
(rank 3 reads a file of STORAGE, which does not answer), `collective` (rank 0 gathers
where the others reduce), `gil` (rank 2 sleeps in C without releasing the GIL), `loader`
(rank 1 waits for a data loader's worker), `slow` (rank 1 computes for long),
`healthy`. The CPU build of torch has no pipe that asks for a dump: a
thread does here what torch's watchdog does.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

FAULT, RANK = sys.argv[1], int(os.environ["RANK"])
STEP = 20
NEVER_S = 3600


def answer_the_pipe() -> None:
    """Dump whenever somebody writes to the pipe, as torch does with NCCL."""
    stem = os.environ.get("TORCH_NCCL_DEBUG_INFO_PIPE_FILE")
    if stem is None:
        return
    path = Path(f"{stem}{RANK}.pipe")
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    recorder: Any = sys.modules["torch._C._distributed_c10d"]
    prefix = os.environ["TORCH_FR_DUMP_TEMP_FILE"]
    while True:
        time.sleep(1)
        if os.read(pipe, 128):
            # without stacks: looking up their symbols takes long on a busy machine
            trace = recorder._dump_fr_trace(True, False, False)
            Path(f"{prefix}{RANK}").write_bytes(trace)


class Shards(Dataset[torch.Tensor]):
    """Samples, of which rank 1's worker never reads the one of STEP."""

    def __len__(self) -> int:
        return 10**6

    def __getitem__(self, index: int) -> torch.Tensor:
        if FAULT == "loader" and RANK == 1 and index == STEP + 1:
            read_shard()
        return torch.ones(8)


def read_shard() -> None:
    time.sleep(NEVER_S)


def log_metrics() -> None:
    lock = threading.Lock()
    lock.acquire()
    with lock:
        print("never")


def save_checkpoint() -> None:
    (Path(os.environ["STORAGE"]) / "shard-000.bin").read_bytes()


def tokenize() -> None:
    ctypes.PyDLL(None).sleep(NEVER_S)


def evaluate() -> None:
    matrix = torch.ones(700, 700)
    until = time.monotonic() + NEVER_S
    while time.monotonic() < until:
        matrix = (matrix @ matrix).clamp(0, 1)


def gather_metrics() -> None:
    dist.all_gather(
        [torch.ones(64) for _ in range(dist.get_world_size())], torch.ones(64)
    )


def go_wrong() -> None:
    """Do what FAULT says, if it is this rank's part."""
    match FAULT, RANK:
        case "stopped", 2:
            os.kill(os.getpid(), signal.SIGSTOP)
        case "lock", 1:
            log_metrics()
        case "storage", 3:
            save_checkpoint()
        case "collective", 0:
            gather_metrics()
        case "gil", 2:
            tokenize()
        case "slow", 1:
            evaluate()


def main() -> None:
    """Train until somebody ends the job."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=NEVER_S))
    threading.Thread(target=answer_the_pipe, daemon=True).start()
    loader = DataLoader(Shards(), batch_size=None, num_workers=int(FAULT == "loader"))
    for step, sample in enumerate(loader):
        print(f"step {step} loss {1 / (step + 1):.4f}", flush=True)
        dist.all_reduce(sample.clone())
        if FAULT == "healthy":
            time.sleep(0.2)
        if step == STEP:
            go_wrong()


if __name__ == "__main__":
    main()
