"""A training program of one Gloo rank, to which FAULT happens behind step STEP.

Started once a rank by whatever launches it. The CPU build of torch has no pipe that
asks for a Flight Recorder dump: a thread does here what torch's watchdog does.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

from faults import FAULTS, HERE, NEVER_S

FAULT = os.environ["FAULT"]
STEP, STEPS = int(os.environ.get("STEP", "20")), 10**6
AGAIN = "AGAIN" in os.environ  # it comes again and again, as a pause does
LARGE = 1 << 18  # elements: a gradient of 1 MiB


def number(*names: str) -> int:
    """Return the first of some variables that is set."""
    return int(next(os.environ[name] for name in names if name in os.environ))


RANK = number("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
WORLD = number("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS")


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
    """Samples; the one behind STEP may never come, and some come late."""

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> torch.Tensor:
        if FAULT == "loader-stuck" and RANK == 1 and index == STEP + 1:
            self.read_shard()
        if FAULT == "healthy-loading":
            time.sleep(random.Random(index * WORLD + RANK).uniform(0, 2))
        return torch.ones(LARGE if FAULT == "narrow-path" else 1024)

    def read_shard(self) -> None:
        time.sleep(NEVER_S)


def batches() -> Any:
    """Return what a rank trains on, from workers where they are part of the fault."""
    workers = int(FAULT.startswith("loader-"))
    return DataLoader(Shards(), batch_size=None, num_workers=workers)


def pass_activations() -> None:
    """Receive from the rank before and send to the next one, as a pipeline does."""
    activations = torch.ones(64)
    if RANK > 0:
        FAULTS["receive"](RANK, activations)
    if RANK < WORLD - 1:
        FAULTS["send"](RANK, activations)


def reduce_gradients(sample: torch.Tensor) -> None:
    FAULTS["reduce"](sample)


def share_metrics() -> None:
    dist.broadcast(torch.ones(8), 0)


def train() -> None:
    """Make steps until somebody ends the job."""
    for step, sample in enumerate(batches()):
        if FAULT in ("unmatched-p2p", "wrong-peer"):
            pass_activations()
        time.sleep(0.05)  # computes
        reduce_gradients(sample.clone())
        if FAULT == "skipped-call" and step % 5 == 4:
            share_metrics()
        print(f"step {step} loss {1 / (step + 1):.4f}", flush=True)
        comes = step % STEP == 0 if AGAIN else step == STEP
        if step and comes and FAULT in FAULTS and FAULTS[FAULT](RANK) == "leave":
            break
    FAULTS["end"](RANK)


def main() -> None:
    threading.Thread(target=answer_the_pipe, daemon=True).start()
    dist.init_process_group(
        "gloo", rank=RANK, world_size=WORLD, timeout=timedelta(seconds=NEVER_S)
    )
    print(f"rank {RANK} of {WORLD} is ready in {HERE}", flush=True)
    FAULTS["begin"](RANK)
    train()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
