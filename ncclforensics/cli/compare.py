"""The command that lays two runs beside each other: diff."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from ncclforensics.cli import console, options, stdout
from ncclforensics.model.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ncclforensics.tui.load import Loaded, Request


@click.command(
    epilog=options.examples(
        "ncclforensics diff ./yesterday ./today",
        "ncclforensics diff ./logs              # the last two attempts in it",
        "ncclforensics diff ./logs#0 ./logs#2   # two attempts",
        "ncclforensics diff saved.json ./logs -f json | jq .differences",
    )
)
@click.option(
    *("-f", "--format", "form"),
    type=click.Choice(("text", "json")),
    default="text",
    help="What to print.",
)
@click.option("-v", "--verbose", is_flag=True, help="Print all, with file:line.")
@options.redacts
@options.reading
@options.color
@options.no_progress
@click.argument("sides", metavar="A [B]", nargs=-1, required=True, type=click.Path())
def diff(
    sides: Sequence[str],
    form: Literal["text", "json"],
    verbose: bool,
    redact: str | None,
    jobs: int | None,
    no_cache: bool,
    color: stdout.Colour,
    no_progress: bool,
) -> int:
    """Say what is different between two runs, attempts or incidents.

    A and B are evidence, saved reports, or exports with frames; A#NAME is one attempt
    or one job of several in A. Compared are both answers, hosts, versions, variables,
    the network that NCCL uses, groups and calls, how far each rank came, exits, and
    the kinds of lines that a healthy job does not print.

    A variable or version that is not printed is not told: it is - in the table.
    """
    from ncclforensics.diff.compare import compare
    from ncclforensics.diff.sides import Reading, pair
    from ncclforensics.diff.text import render
    from ncclforensics.engine.interrupts import scratch_folder
    from ncclforensics.report.redact import Redactor, kinds
    from ncclforensics.report.redact_frames import learn

    if len(sides) > 2:
        raise UsageError("diff takes two sides, A and B")
    redactor = Redactor(kinds(redact))
    with scratch_folder() as scratch, options.processes(jobs) as executor:
        progress = console.progress(enabled=not no_progress)
        reading = Reading(scratch, executor, options.kept(no_cache), progress)
        a, b = pair(tuple(sides), reading)
        console.wipe()
        found = compare(a, b)
        for side in (a, b):
            redactor.learn(side.report)
            if side.frames is not None:
                learn(redactor, side.frames)
    found = redactor.struct(found)
    if form == "json":
        from ncclforensics.report.formats.as_json import indented

        stdout.write(indented(found), utf8=True)
    else:
        colour = stdout.coloured(color)
        told = render(found, width=stdout.width(), colour=colour, verbose=verbose)
        stdout.write(told)
    codes = [console.ended(s.report, interrupted=s.interrupted) for s in (a, b)]
    return max(codes, default=ExitCode.OK)


def attempts(asked: Request, part: str, here: Loaded, scratch: Path, width: int) -> str:
    """Return what differs between another attempt or job and the one that is loaded.

    Raises UsageError if the evidence is not there any more.
    """
    from ncclforensics.analysis import analyze
    from ncclforensics.diff.compare import compare
    from ncclforensics.diff.sides import Side
    from ncclforensics.diff.text import render

    assert here.timeline is not None
    other = analyze(
        asked.paths,
        executor=asked.executor,
        select=asked.select,
        ignore=asked.ignore,
        scratch=scratch,
        kept=asked.kept,
        part=part,
    )
    name = f"attempt {part}" if part.isdecimal() else part
    a = Side(name, other.report, other.frames)
    b = Side("this one", here.report, here.timeline.frames)
    return render(compare(a, b), width=width)
