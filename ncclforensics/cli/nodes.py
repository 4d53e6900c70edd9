"""Options that name the nodes of a command: --slurm, --k8s, --ssh, --ray."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ncclforensics.cli import console, options
from ncclforensics.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ncclforensics.fleet.targets import By, Target

NAMES = (
    "slurm",
    "k8s",
    "namespace",
    "ssh",
    "ray",
    "printing",
    "node_limit",
    "parallel",
)
TOOLS: dict[str, By] = {"slurm": "slurm", "k8s": "kubernetes", "ssh": "ssh"}

asked = options.adds(
    click.option("--slurm", metavar="JOBID", help="On all nodes of a job, by srun."),
    click.option("--k8s", metavar="SELECTOR", help="In all pods, by kubectl exec."),
    click.option("-n", "--namespace", metavar="NS", help="The namespace of the pods."),
    click.option("--ssh", metavar="HOSTFILE", help="On all hosts of a file, by ssh."),
    click.option("--ray", is_flag=True, help="On all nodes of a cluster, by Ray."),
    click.option("--print", "printing", is_flag=True, help="Print the commands only."),
    click.option(
        "--node-limit",
        metavar="S",
        type=click.FloatRange(min=1),
        help="Seconds until a node counts as one that does not answer.",
    ),
    click.option(
        "--parallel",
        metavar="N",
        type=click.IntRange(1, 256),
        help="Nodes asked at the same time; 32 by default.",
    ),
)


def target(
    *,
    namespace: str | None,
    node_limit: float | None,
    parallel: int | None,
    **tool: Any,
) -> Target | None:
    """Return which nodes the options name, None for this node alone.

    UsageError where they name nodes in two ways, or an option has none to act on.
    """
    from ncclforensics.fleet.targets import Target

    given = {name: tool[name] for name in (*TOOLS, "ray") if tool[name]}
    if len(given) > 1:
        raise UsageError(f"one of --{' and --'.join(given)}, not both")
    if namespace and "k8s" not in given:
        raise UsageError("-n is for --k8s")
    if not given:
        for name, value in (("--node-limit", node_limit), ("--parallel", parallel)):
            if value is not None:
                raise UsageError(f"{name} needs --slurm, --k8s, --ssh or --ray")
        if tool["printing"]:
            raise UsageError("--print needs --slurm, --k8s, --ssh or --ray")
        return None
    ((name, what),) = given.items()
    more: dict[str, Any] = {"limit": node_limit, "at_once": parallel}
    chosen = {key: value for key, value in more.items() if value is not None}
    what = "" if name == "ray" else what
    return Target(TOOLS.get(name, "ray"), what, namespace, **chosen)


def progress(*, enabled: bool) -> Callable[[int, int], None] | None:
    """Return a function (nodes done, nodes in total) that redraws a line, or None."""
    return console.progress(enabled=enabled, what="nodes")
