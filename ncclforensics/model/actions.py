"""What to do about a finding, as data: `verdict.actions` selects and completes it.

A diagnoser gives actions in its order of preference. Blanks stand for what belongs to
the finding: `{own}` is the command that shows the culprit's own log where it ends,
`{cited}` the one for the first cited line of a log; `{host}` and `{pid}` are those of
the first culprit, `{who}` names the culprits in words, `{site}` the place in the code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from shlex import quote
from typing import Literal

Where = Literal["anywhere", "host", "process"]
Only = Literal[
    "always", "alive", "no dumps", "infiniband", "no infiniband", "slurm", "no slurm"
]


@dataclass(frozen=True, slots=True)
class Action:
    """One action: a shell command, or a sentence.

    `instead` is said where a blank of `do` cannot be filled in; without it, the action
    is left out. A command `at` "host" is for the culprit's machine, one at "process"
    for where its process runs, which may be a pod. `only` is the condition on which it
    helps at all.
    """

    do: str
    instead: str = ""
    at: Where = "anywhere"
    only: Only = "always"

    def __str__(self) -> str:
        """Return the action with its blanks as they are."""
        return self.do


OWN_LOG = Action("{own}", "find the log of {who}: no line of it is in this evidence")
CITED = Action("{cited}", "read the cited line and what stands around it")
STACK = Action(
    "py-spy dump --pid {pid}",
    "py-spy dump --pid PID   # of {who}, while it hangs",
    at="process",
    only="alive",
)
NATIVE_STACK = replace(
    STACK,
    do=STACK.do.replace("dump", "dump --native"),
    instead=STACK.instead.replace("dump", "dump --native"),
)
DUMPS = Action(
    "export TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1", only="no dumps"
)
XIDS = Action("dmesg -T | grep -i xid", at="host")


def drain(reason: str) -> Action:
    """Return the action that takes the culprit's host out of the scheduler's hands."""
    return Action(
        f"scontrol update NodeName={{host}} State=DRAIN Reason={quote(reason)}"
        "   # or: kubectl cordon {host}",
        "drain that host before it takes jobs again",
    )
