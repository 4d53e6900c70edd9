"""The processes of a job on this node: which they are, and whose rank each is.

A launcher gives each rank its number in the environment, which its children inherit, as
the workers of a data loader do: of those with one number, the topmost Python process is
the rank and the others are its workers. A process above which has a weaker number only,
such as torchrun under srun, launches.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ncclforensics.collect import variables
from ncclforensics.collect.children import Question, ask

if TYPE_CHECKING:
    from collections.abc import Iterator

# a variable that holds the rank, the best first, and one that has to be there as well
RANKS = (
    ("RANK", ("WORLD_SIZE", "MASTER_ADDR", "LOCAL_RANK")),
    ("OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_SIZE",)),
    ("PMIX_RANK", ("PMIX_NAMESPACE",)),
    ("PMI_RANK", ("PMI_SIZE",)),
    ("SLURM_PROCID", ("SLURM_JOB_ID",)),
)
# how each launcher tells the size of the job, and place and number of ranks on a node;
# in the order of RANKS
SIZES = (
    ("WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    (
        *("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    ("", "", ""),
    ("PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"),
)
_EVERYWHERE = re.compile(r"(\d+)(?:\(x\d+\))?")  # `2`, and Slurm's `2(x16)`
# what tells two jobs on one node apart
OF_A_JOB = ("MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID")
PYTHON = re.compile(r"^(?:python|pt_main_thread|ray::)")
SCAN_S = 3.0
MOST_SILENT = 20  # processes of which /proc does not answer before the search ends
NO_RANK = len(RANKS)
_RANKED = {name for name, _ in RANKS}


@dataclass
class Process:
    """A process of the job. `rank` is global, -1 if it is not known."""

    pid: int
    parent: int
    name: str
    command: str
    uid: int
    environment: dict[str, str] = field(default_factory=dict)
    strength: int = NO_RANK  # index of the variable in RANKS that holds the rank
    rank: int = -1
    is_main: bool = True  # of its rank; its workers are not
    is_only: bool = True  # no other job on this node has such a rank
    home: str = ""

    @property
    def sizes(self) -> dict[str, int]:
        """The numbers that its launcher gave it, as far as they are known."""
        names = ("world_size", "local_rank", "local_world_size")
        if self.strength == NO_RANK:
            return {}
        told = [self.environment.get(name, "") for name in SIZES[self.strength]]
        found = [_EVERYWHERE.fullmatch(value) for value in told]
        return {n: int(m[1]) for n, m in zip(names, found) if m is not None}

    @property
    def label(self) -> str:
        """How its files are named."""
        if self.rank < 0:
            return f"pid_{self.pid}"
        if not self.is_main:
            return f"rank_{self.rank}.worker_{self.pid}"
        return f"rank_{self.rank}" + ("" if self.is_only else f".pid_{self.pid}")


@dataclass
class Found:
    """The job's processes, secrets of their environments, and what was not seen."""

    processes: list[Process] = field(default_factory=list)
    secrets: set[str] = field(default_factory=set)
    why_not: list[str] = field(default_factory=list)


def find(pids: set[int], match: str | None, until: float) -> Found:
    """Return the processes of jobs, or those that `pids` and `match` ask for.

    `match` is a regular expression for command lines and for NAME=VALUE of OF_A_JOB. A
    process whose files in /proc do not answer, because it hangs with its memory locked,
    is named and passed over.
    """
    found = Found()
    told: list[Process] = []
    hidden = after = 0
    for _ in range(MOST_SILENT):
        rows, ended = _scan(after, until, pids, match)
        for row in rows:
            if row.get("hidden"):
                hidden += 1
            elif "pid" in row:
                told.append(Process(**row))
        if ended or not rows:
            break
        after = max(row["at"] for row in rows if "at" in row)
        found.why_not.append(f"/proc of process {after} does not answer")
    if hidden:
        found.why_not.append(
            f"the environment of other users' processes cannot be read: {hidden}"
        )
    chosen = _chosen(told, pids, match)
    if doubled := {p.rank for p in chosen if p.rank >= 0 and not p.is_only}:
        found.why_not.append(
            f"ranks of one job alone: {len(doubled)} ranks are there several times;"
            " --match MASTER_PORT=… takes one job"
        )
    for process in chosen:
        found.secrets |= variables.secrets(process.environment)
        process.home = process.environment.get("HOME", "")
        process.environment = variables.kept(process.environment)
    found.processes = sorted(chosen, key=lambda p: (p.rank, not p.is_main, p.pid))
    return found


def _scan(
    after: int, until: float, pids: set[int], match: str | None
) -> tuple[list[dict[str, Any]], bool]:
    """Return what a child read of the processes above `after`, and whether of all."""
    read = partial(_rows, after, pids, match)
    answer = ask(Question("processes", read, SCAN_S), until)
    return lines(answer.data), answer.exit == 0


def lines(data: bytes) -> list[dict[str, Any]]:
    """Return the JSON objects of `data`, one a line, up to one that was cut."""
    rows = []
    with suppress(ValueError):
        for line in data.splitlines():
            rows.append(json.loads(line))  # noqa: PERF401
    return rows


def _rows(after: int, pids: set[int], match: str | None) -> bytes:
    listed = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    for pid in listed:
        if pid <= after:
            continue
        # which one comes next is told first: it may never answer
        os.write(1, json.dumps({"at": pid}).encode() + b"\n")
        row = _row(pid)
        command = str(row.get("command", ""))
        own = row.get("environment", {})
        asked = pid in pids or (match is not None and _fits(match, command, own))
        if not asked and not _RANKED & set(own):
            row.pop("environment", None)  # thousands of them are megabytes
        os.write(1, json.dumps(row).encode() + b"\n")
    return b""


def _fits(match: str, command: str, environment: dict[str, str]) -> bool:
    told = [f"{n}={environment[n]}" for n in OF_A_JOB if n in environment]
    return any(re.search(match, text) for text in (command, *told))


def _row(pid: int) -> dict[str, Any]:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            head, _, rest = file.read().rpartition(b")")
        uid = os.stat(f"/proc/{pid}").st_uid
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read()
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read()
    except PermissionError:
        return {"hidden": True}
    except OSError:
        return {}  # it ended
    return {
        "pid": pid,
        "parent": int(rest.split()[1]),
        "name": _text(head.partition(b"(")[2]),
        "command": _text(command.rstrip(b"\0").replace(b"\0", b" ")),
        "uid": uid,
        "environment": dict(_pairs(environment)),
    }


def _pairs(environment: bytes) -> Iterator[tuple[str, str]]:
    for entry in environment.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals:
            yield _text(name), _text(value)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _chosen(told: list[Process], pids: set[int], match: str | None) -> list[Process]:
    """Return those asked for, with their ranks; by default those that have one."""
    by_pid = {process.pid: process for process in told}
    ours = {os.getpid(), *_above(os.getpid(), by_pid)}
    others = [p for p in told if p.pid not in ours and p.name != "slurmstepd"]
    for process in others:
        _seat(process)
    if pids:
        some = [p for p in others if p.pid in pids]
    else:
        some = _of_jobs(others, match)
        launchers = {
            above
            for p in some
            for above in _above(p.pid, by_pid)
            if by_pid[above].strength > p.strength
        }
        some = [p for p in some if p.pid not in launchers]
    _find_mains(some, by_pid)
    return some


def _of_jobs(others: list[Process], match: str | None) -> list[Process]:
    """Return those that `match` fits, or that have a rank."""
    if match is not None:
        return [p for p in others if _fits(match, p.command, p.environment)]
    ranked = [p for p in others if p.rank >= 0 and not _is_sibling(p)]
    # within a job of Slurm, other jobs on the node are not meant
    job = os.environ.get("SLURM_JOB_ID", "none")
    return [p for p in ranked if p.environment.get("SLURM_JOB_ID") == job] or ranked


def _seat(process: Process) -> None:
    told = process.environment
    for strength, (name, others) in enumerate(RANKS):
        if told.get(name, "").isdigit() and any(other in told for other in others):
            process.rank, process.strength = int(told[name]), strength
            return


def _is_sibling(process: Process) -> bool:
    """Whether it was started by the same `srun` as this program."""
    step = ("SLURM_JOB_ID", "SLURM_STEP_ID")
    return (
        process.strength == NO_RANK - 1
        and "SLURM_STEP_ID" in os.environ
        and all(process.environment.get(n) == os.environ.get(n) for n in step)
    )


def _above(pid: int, by_pid: dict[int, Process]) -> list[int]:
    found: list[int] = []
    while pid in by_pid and (pid := by_pid[pid].parent) in by_pid and pid not in found:
        found.append(pid)
    return found


def _find_mains(some: list[Process], by_pid: dict[int, Process]) -> None:
    """Tell the main process of each rank from its workers and shells."""
    of_rank: dict[tuple[object, ...], list[Process]] = {}
    for process in some:
        job = tuple(process.environment.get(name) for name in OF_A_JOB)
        key = (process.rank, *job) if process.rank >= 0 else (-1, process.pid)
        of_rank.setdefault(key, []).append(process)
    for processes in of_rank.values():
        python = [p for p in processes if PYTHON.match(p.name)] or processes
        top = min(python, key=lambda p: (len(_above(p.pid, by_pid)), p.pid))
        for process in processes:
            process.is_main = process is top
    of_number = Counter(process.rank for process in some if process.is_main)
    for process in some:
        process.is_only = of_number[process.rank] == 1
