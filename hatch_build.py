"""Writes the man page from the help of the commands, in every build of a wheel.

A wheel installs it as share/man/man1/ncclforensics.1, where `man` finds it beside a
`bin` that is on the PATH. `python hatch_build.py > ncclforensics.1` writes it alone.
"""

from __future__ import annotations

import inspect
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

if TYPE_CHECKING:
    from collections.abc import Iterator

    import click


class ManPage(BuildHookInterface):
    """Adds the man page to a wheel."""

    def initialize(self, _version: str, build_data: dict[str, Any]) -> None:
        """Write the page, and say where it is installed."""
        sys.path.insert(0, self.root)
        self.folder = tempfile.TemporaryDirectory()
        file = Path(self.folder.name) / "ncclforensics.1"
        file.write_text(page(), "utf-8")
        build_data["shared_data"][str(file)] = f"share/man/man1/{file.name}"

    def finalize(self, *_: object) -> None:
        """Remove the page, which is in the wheel by now."""
        self.folder.cleanup()


def page() -> str:
    """Return the man page of all commands."""
    import click

    from ncclforensics import __doc__ as sentence
    from ncclforensics import __version__
    from ncclforensics.cli.commands import cli

    context = click.Context(cli, info_name="ncclforensics", **cli.context_settings)
    commands = {n: c for n, c in sorted(cli.commands.items()) if not c.hidden}
    summary = plain((sentence or "").strip().rstrip("."))
    lines = [
        f'.TH NCCLFORENSICS 1 "" "ncclforensics {__version__}"',
        *(
            ".SH NAME",
            f"ncclforensics \\- {summary}",
        ),
        *(".SH SYNOPSIS", r"\fBncclforensics\fR [OPTIONS] COMMAND [ARGS]..."),
        *(".SH DESCRIPTION", *prose(cli.help or ""), *options(cli, context)),
        ".SH COMMANDS",
    ]
    for name, command in commands.items():
        lines += described(command, name, context)
    return "\n".join([*lines, ".SH NOTES", *prose(cli.epilog or "")]) + "\n"


def described(command: click.Command, name: str, above: click.Context) -> Iterator[str]:
    """Yield the section of one command, and of all below it."""
    import click

    context = click.Context(command, info_name=name, parent=above)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f'.SS "{plain(context.command_path)} {plain(usage)}"'
    yield from prose(command.help or "")
    yield from options(command, context)
    yield from prose(command.epilog or "")
    for inner, below in getattr(command, "commands", {}).items():
        yield from described(below, inner, context)


def options(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield the options of a command, each with its help."""
    import click

    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record and isinstance(parameter, click.Option):
            yield from (".TP", rf"\fB{plain(record[0])}\fR", plain(record[1]))


def prose(text: str) -> Iterator[str]:
    r"""Yield paragraphs; one that begins with \b stays as it is, as in the help."""
    for part in inspect.cleandoc(text).split("\n\n"):
        verbatim = part.startswith("\b\n")
        yield from (".PP", ".nf") if verbatim else (".PP",)
        yield from (plain(line) for line in part.removeprefix("\b\n").splitlines())
        if verbatim:
            yield ".fi"


def plain(text: str) -> str:
    """Return text in which roff sees no escape, no dash and no command of its own."""
    text = text.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq")
    return re.sub(r"^(?=[.'])", r"\\&", text)


if __name__ == "__main__":
    sys.stdout.write(page())
