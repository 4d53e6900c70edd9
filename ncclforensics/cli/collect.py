"""The `collect` command: what this node tells of a job that hangs now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ncclforensics.cli.options import examples


@click.command(
    epilog=examples(
        "ncclforensics collect -o ./hang",
        "ncclforensics collect -o ./hang --again 60   # twice: slow, or stuck?",
        "ncclforensics collect -o ./hang --match train.py",
        "ncclforensics analyze ./hang",
    )
)
@click.option(
    *("-o", "--output"),
    metavar="DIR",
    required=True,
    type=click.Path(path_type=Path),
    help="Written to DIR/HOST.",
)
@click.option("--pid", type=int, multiple=True, help="This process; repeat it.")
@click.option("--match", metavar="REGEX", help="Processes with such a command line.")
@click.option("--again", metavar="S", type=float, help="Look again S seconds later.")
@click.option(
    "--limit", metavar="S", type=float, default=60.0, help="Seconds for each look."
)
@click.option(
    "--nonblocking", is_flag=True, help="py-spy does not stop a process to look at it."
)
@click.option(
    "--redact", metavar="KINDS", help="Put pseudonyms for hosts,ips,users,paths or all."
)
@click.option("--redact-key", metavar="KEY", help="The same KEY, the same pseudonyms.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing.")
def collect(output: Path, **asked: Any) -> int:
    """Collect what this node can tell of a job that hangs now.

    Takes the processes that have RANK, LOCAL_RANK or MASTER_ADDR in their environment
    (or a rank of Slurm, Open MPI or PMI): state, sockets, py-spy stacks, Flight
    Recorder dumps, the files behind stdout and stderr; and of the node GPUs, network,
    kernel log, disks and mounts. Each command has a limit, none needs root, nothing is
    written outside DIR/HOST, and manifest.json says what could not be had, and why.

    Of the environment only variables of NCCL, torch and launchers are kept; names that
    sound like a secret never are, and their values are replaced wherever they stand.
    """
    from ncclforensics.collect import node

    return node.main(["-o", str(output), *arguments(asked)])


def arguments(asked: dict[str, Any]) -> list[str]:
    """Return the options of this command as the command line of `collect.node`."""
    told: list[str] = []
    for name, value in asked.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            told.append(option)
        elif isinstance(value, tuple):
            told += [part for each in value for part in (option, str(each))]
        elif value not in (None, False):
            told += [option, str(value)]
    return told
