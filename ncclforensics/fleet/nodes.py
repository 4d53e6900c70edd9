"""What every tool tells of a node: its name, and the command that reaches it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncclforensics.model.errors import UsageError, reason
from ncclforensics.model.folding import natural

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LIST_S = 60  # until the tool has listed the nodes; a busy slurmctld takes its time

# What runs on a node: Python reads the script from stdin. -I keeps it from the user's
# site packages, whose file system may be the one that does not answer.
PYTHON = ("python3", "-I", "-")


@dataclass(frozen=True, slots=True)
class Node:
    """A node, and the command that runs a script of stdin there.

    Without `argv` the tool knows that the node cannot be asked, and `why_not` says it.
    """

    name: str
    argv: tuple[str, ...] = ()
    why_not: str = ""


def once(nodes: Iterable[Node]) -> list[Node]:
    """Return each node once, in the natural order of their names."""
    named = {node.name: node for node in nodes}
    return [named[name] for name in sorted(named, key=natural)]


def listed(argv: Sequence[str]) -> str:
    """Return what a tool prints; UsageError if it fails or does not end."""
    try:
        done = subprocess.run(
            argv, capture_output=True, timeout=LIST_S, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as caught:
        raise UsageError(f"{argv[0]} did not answer within {LIST_S} s") from caught
    except OSError as caught:
        raise UsageError(f"{argv[0]}: {reason(caught)}") from caught
    if done.returncode:
        raise UsageError(last_line(done.stderr) or f"{argv[0]} exits {done.returncode}")
    return done.stdout.decode("utf-8", "replace")


def last_line(said: bytes) -> str:
    """Return the last line of what a tool wrote to stderr, at most 300 characters."""
    lines = said.decode("utf-8", "replace").split("\n")
    told = [re.sub(r"[\x00-\x1f\x7f]+", " ", line).strip() for line in lines]
    return next((line[:300] for line in reversed(told) if line), "")
