"""The `collect` command: what this node tells of a job that hangs now."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ncclforensics.cli import console, nodes, options, stdout
from ncclforensics.cli.options import examples
from ncclforensics.model.errors import ExitCode
from ncclforensics.model.folding import count

if TYPE_CHECKING:
    from ncclforensics.fleet.targets import Target

ENDS_S = 60.0  # to start on a node, to send a share, and to wait for a busy scheduler


@click.command(
    epilog=examples(
        "ncclforensics collect -o ./hang",
        "ncclforensics collect -o ./hang --again 60   # twice: slow, or stuck?",
        "ncclforensics collect -o ./hang --match train.py",
        "ncclforensics collect -o ./hang --slurm 4242     # on all nodes of the job",
        "ncclforensics collect -o ./hang --k8s app=train -n ml",
        "ncclforensics collect -o ./hang --ssh hosts.txt --print",
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
@click.option(
    "--match", metavar="REGEX", help="Processes with such a command or MASTER_PORT=N."
)
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
@nodes.asked
@options.no_progress
def collect(output: Path, no_progress: bool, **asked: Any) -> int:
    """Collect what this node can tell of a job that hangs now.

    Takes the processes that have RANK, LOCAL_RANK or MASTER_ADDR in their environment
    (or a rank of Slurm, Open MPI or PMI): state, sockets, py-spy stacks, Flight
    Recorder dumps, the files behind stdout and stderr; and of the node GPUs, network,
    kernel log, disks and mounts. Each command has a limit, none needs root, nothing is
    written outside DIR/HOST, and manifest.json says what could not be had, and why.

    Of the environment only variables of NCCL, torch and launchers are kept; names that
    sound like a secret never are, and their values are replaced wherever they stand.

    --slurm, --k8s, --ssh and --ray do the same on all nodes of a job at once: python3
    is all that a node needs, and nothing stays there. A node that does not answer is
    named in DIR/fleet.json, which `analyze` reads.
    """
    tool = {name: asked.pop(name) for name in nodes.NAMES}
    target = nodes.target(**tool)
    if target is not None:
        if tool["node_limit"] is None:
            target = replace(target, limit=_long(asked["limit"], asked["again"]))
        hushed = no_progress or asked["quiet"]
        return _fleet(target, output, asked, tool["printing"], hushed=hushed)
    from ncclforensics.collect import node

    return node.main(["-o", str(output), *arguments(asked)])


def _long(look: float, again: float | None) -> float:
    """Return how long a node may take, in seconds: its looks, and a busy scheduler."""
    return look + ENDS_S if again is None else again + look + ENDS_S


def _fleet(
    target: Target,
    output: Path,
    asked: dict[str, Any],
    printing: bool,
    *,
    hushed: bool,
) -> int:
    """Collect on all nodes, and say how many answered; or print the commands."""
    from ncclforensics.collect.redaction import KINDS, Redactor
    from ncclforensics.fleet import gather, printed

    redactor = None
    if asked["redact"]:
        # one key for all nodes: the same name gets the same pseudonym
        asked["redact_key"] = asked["redact_key"] or secrets.token_hex(16)
        kinds = frozenset(asked["redact"].split(","))
        kinds = frozenset(KINDS) if "all" in kinds else kinds
        redactor = Redactor(kinds, asked["redact_key"].encode())
    own = [*arguments({**asked, "quiet": True})]
    if printing:
        told = ("--tar", *own)
        lines = printed.lines(target, gather.COLLECT, told, str(output), ".tar")
        stdout.write("\n".join(lines) + "\n")
        return ExitCode.OK
    show = nodes.progress(enabled=not hushed)
    began = time.monotonic()
    try:
        answers = gather.gather(target, own, output, redactor, show)
    except KeyboardInterrupt:
        console.wipe()
        console.warn(f"interrupted; what came by then is in {output}")
        return ExitCode.INTERRUPTED
    console.wipe()
    came = [answer for answer in answers if answer.kind in ("share", "part")]
    for answer in answers:
        if answer.why:
            console.warn(f"{answer.node}: {answer.why}")
    if not asked["quiet"]:
        size = sum(answer.bytes for answer in came) / 2**20
        console.say(
            f"{len(came):,} of {count(len(answers), 'node')} answered, {size:.1f} MiB "
            f"in {time.monotonic() - began:.0f} s; ncclforensics analyze {output}"
        )
    return ExitCode.OK if came else ExitCode.NO_EVIDENCE


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
