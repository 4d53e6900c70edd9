"""The commands before a job starts: preflight and prepare."""

from __future__ import annotations

from typing import Any

import click

from ncclforensics.cli import console, nodes, options, stdout
from ncclforensics.model.errors import ExitCode

# of the table in preflight/prepare.py, which --help does not import
LAUNCHERS = ("torchrun", "slurm", "kubernetes", "ray")


@click.command(
    epilog=options.examples(
        "ncclforensics preflight || exit 1          # in a prolog",
        "ncclforensics preflight --slurm $SLURM_JOB_ID",
        "ncclforensics preflight --k8s app=train -n ml",
        "ncclforensics preflight --ssh hosts.txt -f json | jq .differences",
    )
)
@nodes.asked
@click.option(
    *("-f", "--format", "form"),
    type=click.Choice(("text", "json")),
    default="text",
    help="What to print.",
)
@click.option("-v", "--verbose", is_flag=True, help="Print good checks as well.")
@options.no_progress
def preflight(form: str, verbose: bool, no_progress: bool, **asked: Any) -> int:
    """Check nodes before a job starts: exits with 1 where a check fails.

    Looks at interfaces, NCCL's and Gloo's variables, MASTER_ADDR, /dev/shm, limits,
    room for dumps, the clock, GPUs and the fabric manager of this node, or of all nodes
    of a job. Of several nodes it says what differs, and which node is the odd one.

    What a node does not tell is unknown, and no failure. A node that does not answer is
    one.
    """
    from ncclforensics.preflight import flight, told

    target = nodes.target(**asked)
    if target is None:
        found = flight.alone()
    elif asked["printing"]:
        from ncclforensics.fleet import printed

        lines = printed.lines(target, flight.NODE, (), "preflight", ".json")
        stdout.write("\n".join(lines) + "\n")
        return ExitCode.OK
    else:
        found = flight.fleet(target, nodes.progress(enabled=not no_progress))
        console.wipe()
    text = (
        told.as_json(found) if form == "json" else told.as_text(found, verbose=verbose)
    )
    stdout.write(text, utf8=form == "json")
    return ExitCode.OK if found.is_good else ExitCode.FAILURE_NAMED


@click.command(
    epilog=options.examples(
        "ncclforensics prepare --launcher slurm > job.sh",
        "ncclforensics prepare --launcher kubernetes --logs /mnt/logs",
        "source <(ncclforensics prepare | grep -v ^torchrun)",
    )
)
@click.option(
    "--launcher",
    type=click.Choice(LAUNCHERS),
    default="torchrun",
    help="In whose form.",
)
@click.option("--logs", metavar="DIR", help="The folder for logs and dumps.")
def prepare(launcher: str, logs: str | None) -> int:
    """Print the environment that makes a hang explain itself.

    Flight Recorder, NCCL_DEBUG, timeouts and the log folder, each with its reason, its
    cost and its default, in the form that the launcher takes.
    """
    from ncclforensics.preflight.prepare import render

    stdout.write(render(launcher, logs))
    return ExitCode.OK
