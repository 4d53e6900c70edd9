"""The commands that need no evidence: explain, classes, schema, grammars."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ncclforensics.cli import options, stdout
from ncclforensics.model.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

PIPED = 1000  # cells


@click.command(
    epilog=options.examples(
        "ncclforensics explain missing-rank",
        "ncclforensics explain wrong-nic | less",
    )
)
@click.argument("slug", metavar="CLASS", shell_complete=options.slugs)
@options.color
def explain(slug: str, color: stdout.Colour) -> int:
    """Say what a failure class means, how we know it, and what to do.

    CLASS is what the first line of an answer begins with, also `inconclusive` and
    `no-failure`; `ncclforensics classes` lists all classes.
    """
    from ncclforensics.diagnosers import CLASSES
    from ncclforensics.diagnosers.choice import known
    from ncclforensics.report.explain import render_class
    from ncclforensics.report.outcomes import PAGES, render_outcome

    if slug in PAGES:
        told = render_outcome(slug, width=_prose(), colour=stdout.coloured(color))
        stdout.write(told)
        return ExitCode.OK
    entry, colour = CLASSES[known(slug)], stdout.coloured(color)
    stdout.write(render_class(entry, width=_prose(), colour=colour))
    return ExitCode.OK


@click.command(
    epilog=options.examples(
        "ncclforensics classes", "ncclforensics classes | grep network"
    )
)
def classes() -> int:
    """List the failure classes: name, family, and one line on each."""
    from ncclforensics.diagnosers import CLASSES
    from ncclforensics.report.explain import render_classes

    # in a pipe a class stays on one line, for grep
    width = PIPED if stdout.width() is None else _prose()
    stdout.write(render_classes(CLASSES, width=width))
    return ExitCode.OK


@click.command(
    epilog=options.examples(
        "ncclforensics schema > report-v1.json",
        "ncclforensics schema | jq '.\"$defs\" | keys'",
    )
)
def schema() -> int:
    """Print the JSON Schema of the JSON report.

    It is in the wheel as well: importlib.resources.files("ncclforensics") /
    "schemas/report-v1.json".
    """
    from ncclforensics.report.formats import as_json

    stdout.write(as_json.schema(), utf8=True)
    return ExitCode.OK


def _prose() -> int:
    """Return the width of prose: that of the terminal, within 60 to 100 cells."""
    return min(max(stdout.width() or 80, 60), 100)


@click.group()
def grammars() -> None:
    """Check the grammars of log messages, or a log against them."""


@grammars.command(
    epilog=options.examples(
        "ncclforensics grammars check",
        "ncclforensics grammars check my-launcher.toml",
        "ncclforensics grammars check rank_3.log | less",
    )
)
@click.argument("files", metavar="[FILE|LOG]...", nargs=-1, type=click.Path())
def check(files: Sequence[str]) -> int:
    """Verify grammars, or show which message each line of a log is.

    A .toml is a grammar, any other file a log. Without a file, the grammars that are
    shipped are verified. Exits with 2 where one is wrong.
    """
    from ncclforensics.parsers.logs import grammar
    from ncclforensics.parsers.logs import grammar_check as checker

    folder = grammar.grammar_folder()
    paths = [Path(file) for file in files] or sorted(folder.glob("*.toml"))
    code = ExitCode.OK
    for path in paths:
        if not path.is_file():
            raise UsageError(f"no such file: {path}")
        if path.suffix != ".toml":
            for number, message, text in checker.matches(path):
                stdout.write(f"{path.name}:{number}  {message}  {text}\n")
            continue
        problems = checker.check_file(path)
        code = ExitCode.USAGE if problems else code
        for told in problems or ["ok"]:
            stdout.write(f"{path.name}: {told}\n")
    return code
