"""A real torch job of three Gloo processes, of which rank 1 never comes back.

Run as `python hang.py FOLDER`: writes the ranks' logs and Flight Recorder dumps there,
as torchrun and c10d do, and ends after some seconds.
"""

import multiprocessing
import os
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

WORLD = 3
TIMEOUT_S = 8
DUMP_AFTER_S = 2


def save_checkpoint() -> None:
    """Stand for anything that takes a rank away for longer than the timeout."""
    time.sleep(60)


def dump(rank: int, folder: Path) -> None:
    """Write what the Flight Recorder holds, as its own writer names the file.

    Without stacks: looking up their symbols takes seconds on a busy machine.
    """
    time.sleep(DUMP_AFTER_S)
    recorder: Any = sys.modules["torch._C._distributed_c10d"]
    trace = recorder._dump_fr_trace(True, False, False)
    (folder / f"nccl_trace_rank_{rank}").write_bytes(trace)


def train(rank: int, folder: Path) -> None:
    """Reduce twice in step with the others; then rank 1 leaves for its checkpoint."""
    log = os.open(folder / f"rank_{rank}.log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ |= {
        "RANK": str(rank),
        "WORLD_SIZE": str(WORLD),
        "TORCH_FR_BUFFER_SIZE": "100",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    import torch
    import torch.distributed as dist

    store = dist.FileStore(str(folder / "store"), WORLD)
    dist.init_process_group(
        "gloo",
        rank=rank,
        world_size=WORLD,
        store=store,
        timeout=timedelta(seconds=TIMEOUT_S),
    )
    threading.Thread(target=dump, args=(rank, folder), daemon=True).start()
    gradient = torch.ones(8)
    for _ in range(2):
        dist.all_reduce(gradient)
    if rank == 1:
        save_checkpoint()
    dist.all_reduce(gradient)


def main() -> None:
    """Start the ranks, wait for the victims, and end the one that sleeps."""
    folder = Path(sys.argv[1])
    context = multiprocessing.get_context("spawn")
    ranks = [context.Process(target=train, args=(r, folder)) for r in range(WORLD)]
    for process in ranks:
        process.start()
    for rank in (0, 2):
        ranks[rank].join(60)
    ranks[1].terminate()
    ranks[1].join(10)
    (folder / "store").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
