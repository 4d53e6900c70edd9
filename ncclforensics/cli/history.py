"""The `history` command: what happened before, on a node, of a kind, or at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from ncclforensics.cli import console, keeping, options, stdout
from ncclforensics.model.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from ncclforensics.history.results import By, Counts, Listing, Node
    from ncclforensics.history.store import Store

BY = ("host", "gpu", "class", "user", "image", "failure")
# rows; an incident of a node takes three lines of a screen
LIMIT, NODE_LIMIT, JSON_LIMIT = 15, 6, 1000
FORMATS = ("text", "json", "openmetrics")
PRUNE = "prune"


@click.command(
    epilog=options.examples(
        "ncclforensics analyze ./logs --keep /shared/incidents",
        "ncclforensics history /shared/incidents",
        "ncclforensics history /shared/incidents --by host --hours hours.csv",
        "ncclforensics history /shared/incidents --node gpu0078",
        "ncclforensics history ./saved-reports --by failure --since 2026-01-01",
        "ncclforensics history /shared/incidents --prune 2025-01-01",
    )
)
@click.option("--by", type=click.Choice(BY), help="Count them.")
@click.option("--node", metavar="HOST", help="What happened on a host.")
@click.option("--since", metavar="TIME", help="Only from then on, like 2026-01-02.")
@click.option("--until", metavar="TIME", help="Only until then.")
@click.option(
    "--hours",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Node hours from accounting: a CSV file of hosts and hours.",
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    help="Rows at most; in text 15, or 6 incidents of a host.",
)
@click.option(
    "--prune", metavar="TIME", help="Remove what happened before it, for good."
)
@click.option(
    *("-f", "--format", "form"),
    type=click.Choice(FORMATS),
    default="text",
    help="What to print; openmetrics is for a textfile collector.",
)
@options.color
@click.option("--store", hidden=True, envvar=keeping.STORE)
@click.argument("root", metavar="[STORE]", required=False)
def history(
    by: By | None,
    node: str | None,
    since: str | None,
    until: str | None,
    hours: Path | None,
    limit: int | None,
    prune: str | None,
    form: Literal["text", "json", "openmetrics"],
    color: stdout.Colour,
    store: str | None,
    root: str | None,
) -> int:
    """Say what happened before: on a node, of a kind, or at all.

    STORE is a folder into which `--keep` puts what analyses found, or a folder of saved
    JSON reports; by default the one of --keep or --store in the environment,
    NCCLFORENSICS_KEEP or NCCLFORENSICS_STORE. Nothing of it leaves this machine.

    --by counts, and marks with ! who stands out: more faults than chance explains, by
    an exact test that is right for small numbers and for many hosts. The same failure
    again on a host within a day is one fault. --by failure groups what is the same
    class, call and error.
    """
    from ncclforensics.history import store as stores

    where = root or store or os.environ.get(keeping.KEEP)
    if where is None:
        raise UsageError("which store? `ncclforensics history STORE`")
    if sum(map(bool, (by, node, prune))) > 1:
        raise UsageError("--by, --node and --prune are different questions")
    at = Path(where)
    if prune is not None:
        return _prune(at, prune)
    with stores.damage_told(at):
        found = stores.load(at)
        for name in found.unread:
            console.warn(f"{at}: {name} is damaged or gone, and left out")
        if form == "openmetrics":
            from ncclforensics.history.metrics import openmetrics

            stdout.write(openmetrics(found, _hours(hours)), utf8=True)
            return ExitCode.OK
        most = limit or (NODE_LIMIT if node else LIMIT)
        most = most if limit or form == "text" else JSON_LIMIT
        answer = _answer(found, by, node, (since, until), hours, most)
    if form == "json":
        from ncclforensics.report.formats.as_json import indented

        stdout.write(indented(answer), utf8=True)
    else:
        _print(answer, color)
    return ExitCode.OK


def _answer(
    found: Store,
    by: By | None,
    node: str | None,
    times: tuple[str | None, str | None],
    hours: Path | None,
    most: int,
) -> Counts | Listing | Node:
    from ncclforensics.history import counts, door, incidents

    span = options.span(*times)
    if by is not None:
        return counts.counts(found, by, span, _hours(hours), most)
    if node is not None:
        names = door.names(node, found.root)
        return incidents.of_node(found, names, span, most, _hours(hours))
    return incidents.newest(found, span, most)


def _hours(file: Path | None) -> dict[str, float] | None:
    from ncclforensics.history.accounting import node_hours

    return None if file is None else node_hours(file)


def _print(answer: Counts | Listing | Node, color: stdout.Colour) -> None:
    from ncclforensics.history import text
    from ncclforensics.history.results import Counts, Listing

    width, colour = stdout.width(), stdout.coloured(color)
    match answer:
        case Counts():
            told = text.counts(answer, width, colour=colour)
        case Listing():
            told = text.listing(answer, width, colour=colour)
        case _:
            told = text.node(answer, width, colour=colour)
    stdout.write(told)


def _prune(root: Path, before: str) -> int:
    from ncclforensics.history import packing, store
    from ncclforensics.model.folding import count

    if not store.is_one(root):
        raise UsageError(f"{root} is no store that this tool wrote")
    moment = options.span(before, None).since
    assert moment is not None
    gone = count(packing.prune(root, moment), "record")
    console.say(f"Removed {gone} of before {before} from {root}")
    return ExitCode.OK
