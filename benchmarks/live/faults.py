"""What goes wrong inside the program: each function is called by every rank with its
number, and the rank at fault does not come back, or comes back to another call.

Faults from outside (signals, links, control groups) are in `harm`.
"""

from __future__ import annotations

import ctypes
import fcntl
import multiprocessing
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

HERE = Path(os.environ["JOB"])
FAULT = os.environ["FAULT"]
NEVER_S = 3600
GROUPS: list[Any] = []
SKIPPED: list[bool] = []


def begin(rank: int) -> None:
    """Make the groups that a fault needs."""
    if FAULT in ("call-order", "uneven-barrier"):
        world = range(dist.get_world_size())
        GROUPS.extend(dist.new_group(list(world)) for _ in range(2))
        for group in GROUPS:
            dist.all_reduce(torch.ones(64), group=group)


def end(rank: int) -> None:
    """Do what a program does behind its loop."""
    if FAULT == "uneven-barrier":
        dist.barrier(GROUPS[0])
    elif FAULT == "uneven-sleep":
        wait_for_the_others()


def wait_for_the_others() -> None:
    while not (HERE / "all-done").exists():
        time.sleep(2)


def log_metrics(rank: int) -> None:
    if rank != 1:
        return
    lock = threading.Lock()
    lock.acquire()
    with lock:
        print("never")


def save_to_storage(rank: int) -> None:
    if rank == 3:
        (HERE / "storage" / "step-20.pt").write_bytes(bytes(1 << 20))


def save_to_full_disk(rank: int) -> None:
    if rank == 0:
        (HERE / "full" / "step-20.pt").write_bytes(bytes(1 << 22))


def tokenize_in_a_process(rank: int) -> None:
    """Wait for the queue of a worker that is killed before it puts anything in."""
    if rank != 1:
        return
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    worker = context.Process(target=time.sleep, args=(NEVER_S,), daemon=True)
    worker.start()
    (HERE / "worker").write_text(str(worker.pid))
    time.sleep(1)
    worker.kill()
    queue.get()


def gather_metrics(rank: int) -> None:
    if rank == 0:
        many = dist.get_world_size()
        dist.all_gather([torch.ones(64) for _ in range(many)], torch.ones(64))


def cross_groups(rank: int) -> None:
    """Reduce in two groups; rank 0 takes them in the other order."""
    tensor, parallel = GROUPS
    first, second = (parallel, tensor) if rank == 0 else (tensor, parallel)
    dist.all_reduce(torch.ones(64), group=first)
    dist.all_reduce(torch.ones(64), group=second)


def run_out_of_data(rank: int) -> str:
    return "leave" if rank == 3 else ""


def evaluate_on_first_rank(rank: int) -> None:
    if rank == 0:
        dist.barrier()


def reduce_another_shape(rank: int) -> None:
    dist.all_reduce(torch.ones(2000 if rank == 2 else 1024))


def send(rank: int, activations: torch.Tensor) -> None:
    """Send to the next rank; behind STEP rank 1 leaves one message out."""
    if not (rank == 1 and SKIPPED and FAULT == "unmatched-p2p"):
        dist.send(activations, rank + 1)
    SKIPPED.clear()


def skip_a_message(rank: int) -> None:
    SKIPPED.append(True)


def receive(rank: int, activations: torch.Tensor) -> None:
    """Receive from the rank before; behind STEP rank 2 of `wrong-peer` from rank 0."""
    is_wrong = FAULT == "wrong-peer" and rank == 2 and bool(SKIPPED)
    dist.recv(activations, 0 if is_wrong else rank - 1)


def skip_a_call(rank: int) -> None:
    if rank == 2:
        SKIPPED.append(True)


def reduce(sample: torch.Tensor) -> None:
    """Reduce; rank 2 of `skipped-call` leaves it out once."""
    if FAULT == "skipped-call" and SKIPPED:
        SKIPPED.clear()
    else:
        dist.all_reduce(sample)


def save_in_a_thread(rank: int) -> None:
    """Rank 2 waits for its saver, which waits for room in a queue that nobody reads."""
    if rank != 2:
        return
    parts: queue.Queue[bytes] = queue.Queue(maxsize=1)

    def save() -> None:
        for _ in range(3):
            parts.put(b"part")

    saver = threading.Thread(target=save, name="saver", daemon=True)
    saver.start()
    saver.join()


def read_a_pipe(rank: int) -> None:
    if rank == 3:
        os.mkfifo(HERE / "samples.fifo")
        (HERE / "samples.fifo").read_bytes()


def wait_for_a_key(rank: int) -> None:
    """Rank 1 waits for a key of the store that nobody sets."""
    if rank == 1:
        store = dist.distributed_c10d._get_default_store()
        store.wait(["vocabulary"], timedelta(seconds=NEVER_S))


def raise_beside_a_thread(rank: int) -> None:
    """Rank 1 raises; its process does not end, as a thread of it never does."""
    if rank == 1:
        threading.Thread(target=time.sleep, args=(NEVER_S,), name="uploader").start()
        raise ValueError("loss is not finite")


def print_into_a_full_pipe(rank: int) -> None:
    """Rank 0 prints into a pipe whose reader has stopped reading."""
    if rank != 0:
        return
    reader, writer = os.pipe()
    subprocess.Popen(["sleep", str(NEVER_S)], stdin=reader)
    os.close(reader)
    os.dup2(writer, 1)
    for step in range(10**6):
        print(f"sample {step} is too long", flush=True)


def compile_a_kernel(rank: int) -> None:
    """All ranks wait for compilers, which work for a minute."""
    work = f"import time\nend = time.time() + 60\nwhile time.time() < end: {rank}"
    subprocess.run([sys.executable, "-c", work], check=True)


def hold_the_gil(rank: int) -> None:
    if rank == 2:
        ctypes.PyDLL(None).sleep(NEVER_S)


def resample(rank: int) -> None:
    """Never find a sample, in a loop of Python."""
    sample = 0
    while rank == 1 and sample >= 0:
        sample = (sample + 1) % 1000


def fill_memory(rank: int) -> None:
    kept = []
    while rank == 1:
        kept.append(bytearray(b"x" * (8 << 20)))
        time.sleep(0.02)


def wait_for_a_file_lock(rank: int) -> None:
    if rank == 2:
        with (HERE / "cache.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)


def debug(rank: int) -> None:
    if rank == 0:
        breakpoint()


def run_a_command(rank: int) -> None:
    if rank == 3:
        subprocess.run(["sleep", str(NEVER_S)], check=True)


def resolve_a_name(rank: int) -> None:
    while rank == 1 and not (HERE / "silent").exists():
        time.sleep(0.1)
    if rank == 1:
        socket.getaddrinfo("data.example.org", 443)


def evaluate(rank: int) -> None:
    """Evaluate on rank 0 for a minute while the others wait for the result."""
    until = time.monotonic() + 60
    matrix = torch.ones(500, 500)
    while rank == 0 and time.monotonic() < until:
        matrix = (matrix @ matrix).clamp(0, 1)
    dist.broadcast(torch.ones(1), 0)


def save_slowly(rank: int) -> None:
    """Save on rank 0 for a minute while the others wait in a barrier."""
    until = time.monotonic() + 60
    with (HERE / "checkpoint.pt").open("wb") as file:
        while rank == 0 and time.monotonic() < until:
            file.seek(0)
            file.write(os.urandom(4 << 20))
            os.fsync(file.fileno())
            time.sleep(0.3)
    dist.barrier()


def pause_once(rank: int) -> None:
    if rank == 1:
        time.sleep(12)


FAULTS: dict[str, Any] = {
    "begin": begin,
    "end": end,
    "send": send,
    "receive": receive,
    "reduce": reduce,
    "lock": log_metrics,
    "storage": save_to_storage,
    "full-disk": save_to_full_disk,
    "worker-killed-queue": tokenize_in_a_process,
    "collective": gather_metrics,
    "call-order": cross_groups,
    "uneven-barrier": run_out_of_data,
    "uneven-sleep": run_out_of_data,
    "conditional": evaluate_on_first_rank,
    "shape": reduce_another_shape,
    "unmatched-p2p": skip_a_message,
    "wrong-peer": skip_a_message,
    "skipped-call": skip_a_call,
    "saver": save_in_a_thread,
    "fifo": read_a_pipe,
    "store-key": wait_for_a_key,
    "raised": raise_beside_a_thread,
    "full-pipe": print_into_a_full_pipe,
    "healthy-compile": compile_a_kernel,
    "gil": hold_the_gil,
    "loop": resample,
    "host-oom": fill_memory,
    "file-lock": wait_for_a_file_lock,
    "debugger": debug,
    "subprocess": run_a_command,
    "resolver": resolve_a_name,
    "healthy-evaluation": evaluate,
    "healthy-checkpoint": save_slowly,
    "healthy-pause": pause_once,
}
