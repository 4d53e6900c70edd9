"""Writes what a simulated job did as the watchdogs of its ranks would have printed it.

Each group of a rank has a watchdog. It reports the first call of the group that did not
end within its timeout, with the numbers of the last calls enqueued and completed. A
minute after its first report a process is gone, and calls that time out later are not
reported. From torch 2.5 on, the other ranks print that they saw the signal to dump. A
rank in other code prints nothing else. Formats are those of torch 2.1, 2.4 and 2.7;
numbers of messages are those of their group on their rank.
"""

from __future__ import annotations

import math
import os
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from simulate_dumps import EPOCH_NS, TIMEOUT_MS, WRAPPERS, _times, site

if TYPE_CHECKING:
    from pathlib import Path

    from simulate import Group, Op
    from simulate_faults import Case

GONE_SECONDS = 60.0  # from a watchdog's first report to the end of its process
POLL_SECONDS = 0.1
OP_TYPES = {
    "all_reduce": "ALLREDUCE",
    "broadcast": "BROADCAST",
    "_all_gather_base": "_ALLGATHER_BASE",
    "_reduce_scatter_base": "_REDUCE_SCATTER_BASE",
    "all_to_all": "ALLTOALL_BASE",
    "barrier": "ALLREDUCE",
    "send": "SEND",
    "recv": "RECV",
}


@dataclass(frozen=True, slots=True)
class LogStyle:
    """How logs are written.

    `stacks`: the Flight Recorder is on, so that a timeout has its stack. `one_stream`:
    all ranks print into one file, as under `torchrun` without `--redirects`. `steps`:
    who prints steps, `all` ranks or the `first` alone.
    """

    version: str = "2.7"
    stacks: bool = False
    one_stream: bool = False
    steps: str = "first"


@dataclass(frozen=True, slots=True)
class Timeout:
    """A call that a rank's watchdog gave up, at `t` seconds of the job."""

    t: float
    group: int
    op: Op
    seq: int
    enqueued: int
    completed: int
    ran_ms: int


def write(case: Case, folder: Path, style: LogStyle, seed: int = 0) -> None:
    """Write the logs of a case into a folder."""
    dice = random.Random(f"logs {seed}")
    given = [timeouts(case, rank, dice) for rank in range(len(case.job.runs))]
    first = min((t.t for some in given for t in some), default=math.inf)
    texts: list[list[tuple[float, str]]] = []
    for rank, some in enumerate(given):
        lines = steps(case, rank, first) if _prints_steps(style, rank) else []
        kept = [t for t in some if t.t < first + GONE_SECONDS]
        for t in kept:
            lines += _report(case, rank, t, style)
        if not kept and first < math.inf and style.version >= "2.5":
            lines.append((first + 1.0, _observed(case, rank, first + 1.0)))
        texts.append(sorted(lines, key=lambda line: line[0]))
    if style.one_stream:
        together = sorted((line for some in texts for line in some), key=_time)
        _file(folder / "train.log", together)
        return
    for rank, lines in enumerate(texts):
        _file(folder / f"rank_{rank}.log", lines)


def timeouts(case: Case, rank: int, dice: random.Random) -> list[Timeout]:
    """Return the first call of each group of a rank that timed out, the first first."""
    run = case.job.runs[rank]
    if case.cut[rank] < math.inf:
        return []
    counts: dict[tuple[int, bool], int] = {}
    last: dict[int, list[int]] = {}
    open_: dict[int, tuple[int, Op, int]] = {}
    for index in range(len(run.made)):
        op = run.program[index]
        key = (op.group, op.is_p2p)
        seq = counts[key] = counts.get(key, 0) + 1
        place = last.setdefault(op.group, [-1, -1])
        place[0] = seq
        if _times(run, index, math.inf)[1] is not None:
            place[1] = seq
        elif op.group not in open_:
            open_[op.group] = (index, op, seq)
    found = []
    for group, (index, op, seq) in open_.items():
        late = dice.uniform(0, POLL_SECONDS)
        t = run.made[index] + TIMEOUT_MS / 1e3 + late
        ran = TIMEOUT_MS + int(late * 1e3)
        found.append(Timeout(t, group, op, seq, *last[group], ran))
    return sorted(found, key=_time_of)


def steps(case: Case, rank: int, end: float) -> list[tuple[float, str]]:
    """Return the lines of the steps that a rank finished before its end."""
    run = case.job.runs[rank]
    lines, number = [], 0
    for index, op in enumerate(run.program[: len(run.made)]):
        ended = _times(run, index, case.cut[rank])[1]
        if op.site == "loss" and ended is not None and ended < end:
            number += 1
            at = _clock(ended)
            lines.append((ended, f"{at:%Y-%m-%d %H:%M:%S,%f}"[:-3] + f" step {number}"))
    return lines


def _prints_steps(style: LogStyle, rank: int) -> bool:
    return style.steps == "all" or rank == 0


def _report(
    case: Case, rank: int, told: Timeout, style: LogStyle
) -> list[tuple[float, str]]:
    group = case.job.groups[told.group]
    in_group = group.members.index(rank)
    prefix = _prefix(case, rank, group, style)
    numels = [math.prod(told.op.into), math.prod(told.op.out)]
    work = (
        f"WorkNCCL(SeqNum={told.seq}, OpType={OP_TYPES[told.op.name]}, "
        f"NumelIn={numels[0]}, NumelOut={numels[1]}, Timeout(ms)={TIMEOUT_MS}) "
        f"ran for {told.ran_ms} milliseconds before timing out."
    )
    caught = f"[Rank {in_group}] Watchdog caught collective operation timeout: {work}"
    counts = f"{told.enqueued}, last completed"
    said = [caught]
    if style.version >= "2.6":
        said.append(
            f"{prefix} failure detected by watchdog at work sequence id: {told.seq} "
            f"PG status: last enqueued work: {counts} work: {told.completed}"
        )
        said.append(_stack(told.op) if style.stacks else NO_STACK)
    elif style.version >= "2.3":
        said.append(
            f"{prefix}Timeout at NCCL work: {told.seq}, last enqueued NCCL work: "
            f"{counts} NCCL work: {told.completed}."
        )
    name = f"[Rank {in_group}] " if style.version < "2.3" else prefix
    said += [
        f"{name}Some NCCL operations have failed or timed out. Due to the asynchronous "
        "nature of CUDA kernels, subsequent GPU operations might run on "
        "corrupted/incomplete data.",
        f"{name}To avoid data inconsistency, we are taking the entire process down.",
        f"{name}{ENDED[style.version >= '2.3']} watchdog thread terminated with "
        f"exception: {caught}",
    ]
    return [
        (told.t + n * 1e-3, _line(rank, told.t + n * 1e-3, text, style))
        for n, text in enumerate(said)
    ]


ENDED = {False: "NCCL", True: "Process group"}
NO_STACK = (
    "Stack trace of the failed collective not found, potentially because "
    "FlightRecorder is disabled. You can enable it by setting "
    "TORCH_NCCL_TRACE_BUFFER_SIZE to a non-zero value."
)


def _stack(op: Op) -> str:
    frames = [(f.format(op=op.name), *at) for f, *at in (*WRAPPERS, *site(op.site))]
    lines = (
        f"#{n} {name} from {file}:{line}" for n, (name, file, line) in enumerate(frames)
    )
    return "Stack trace of the failed collective: \n" + "\n".join(lines)


def _prefix(case: Case, rank: int, group: Group, style: LogStyle) -> str:
    mine = [g for g in case.job.groups if rank in g.members]
    number, seat = mine.index(group), group.members.index(rank)
    if style.version < "2.5":
        return f"[PG {group.name} ({group.desc}) Rank {seat}] "
    return f"[PG ID {number} PG GUID {group.name}({group.desc}) Rank {seat}] "


def _observed(case: Case, rank: int, t: float) -> str:
    prefix = f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}] "
    text = "Observed flight recorder dump signal from another rank via TCPStore."
    return _line(rank, t, prefix + text, LogStyle())


def _line(rank: int, t: float, text: str, style: LogStyle) -> str:
    at = _clock(t)
    if style.version < "2.3":
        return f"[E ProcessGroupNCCL.cpp:475] {text}"
    stamp = f"{at:%m%d %H:%M:%S.%f}000"
    return f"[rank{rank}]:[E{stamp} ProcessGroupNCCL.cpp:616] {text}"


def _clock(t: float) -> datetime:
    return datetime.fromtimestamp(EPOCH_NS / 1e9 + t, UTC)


def _time(line: tuple[float, str]) -> float:
    return line[0]


def _time_of(told: Timeout) -> float:
    return told.t


def _file(file: Path, lines: list[tuple[float, str]]) -> None:
    file.write_text("".join(f"{text}\n" for _, text in lines), "utf-8")
    when = EPOCH_NS / 1e9 + (lines[-1][0] if lines else 0.0)
    os.utime(file, (when, when))
