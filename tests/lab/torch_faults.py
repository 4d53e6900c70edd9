"""The faults of the torch lab's training program, one function each.

A healthy life is: broadcast the weights (call 1 of the default group), then one
all_reduce a step (calls 2, 3, 4, ...). A docstring says what else happens, and
`Job.who` names the ranks that do it.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

LOG = logging.getLogger("train")
ELEMENTS = 1024


@dataclass(frozen=True)
class Job:
    """Who this process is, and which ranks are at fault."""

    rank: int
    who: frozenset[int]
    timeout: timedelta
    odd_elements: int

    @property
    def is_at_fault(self) -> bool:
        return self.rank in self.who

    def group(self, ranks: list[int], name: str) -> dist.ProcessGroup:
        """Make a sub-group; every rank must call this in the same order."""
        group: dist.ProcessGroup = dist.new_group(
            ranks, timeout=self.timeout, group_desc=name
        )
        if self.rank in ranks:
            LOG.info("group %s has ranks %s", name, ranks)
        return group


def broadcast_weights(group: dist.ProcessGroup | None = None) -> None:
    dist.broadcast(torch.zeros(ELEMENTS), src=0, group=group)


def reduce_gradients(
    elements: int = ELEMENTS,
    dtype: torch.dtype = torch.float32,
    group: dist.ProcessGroup | None = None,
) -> None:
    dist.all_reduce(torch.ones(elements, dtype=dtype), group=group)


def train(first: int, last: int) -> None:
    """Train steps `first` to `last`, both included."""
    for step in range(first, last + 1):
        reduce_gradients()
        LOG.info("step %d loss %.4f", step, 2.5 / (step + 1))


def save_checkpoint(seconds: float) -> None:
    """Take so long; all ranks call it and say so, so that no log line betrays one."""
    LOG.info("saving checkpoint to /job/ckpt")
    time.sleep(seconds)


def evaluate() -> None:
    """Average the validation loss over all ranks."""
    LOG.info("evaluating")
    dist.all_reduce(torch.zeros(1))


def check_loss(loss: float) -> None:
    if loss != loss:
        raise ValueError(f"loss is {loss} at step 4, giving up")


def healthy(job: Job) -> None:
    """Nothing goes wrong."""
    train(1, 5)


def at_work(job: Job) -> None:
    """Nothing goes wrong, and each step takes a while."""
    for step in range(1, 121):
        time.sleep(0.1)
        train(step, step)


def healthy_uneven_sizes(job: Job) -> None:
    """Nothing goes wrong, though all_to_all moves other sizes on every rank."""
    world = dist.get_world_size()
    train(1, 2)
    send, receive = [job.rank + 1] * world, [peer + 1 for peer in range(world)]
    source, target = torch.ones(sum(send)), torch.empty(sum(receive))
    dist.all_to_all_single(target, source, receive, send)
    train(3, 4)


def healthy_pipeline(job: Job) -> None:
    """Nothing goes wrong: activations pass through four stages, in two groups."""
    halves = [
        job.group([0, 1], "FIRST_HALF_GROUP"),
        job.group([2, 3], "SECOND_HALF_GROUP"),
    ]
    last = dist.get_world_size() - 1
    for _ in range(3):
        activations = torch.ones(64)
        if job.rank > 0:
            dist.recv(activations, src=job.rank - 1)
        if job.rank < last:
            dist.send(activations, dst=job.rank + 1)
        reduce_gradients(group=halves[job.rank // 2])
    train(1, 1)


def missing_rank(job: Job) -> None:
    """A rank sleeps in its checkpoint while its peers wait in step 4."""
    train(1, 3)
    save_checkpoint(600 if job.is_at_fault else 0)
    train(4, 4)


def stopped_rank(job: Job) -> None:
    """A rank is stopped, as by a debugger, and heeds no signal but SIGKILL."""
    train(1, 3)
    if job.is_at_fault:
        os.kill(os.getpid(), signal.SIGSTOP)
    train(4, 4)


def full_disk(job: Job) -> None:
    """A rank saves to a file system of 1 MiB while its peers go on."""
    train(1, 3)
    if job.is_at_fault:
        torch.save(torch.zeros(1 << 20), "/tmp/ckpt/step_3.pt")
    train(4, 4)


def stalled_checkpoint(job: Job) -> None:
    """A rank saves to a file system that does not answer."""
    train(1, 3)
    if job.is_at_fault:
        LOG.info("saving checkpoint to /mnt/ckpt/step_3.pt")
        torch.save(torch.zeros(1 << 20), "/mnt/ckpt/step_3.pt")
    train(4, 4)


class Shards(Dataset[torch.Tensor]):
    """Eight samples, of which the fourth lies in a file."""

    def __init__(self, file: str) -> None:
        self.file = file

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 3 and self.file:
            Path(self.file).read_bytes()
        return torch.ones(4)


def stalled_loader(job: Job) -> None:
    """A worker of a rank's data loader reads from a file system that does not answer."""
    file = "/mnt/ckpt/shard-000.bin" if job.is_at_fault else ""
    loader = DataLoader(Shards(file), num_workers=1, timeout=4)
    for step, _ in enumerate(loader, 1):
        train(step, step)


def straggler(job: Job) -> None:
    """A rank comes to step 4 after its peers have given up on it."""
    train(1, 3)
    save_checkpoint(job.timeout.total_seconds() + 2.5 if job.is_at_fault else 0)
    LOG.info("checkpoint saved, going on with step 4")
    train(4, 4)


def monitored_barrier(job: Job) -> None:
    """Ranks sleep before a monitored barrier, which names them all."""
    train(1, 3)
    save_checkpoint(600 if job.is_at_fault else 0)
    dist.monitored_barrier(timeout=job.timeout, wait_all_ranks=len(job.who) > 1)


def monitored_barrier_unheard(job: Job) -> None:
    """As above, but rank 0 waits for torch's 30 minutes and never gets to name them."""
    train(1, 3)
    save_checkpoint(600 if job.is_at_fault else 0)
    dist.monitored_barrier()


def collective_mismatch(job: Job) -> None:
    """A rank broadcasts where its peers reduce."""
    train(1, 3)
    if job.is_at_fault:
        broadcast_weights()
    train(4, 4)


def shape_mismatch(job: Job) -> None:
    """A rank reduces a tensor of another length."""
    train(1, 3)
    reduce_gradients(job.odd_elements if job.is_at_fault else ELEMENTS)
    train(5, 5)


def dtype_mismatch(job: Job) -> None:
    """A rank reduces in double precision."""
    train(1, 3)
    reduce_gradients(dtype=torch.float64 if job.is_at_fault else torch.float32)
    train(5, 5)


def crashed_rank(job: Job) -> None:
    """A rank raises in its own code; its peers lose the connection."""
    train(1, 3)
    check_loss(float("nan") if job.is_at_fault else 0.5)
    train(4, 4)


def restart_lost_state(job: Job) -> None:
    """A rank raises in the first attempt; the second begins at step 1 and ends well."""
    train(1, 3)
    is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    check_loss(float("nan") if job.is_at_fault and is_first else 0.5)
    train(4, 8)


def crashed_rank_lingers(job: Job) -> None:
    """A rank raises but its exit handler hangs, so its peers' timeouts end first."""
    if job.is_at_fault:
        atexit.register(time.sleep, 600)
    crashed_rank(job)


def exit_rank(job: Job) -> None:
    """A rank ends itself without a word."""
    train(1, 3)
    if job.is_at_fault:
        os._exit(3)
    train(4, 4)


def exit_rank_silent(job: Job) -> None:
    """As exit_rank, with the code that every uncaught exception gives."""
    train(1, 3)
    if job.is_at_fault:
        os._exit(1)
    train(4, 4)


def exit_in_peace(job: Job) -> None:
    """A rank ends as if all were done; no call of its peers has begun by then."""
    train(1, 3)
    if job.is_at_fault:
        sys.exit(0)
    train(4, 4)


def sigkill_rank(job: Job) -> None:
    """A rank is killed by a signal that it cannot see."""
    train(1, 3)
    if job.is_at_fault:
        os.kill(os.getpid(), signal.SIGKILL)
    train(4, 4)


def segfault_rank(job: Job) -> None:
    """A rank reads address 0 in native code."""
    train(1, 3)
    if job.is_at_fault:
        ctypes.string_at(0)
    train(4, 4)


def chain(job: Job) -> None:
    """A rank sleeps; its group waits for it, and two further groups in turn."""
    groups = [
        (members, job.group(members, name))
        for name, members in (("TP", [0, 1]), ("PP", [0, 2]), ("DP", [2, 3]))
    ]
    for step in (1, 2, 3):
        if step == 3:
            save_checkpoint(600 if job.is_at_fault else 0)
        for members, group in groups:
            if job.rank in members:
                reduce_gradients(group=group)
        LOG.info("step %d loss %.4f", step, 2.5 / (step + 1))


def call_order(job: Job) -> None:
    """Ranks 0 and 1 enter their two groups in opposite order in step 3."""
    tensor, expert = job.group([0, 1], "TP"), job.group([0, 1], "EP")
    train(1, 2)
    if job.rank < 2:
        reduce_gradients(group=tensor)
        reduce_gradients(group=expert)
        order = [expert, tensor] if job.rank == 1 else [tensor, expert]
        reduce_gradients(group=order[0])
        reduce_gradients(group=order[1])
    train(3, 3)


def unused_parameter(job: Job) -> None:
    """A rank leaves one layer out of its forward pass under DDP."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.adapter = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            hidden: torch.Tensor = self.body(batch)
            return hidden if job.is_at_fault else self.adapter(hidden) + hidden

    model = DistributedDataParallel(Model())
    for step in (1, 2):
        model(torch.ones(4, 8)).sum().backward()
        LOG.info("step %d done", step)


def wait_for_everyone(group: dist.ProcessGroup) -> None:
    dist.barrier(group=group)


def gather_scores(group: dist.ProcessGroup) -> None:
    LOG.info("gathering the scores of the validation set")
    scores = [torch.zeros(1) for _ in range(dist.get_world_size(group))]
    dist.all_gather(scores, torch.ones(1), group=group)


def trained_by_ddp(job: Job, aside: Callable[[dist.ProcessGroup], None]) -> None:
    """Train three steps; in the fourth a rank does `aside` in another group instead."""
    control = job.group(list(range(dist.get_world_size())), "control")
    dist.barrier(group=control)
    model = DistributedDataParallel(nn.Linear(8, 8))
    for step in (1, 2, 3, 4):
        if job.is_at_fault and step == 4:
            aside(control)
        loss = model(torch.ones(4, 8)).sum()
        loss.backward()
        LOG.info("step %d loss %.4f", step, 2.5 / (step + 1))
    wait_for_everyone(control)


def ddp_evaluates_alone(job: Job) -> None:
    """A rank gathers scores, while its peers are in the backward pass of step 4."""
    trained_by_ddp(job, gather_scores)


def ddp_uneven_inputs(job: Job) -> None:
    """A rank is out of batches after step 3 and waits for everyone, in another group."""
    trained_by_ddp(job, wait_for_everyone)


def uneven_inputs(job: Job) -> None:
    """A rank has fewer batches, leaves the loop and exits normally."""
    train(1, 3 if job.is_at_fault else 5)
    LOG.info("epoch 1 done")


def uneven_inputs_barrier(job: Job) -> None:
    """A rank has fewer batches and waits at the end of the epoch, in another group."""
    control = job.group(list(range(dist.get_world_size())), "control")
    dist.barrier(group=control)
    uneven_inputs(job)
    dist.barrier(group=control)


def rank_conditional(job: Job) -> None:
    """A rank evaluates on its own with a collective; its peers are done and leave."""
    train(1, 3)
    if job.is_at_fault:
        evaluate()
    LOG.info("training done")


def rank_conditional_barrier(job: Job) -> None:
    """A rank evaluates on its own; its peers wait for it in another group."""
    control = job.group(list(range(dist.get_world_size())), "control")
    dist.barrier(group=control)
    rank_conditional(job)
    dist.barrier(group=control)


def unmatched_p2p(job: Job) -> None:
    """Rank 1 waits for activations that rank 0, already in step 3, never sends."""
    activations = torch.ones(64)
    for step in (1, 2, 3):
        if job.rank == 0 and step < 3:
            dist.send(activations, dst=1)
        if job.rank == 1:
            dist.recv(activations, src=0)
        train(step, step)


FAULTS: dict[str, Callable[[Job], None]] = {
    run.__name__.replace("_", "-"): run
    for run in (
        healthy, at_work, healthy_uneven_sizes, healthy_pipeline, missing_rank, straggler,
        stopped_rank, full_disk, stalled_checkpoint, stalled_loader,
        monitored_barrier, monitored_barrier_unheard,
        collective_mismatch, shape_mismatch, dtype_mismatch,
        crashed_rank, crashed_rank_lingers, restart_lost_state,
        exit_rank, exit_rank_silent, exit_in_peace, sigkill_rank, segfault_rank,
        chain, call_order, unused_parameter, uneven_inputs, uneven_inputs_barrier,
        rank_conditional, rank_conditional_barrier, unmatched_p2p,
        ddp_evaluates_alone, ddp_uneven_inputs,
    )
}  # fmt: skip
