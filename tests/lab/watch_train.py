"""A training loop that `watch_run.py` harms while it runs; one process a rank, Gloo.

It saves a checkpoint now and then, and a thread dumps what the Flight Recorder holds
again and again, as a poller of the dump pipe does. It looks for a fault each step: a
file `fault` beside it, `lock 2`, `fifo 0`, `other 1`, `return 3` or `raise 1`, the name
of the fault and its rank.
"""

import argparse
import logging
import os
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d

LOG = logging.getLogger("train")
HERE = Path()


def dump_again_and_again(rank: int, every: float) -> None:
    """Write a dump of this rank into `dumps/0`, `dumps/1`, and again."""
    look = 0
    while True:
        time.sleep(every)
        folder = HERE / "dumps" / str(look % 2)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f".nccl_trace_rank_{rank}"
        file.write_bytes(_distributed_c10d._dump_fr_trace(True, True, False))
        file.rename(folder / f"nccl_trace_rank_{rank}")
        look += 1


def hold_lock() -> None:
    lock = threading.Lock()
    with lock:
        lock.acquire()


def read_fifo() -> None:
    path = HERE / "shard.fifo"
    if not path.exists():
        os.mkfifo(path)
    path.read_bytes()


def other_collective() -> None:
    out = [torch.zeros(8) for _ in range(dist.get_world_size())]
    dist.all_gather(out, torch.ones(8))


def fault_of(rank: int) -> str:
    """Return the fault that this rank has now, or ""."""
    try:
        name, who = (HERE / "fault").read_text().split()
    except (OSError, ValueError):
        return ""
    return name if int(who) == rank else ""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--step-s", type=float, default=0.2)
    parser.add_argument("--save-every", type=int, default=100)
    parser.add_argument("--save-s", type=float, default=4.0)
    parser.add_argument("--dump-every", type=float, default=0.0)
    args = parser.parse_args()
    rank = int(os.environ["RANK"])
    logging.basicConfig(
        level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(message)s"
    )
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(minutes=30))
    LOG.info("rank %d of %d is ready", rank, dist.get_world_size())
    if args.dump_every:
        threading.Thread(
            target=dump_again_and_again, args=(rank, args.dump_every), daemon=True
        ).start()
    for step in range(1, args.steps + 1):
        time.sleep(args.step_s)
        match fault_of(rank):
            case "lock":
                hold_lock()
            case "fifo":
                read_fifo()
            case "other":
                other_collective()
            case "return":
                return
            case "raise":
                raise ValueError(f"bad sample at step {step}")
        dist.all_reduce(torch.ones(1024))
        LOG.info("step %d loss %.4f", step, 2.5 / step)
        if step % args.save_every == 0:
            LOG.info("saving checkpoint")
            time.sleep(args.save_s)
            dist.barrier()
    LOG.info("training finished")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
