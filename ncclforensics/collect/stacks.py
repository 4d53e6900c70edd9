"""py-spy dumps of the job's processes, with native frames where it can.

py-spy stops a process for the moment of the dump; with --nonblocking it reads beside
the running process instead, and may see a stack that never was.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from ncclforensics.collect.children import Question

if TYPE_CHECKING:
    from ncclforensics.collect.processes import Process

LIMIT_S = 8.0  # the symbols of torch's libraries take seconds the first time
PLAIN_LIMIT_S = 4.0
MOST_WORKERS = 4  # of each rank
ENVIRONMENTS = ("VIRTUAL_ENV", "CONDA_PREFIX")
UNREACHABLE = "Dt"  # states in which a process cannot be attached to
# it would not stop for py-spy: it is stopped, or waits for a server of files
LEFT_ALONE = re.compile(r"^T|request_wait_answer|nfs|rpc_|ll_|ceph_|cifs_|smb2_|gpfs")


def questions(
    processes: list[Process],
    states: dict[int, dict[str, Any]],
    spy: str,
    nonblocking: bool,
) -> tuple[list[Question], dict[str, str]]:
    """Return a question per process, and why others are not asked.

    `states` are those of `state.of` by pid, `spy` is the program. Workers of a rank,
    as of a data loader, count up to MOST_WORKERS.
    """
    asked: list[Question] = []
    why_not: dict[str, str] = {}
    workers: dict[int, int] = {}
    for process in processes:
        if not process.is_main:
            workers[process.rank] = workers.get(process.rank, 0) + 1
            if workers[process.rank] > MOST_WORKERS:
                continue
        told = states.get(process.pid, {})
        letter = str(told.get("state", ""))
        if letter and letter in UNREACHABLE:
            why = f"state {letter}: nothing can attach to it while the kernel holds it"
            why_not[f"stack of {process.label}"] = why
            continue
        dump = [spy, "dump", "--pid", str(process.pid)]
        name, file = f"stack of {process.label}", f"stacks/{process.label}.txt"
        beside = Question(name, [*dump, "--nonblocking"], PLAIN_LIMIT_S, file)
        if nonblocking or LEFT_ALONE.search(f"{letter} {told.get('wchan', '')}"):
            asked.append(beside)
        elif process.is_main:
            asked.append(Question(name, [*dump, "--native"], LIMIT_S, file, beside))
        else:
            asked.append(Question(name, dump, PLAIN_LIMIT_S, file, beside))
    return asked, why_not


def program(processes: list[Process]) -> bytes:
    """Return what to call for py-spy: that of the job's own environment, if it has it.

    Called in a child: a path on a mount that hangs does not answer.
    """
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    for process in processes:
        told = process.environment
        folders += [f"{told[n]}/bin" for n in ENVIRONMENTS if n in told]
        words = process.command.split()
        if words and words[0].startswith("/"):
            folders.append(os.path.dirname(words[0]))
    for folder in dict.fromkeys(folders):
        path = os.path.join(folder, "py-spy")
        if os.access(path, os.X_OK):
            return path.encode()
    return b""
