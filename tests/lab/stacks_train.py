"""A data-parallel training program of which somebody dumps the stacks while it runs.

Its second argument is how it trains: `hang` (rank 2 sleeps in save_checkpoint after step
4), `thread` (the same, in a thread that is not the main one, as Ray trains) or `work`
(nothing goes wrong, and rank 1 has more to do). `LATER` is the time after which
faulthandler prints all stacks, again and again; `DUMPS` the folder in which
torch.distributed.debug does.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

NEVER = timedelta(minutes=10)


def save_checkpoint() -> None:
    time.sleep(NEVER.total_seconds())


def reduce_gradients() -> None:
    dist.all_reduce(torch.ones(1024))


def forward(size: int) -> None:
    torch.ones(size, size) @ torch.ones(size, size)


def train() -> None:
    """Train until somebody ends the job."""
    rank, fault = dist.get_rank(), sys.argv[1]
    for step in range(1, 10**9):
        forward(1500 if fault == "work" and rank == 1 else 100)
        reduce_gradients()
        if step == 4 and rank == 2 and fault != "work":
            save_checkpoint()


def main() -> None:
    """Join the job, and train as the first argument says."""
    dist.init_process_group("gloo", timeout=NEVER)
    if seconds := os.environ.get("LATER"):
        faulthandler.dump_traceback_later(float(seconds), repeat=True)
    if folder := os.environ.get("DUMPS"):
        from torch.distributed.debug import start_debug_server

        start_debug_server(
            dump_dir=folder,
            dump_interval=5.0,
            enabled_dumps={"stacks"},
            start_method="spawn",
        )
    if sys.argv[1] == "thread":
        thread = threading.Thread(target=train, name="TrainingThread(train)")
        thread.start()
        thread.join()
    train()


if __name__ == "__main__":
    main()
