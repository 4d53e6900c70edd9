"""Nodes of a Slurm job, by srun: one task a node, beside the tasks that run there.

Each node is a step of its own: one step over all nodes would hang with the first node
that does not answer, and mix what all of them send. `--overlap` shares what the job
holds, and needs Slurm 20.11 or later.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ncclforensics.fleet.nodes import PYTHON, Node, listed, once
from ncclforensics.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

OPTIONS = (
    *("--overlap", "--nodes=1", "--ntasks=1"),
    # the folder of the job may lie on the file system that does not answer
    *("--chdir=/", "--mpi=none", "--input=0", "--quiet"),
)
_JOB = re.compile(r"\d+(?:[_+]\d+)?")
RUNS = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED")


def nodes(job: str, arguments: Sequence[str] = (), limit: float = 60) -> list[Node]:
    """Return the nodes of `job`, also of an array's task or a heterogeneous job.

    `limit`, in seconds, also ends the step on the node should srun die. UsageError if
    the job does not run.
    """
    if _JOB.fullmatch(job) is None:
        raise UsageError(f"not the id of a Slurm job: {job}")
    rows = listed(("squeue", "--noheader", "--jobs", job, "--format=%A %T %N"))
    minutes = f"--time={int(limit // 60) + 2}"
    found, states = [], []
    for number, state, *folded in map(str.split, rows.splitlines()):
        states.append(state)
        if state not in RUNS or not folded:
            continue
        for host in listed(("scontrol", "show", "hostnames", folded[0])).split():
            reach = ("srun", f"--jobid={number}", *OPTIONS, minutes)
            argv = (*reach, f"--nodelist={host}", *PYTHON, *arguments)
            found.append(Node(host, argv))
    if not found:
        what = f"is {states[0]}" if states else "is not in the queue"
        raise UsageError(f"Slurm job {job} {what}: it has no node to ask")
    return once(found)
