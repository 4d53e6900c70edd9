"""A training job as it stands in the incidents: NCCL's set-up, then steps over Gloo.

Each process opens a real NCCL communicator (a stub answers for CUDA), so that its log
holds what NCCL prints, and then trains with tensor-parallel pairs and data-parallel
groups. A fault is a function; who is at fault notes when in `.fault.<rank>`.
"""

from __future__ import annotations

import argparse
import ctypes
import logging
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from nccl_call import LINE_BUFFERED, POINTER, Process, load
from torch_train import write_dump

if TYPE_CHECKING:
    from collections.abc import Callable

LOG = logging.getLogger("train")
FOREVER = 3600


@dataclass(frozen=True)
class Job:
    """Who this process is, and the groups that it trains in."""

    rank: int
    who: tuple[int, ...]
    timeout: float
    tensor: dist.ProcessGroup
    data: dist.ProcessGroup

    def is_at_fault(self, number: int = 0) -> bool:
        """Note the time if this is the culprit of that number."""
        if self.rank != self.who[number]:
            return False
        Path(f".fault.{self.rank}").write_text(f"{time.time()} {os.getpid()}")
        return True

    def train(self, first: int, last: int) -> None:
        """Train steps `first` to `last`, both included."""
        for step in range(first, last + 1):
            self.forward()
            self.reduce_gradients()
            LOG.info("step %d loss %.4f", step, 2.5 / (step + 1))
            time.sleep(0.1)

    def forward(self) -> None:
        dist.all_reduce(torch.ones(256), group=self.tensor)

    def reduce_gradients(self, elements: int = 1024) -> None:
        dist.all_reduce(torch.ones(elements), group=self.data)


def save_checkpoint(seconds: float) -> None:
    LOG.info("saving checkpoint at step 4")
    time.sleep(seconds)


def healthy(job: Job) -> None:
    """Nothing goes wrong."""
    job.train(1, 6)


def gpu_fault(job: Job) -> None:
    """The GPU under a rank is gone; PyTorch says so in the words that CUDA gives it."""
    job.train(1, 3)
    if job.is_at_fault():
        raise RuntimeError(
            "CUDA error: unspecified launch failure\nCUDA kernel errors might be "
            "asynchronously reported at some other API call, so the stacktrace below "
            "might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1"
        )
    job.train(4, 6)


def copy_to_gpu(job: Job) -> None:
    """Wait for a GPU that is gone; its driver does not come back."""
    if job.is_at_fault():
        time.sleep(FOREVER)


def gpu_hang(job: Job) -> None:
    """The GPU under a rank is gone, and the process waits in the driver for it."""
    job.train(1, 3)
    copy_to_gpu(job)
    job.train(4, 6)


def killed(job: Job) -> None:
    """A rank is killed from outside by SIGKILL."""
    job.train(1, 3)
    if job.is_at_fault():
        os.kill(os.getpid(), signal.SIGKILL)
    job.train(4, 6)


def missing_rank(job: Job) -> None:
    """A rank never comes back from its checkpoint."""
    job.train(1, 3)
    save_checkpoint(FOREVER if job.is_at_fault() else 0)
    job.train(4, 6)


def straggler(job: Job) -> None:
    """A rank comes back from its checkpoint after its peers have given up."""
    job.train(1, 3)
    save_checkpoint(job.timeout + 2.5 if job.is_at_fault() else 0)
    job.train(4, 6)


def mismatch(job: Job) -> None:
    """A rank broadcasts in its data-parallel group where the others reduce."""
    job.train(1, 3)
    job.forward()
    if job.is_at_fault():
        first = dist.get_process_group_ranks(job.data)[0]
        dist.broadcast(torch.ones(1024), src=first, group=job.data)
    job.reduce_gradients()
    job.train(5, 6)


def gil(job: Job) -> None:
    """A rank calls into C for an hour and keeps Python's lock."""
    job.train(1, 3)
    if job.is_at_fault():
        ctypes.PyDLL(None).sleep(FOREVER)
    job.train(4, 6)


def disk_full(job: Job) -> None:
    """A rank writes a checkpoint to a disk that is too small for it."""
    job.train(1, 3)
    LOG.info("saving checkpoint at step 4")
    if job.is_at_fault():
        weights = torch.ones(1 << 20).numpy().tobytes()
        with Path("ckpt/step4.pt").open("wb") as file:
            file.write(weights)
    job.train(4, 6)


def check_loss(loss: float) -> None:
    if loss != loss:
        raise ValueError(f"loss is {loss} at step 4, giving up")


def raises(job: Job) -> None:
    """A rank raises for a reason of its own."""
    job.train(1, 3)
    check_loss(float("nan") if job.is_at_fault() else 0.5)
    job.train(4, 6)


def two_culprits(job: Job) -> None:
    """Two replicas train alone: in one a rank hangs, in the other one raises later."""
    job.train(1, 3)
    first_half = job.rank < dist.get_world_size() // 2
    if first_half:
        save_checkpoint(FOREVER if job.is_at_fault(0) else 0)
    else:
        time.sleep(4)
        check_loss(float("nan") if job.is_at_fault(1) else 0.5)
    job.train(4, 6)


def restarted(job: Job) -> None:
    """In the first attempt a rank raises, in the second another one reads address 0."""
    job.train(1, 3)
    if os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0":
        check_loss(float("nan") if job.is_at_fault(0) else 0.5)
    elif job.is_at_fault(1):
        ctypes.string_at(0)
    job.train(4, 6)


def long_run(job: Job) -> None:
    """Train until somebody else stops the job."""
    for step in range(1, FOREVER):
        job.train(step, step)
        time.sleep(0.7)


def alone(job: Job) -> None:
    """A rank evaluates by itself in a group where its peers go on training."""
    job.train(1, 3)
    if job.is_at_fault():
        LOG.info("evaluating")
        dist.all_reduce(torch.zeros(1), group=job.data)
    job.train(4, 6)


FAULTS: dict[str, Callable[[Job], None]] = {
    run.__name__.replace("_", "-"): run
    for run in (
        healthy, gpu_fault, gpu_hang, killed, missing_rank, straggler, mismatch, gil, disk_full,
        raises, two_culprits, restarted, long_run, alone,
    )
}  # fmt: skip


def open_communicator(rank: int, world: int) -> Process:
    """Make NCCL's communicator of all ranks; NCCL prints what it prints."""
    libc = ctypes.CDLL(None)
    libc.setvbuf(POINTER.in_dll(libc, "stdout"), None, LINE_BUFFERED, 0)
    stub = Path(os.environ["LAB_STUB"])
    nccl = load(Path(os.environ["LAB_NCCL"]), stub)
    ctypes.CDLL(str(stub)).cudaSetDevice(int(os.environ["LOCAL_RANK"]))
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    process = Process(nccl, rank, world, Path(f".nccl_id.{attempt}"))
    process.init(rank)
    return process


def main() -> None:
    """Set up, train, and dump as a watchdog would."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fault", choices=FAULTS)
    parser.add_argument("--who", type=int, nargs="*", default=[0])
    parser.add_argument("--timeout", type=float, default=9.0, help="of collectives, s")
    parser.add_argument("--dump-after", type=float, default=6.0, help="seconds; 0: no")
    parser.add_argument("--halves", action="store_true", help="two replicas, apart")
    args = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(message)s"
    )
    dist.init_process_group("gloo", timeout=timedelta(seconds=args.timeout))
    rank, world = dist.get_rank(), dist.get_world_size()
    process = open_communicator(rank, world)
    dist.broadcast(torch.zeros(1024), src=0)
    wait = timedelta(seconds=args.timeout)
    spans = [(0, world // 2), (world // 2, world)] if args.halves else [(0, world)]
    members = [
        ("TENSOR_MODEL_PARALLEL_GROUP", [r, r + 1]) for r in range(0, world, 2)
    ] + [
        ("DATA_PARALLEL_GROUP", list(range(a + odd, b, 2)))
        for a, b in spans
        for odd in (0, 1)
    ]
    mine = {}
    for name, ranks in members:  # every rank makes all groups, in the same order
        group = dist.new_group(ranks, timeout=wait, group_desc=name)
        if rank in ranks:
            mine[name] = group
    job = Job(rank, tuple(args.who), args.timeout, *mine.values())
    LOG.info("rank %d of %d is ready", rank, world)
    Path(f".ready.{rank}").touch()

    def dump() -> None:
        write_dump(Path(f"fr/nccl_trace_rank_{rank}"), stacks=True)

    # a process whose GPU is gone waits in the driver, and so does who asks it
    is_lost = args.fault in ("gpu-fault", "gpu-hang") and rank in args.who
    if args.dump_after and not (is_lost and args.fault == "gpu-hang"):
        alarm = threading.Timer(args.dump_after, dump)
        alarm.daemon = True
        alarm.start()
    try:
        FAULTS[args.fault](job)
    except RuntimeError:
        if args.dump_after and not is_lost:
            dump()
        raise
    process.nccl.ncclCommDestroy(process.communicator)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
