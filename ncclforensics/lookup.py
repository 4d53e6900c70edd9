"""The commands that need no evidence: the classes, and the grammars."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ncclforensics import stdout
from ncclforensics.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


def known(slug: str) -> str:
    """Return `slug` if it is a class; UsageError with what is like it if not."""
    from difflib import get_close_matches

    from ncclforensics.diagnosers import CLASSES

    if slug in CLASSES:
        return slug
    like = " or ".join(get_close_matches(slug, CLASSES, cutoff=0.5))
    hint = f"did you mean {like}? " if like else ""
    raise UsageError(f"no class {slug!r}; {hint}`ncclforensics classes` lists them")


@click.command()
@click.argument("slug", metavar="CLASS")
@click.option("--color", type=click.Choice(stdout.COLOURS), default="auto")
def explain(slug: str, color: stdout.Colour) -> int:
    """Say what a failure class means, how we know it, and what to do."""
    from ncclforensics.diagnosers import CLASSES
    from ncclforensics.report.explain import render_class

    entry, colour = CLASSES[known(slug)], stdout.coloured(color)
    stdout.write(render_class(entry, width=_prose(), colour=colour))
    return ExitCode.OK


@click.command()
def classes() -> int:
    """List the failure classes."""
    from ncclforensics.diagnosers import CLASSES
    from ncclforensics.report.explain import render_classes

    stdout.write(render_classes(CLASSES, width=_prose()))
    return ExitCode.OK


def _prose() -> int:
    """Return how wide prose is printed: at the terminal's width, 60 to 100 cells."""
    return min(max(stdout.width() or 80, 60), 100)


@click.group()
def grammars() -> None:
    """Work with the grammars of log messages."""


@grammars.command()
@click.argument("files", metavar="[FILE|LOG]...", nargs=-1)
def check(files: Sequence[str]) -> int:
    """Verify grammars (.toml); show which message each line of any other file is.

    Without a file, verify the grammars that are shipped. Exits 2 where one is wrong.
    """
    from ncclforensics import grammar
    from ncclforensics.parsers import check as checker

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
