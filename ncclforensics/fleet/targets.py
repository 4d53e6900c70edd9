"""Which nodes are asked, and by which tool: what the options of a command say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ncclforensics.fleet import kubernetes, ray, slurm, ssh
from ncclforensics.fleet.runner import AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.fleet.nodes import Node

By = Literal["slurm", "kubernetes", "ssh", "ray"]
LIMIT_S = 120.0  # a collector is done in 15 s; the rest is for a busy scheduler


@dataclass(frozen=True, slots=True)
class Target:
    """The nodes to ask: by which tool, and the job, selector or host file.

    `limit` is how many seconds each node has, `at_once` how many are asked together.
    """

    by: By
    what: str = ""
    namespace: str | None = None
    limit: float = LIMIT_S
    at_once: int = AT_ONCE


@dataclass(frozen=True, slots=True)
class Listed:
    """The nodes of a target, and with Kubernetes its pods."""

    nodes: Sequence[Node]
    pods: Sequence[dict[str, Any]] = ()


def listed(target: Target, arguments: Sequence[str]) -> Listed:
    """Return the nodes, each with the command that runs a script with `arguments`.

    Raises UsageError if the tool does not list them.
    """
    if target.by == "slurm":
        return Listed(slurm.nodes(target.what, arguments, target.limit))
    if target.by == "kubernetes":
        pods = kubernetes.pods(target.what, target.namespace)
        return Listed(kubernetes.nodes(pods, arguments), pods)
    if target.by == "ray":
        return Listed(ray.nodes(arguments))
    return Listed(ssh.nodes(target.what, arguments))
