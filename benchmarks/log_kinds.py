"""What jobs print most: one step of the training as each program logs it.

Each function returns the lines that one rank prints in a step, ended by LF or, where a
progress bar redraws, by CR. The formats are those of the programs: Megatron-LM's
`training_log`, NeMo's and Lightning's progress bars, tqdm, the dicts of transformers'
`Trainer`, DeepSpeed's timers, NCCL at INFO with COLL, and a store's access log.
"""

from __future__ import annotations

import random
from collections.abc import Callable

Step = Callable[[random.Random, int, int, str], str]


def clock(step: int) -> str:
    """Return the time of a step: two seconds each."""
    second = 2 * step
    hour = second // 3600
    day, hms = 1 + hour // 24 % 28, f"{hour % 24:02d}:{second // 60 % 60:02d}"
    return f"2026-11-{day:02d} {hms}:{second % 60:02d}"


def mixed(chance: random.Random, step: int, rank: int, head: str) -> str:
    """Return a step of a script of its own, and what NCCL says at INFO meanwhile."""
    peer = chance.randrange(256)
    lines = (
        f"[{clock(step)}] step {step}/500000 | loss {chance.random() * 3:.4f} | lr "
        f"1.2e-04 | grad norm {chance.random():.3f} | tokens/s "
        f"{chance.randrange(10**5)}",
        f"INFO:trainer.data:rank {rank} took shard {chance.randrange(10**5):05d} in "
        f"{chance.random() * 9:.3f} s, {chance.randrange(64)} more are queued",
        f"{head}Channel {step % 32:02d}/1 : {rank}[{rank % 8}] -> {peer}[{peer % 8}] "
        "[send] via NET/IB/1/GDRDMA/Shared",
        f"{head}Channel {step % 32:02d}/1 : {peer}[{peer % 8}] -> {rank}[{rank % 8}] "
        "[receive] via NET/IB/1/GDRDMA/Shared",
        f"{head}New proxy send connection {step % 512} from local rank {rank % 8}, "
        "transport 2",
        f"{head}proxyProgressAsync opId=0x{chance.getrandbits(40):x} op.type=1 "
        f"op.reqBuff=0x{chance.getrandbits(40):x} op.respSize=16 done",
    )
    return "".join(f"{line}\n" for line in lines)


def megatron(chance: random.Random, step: int, _: int, __: str) -> str:
    """Return Megatron's line of a step."""
    return (
        f" [{clock(step)}] iteration {step:8d}/  500000 | consumed samples: "
        f"{step * 512:12d} | elapsed time per iteration (ms): "
        f"{1990 + chance.random() * 20:.1f} | learning rate: 1.2E-04 | global batch "
        f"size:   512 | lm loss: {chance.random() * 3:.6E} | loss scale: 1.0 | "
        f"grad norm: {chance.random():.3f} | number of skipped iterations:   0 | "
        "number of nan iterations:   0 |\n"
    )


def nemo(chance: random.Random, step: int, _: int, __: str) -> str:
    """Return NeMo's line of a step."""
    return (
        f"Training epoch 0, iteration {step}/500000 | lr: 1.5e-06 | global_batch_size: "
        f"512 | global_step: {step} | reduced_train_loss: {chance.random() * 3:.4f} | "
        f"train_step_timing in s: {1.99 + chance.random() / 50:.3f} | "
        f"consumed_samples: {step * 512}\n"
    )


def tqdm(chance: random.Random, step: int, _: int, __: str) -> str:
    """Return a bar of tqdm, as Lightning fills it: each redraw begins at CR."""
    end = "\n" if step % 100 == 0 else ""
    return (
        f"\rEpoch {step // 100}: {step % 100:3d}%|{'#' * (step % 100 // 10):10}| "
        f"{step % 100}/100 [{step % 60:02d}:31<03:02,  3.18it/s, v_num=7, "
        f"train_loss={chance.random() * 3:.3f}]{end}"
    )


def transformers(chance: random.Random, step: int, _: int, __: str) -> str:
    """Return what transformers' Trainer prints of a step."""
    return (
        f"{{'loss': {chance.random() * 3:.4f}, 'grad_norm': {chance.random():.6f}, "
        f"'learning_rate': {chance.random() / 1e4:.6e}, 'epoch': {step / 1000:.2f}}}\n"
    )


def deepspeed(chance: random.Random, step: int, rank: int, _: str) -> str:
    """Return DeepSpeed's lines of a step: its timers, rates and learning rate."""
    head = f"[{clock(step)},{chance.randrange(1000):03d}] [INFO] "
    times = [chance.random() * 90 for __ in range(8)]
    return (
        f"{head}[logging.py:128:log_dist] [Rank {rank}] step={step}, skipped=0, "
        f"lr=[1.2e-04], mom=[(0.9, 0.95)]\n"
        f"{head}[timer.py:264:stop] epoch=0/micro_step={step}/global_step={step}, "
        f"RunningAvgSamplesPerSec={times[0]:.6f}, CurrSamplesPerSec={times[1]:.6f}, "
        "MemAllocated=12.34GB, MaxMemAllocated=45.67GB\n"
        f"{head}[logging.py:128:log_dist] [Rank {rank}] time (ms) | fwd_microstep: "
        f"{times[2]:.2f} | bwd_microstep: {times[3]:.2f} | bwd_inner_microstep: "
        f"{times[4]:.2f} | bwd_allreduce_microstep: {times[5]:.2f} | step_microstep: "
        f"{times[6]:.2f}\n"
        f"{head}[logging.py:128:log_dist] [Rank {rank}] time (ms) | fwd: "
        f"{times[2]:.2f} | bwd: {times[3]:.2f} | bwd_inner: {times[4]:.2f} | "
        f"bwd_allreduce: {times[5]:.2f} | step: {times[7]:.2f}\n"
    )


def coll(chance: random.Random, step: int, rank: int, head: str) -> str:
    """Return what NCCL prints of the calls of a step if its subsystem COLL is on."""
    lines = []
    for call in range(3):
        comm = f"0x7f{call:02x}{rank:04x}"
        lines.append(
            f"{head}AllReduce: opCount {step:x} sendbuff 0x7f{chance.getrandbits(40):x}"
            f" recvbuff 0x7f{chance.getrandbits(40):x} count {2 << call} datatype 9 "
            f"op 0 root 0 comm {comm} [nranks=32] stream 0x9cd2e0\n"
        )
    return "".join(lines)


def access(chance: random.Random, step: int, _: int, __: str) -> str:
    """Return a line of a store's access log."""
    return (
        f"10.0.{chance.randrange(256)}.{chance.randrange(256)} - - [{clock(step)}] "
        f'"GET /shards/train-{chance.randrange(10**5):05d}.tar HTTP/1.1" 200 '
        f'{chance.randrange(10**9)} "-" "aws-sdk-python/1.40"\n'
    )


KINDS: dict[str, Step] = {
    step.__name__: step
    for step in (megatron, nemo, tqdm, transformers, deepspeed, coll, access)
}
