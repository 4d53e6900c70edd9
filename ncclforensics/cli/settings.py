"""Settings from a file: defaults for the options of the commands.

`ncclforensics.toml`, or the table `[tool.ncclforensics]` of a `pyproject.toml`, in the
working directory or the nearest one above it. Keys are the names of options, for all
commands at the top and for one command in its table. The command line wins.
"""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ncclforensics.model.errors import UsageError, reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FILE, PROJECT, TABLE = "ncclforensics.toml", "pyproject.toml", "ncclforensics"
# A file may come with someone else's folder. It must not send, keep, run or overwrite
# anything, also not elsewhere, hand the evidence to another machine, choose whose
# processes are looked at, or know the key to their pseudonyms.
ASKED = frozenset(
    (
        *("yes", "force", "output", "link", "new", "dry-run", "executor", "help"),
        *("exec", "attach", "pid", "match", "redact-key", "slurm", "k8s"),
        *("namespace", "ssh", "ray", "keep", "tag", "prune", "collect"),
    )
)
# what changes an answer is said whenever a file sets it
DECIDES = frozenset(
    (
        *("world-size", "select", "ignore", "since", "until", "rank", "pg"),
        *("patience", "store", "hours"),
    )
)


def apply(context: click.Context, file: Path | None) -> str | None:
    """Make the settings of `file`, or of the nearest one, the command's defaults.

    Returns what has to be said: the settings that change what the command answers.
    """
    found = find() if file is None else (file, read(file) or {})
    name, group = context.invoked_subcommand, context.command
    if found is None or name is None or not isinstance(group, click.Group):
        return None
    path, told = found
    check(path, told, group)
    own = told.get(name, {})
    taken = options(group.commands[name]) if name in group.commands else {}
    given = {key: (told | own)[key] for key in taken if key in told or key in own}
    context.default_map = {
        name: {
            str(taken[key].name): _value(f"{path}: {key} for {name}", taken[key], value)
            for key, value in given.items()
        }
    }
    keys = ", ".join(sorted(DECIDES & given.keys()))
    return f"{keys} by default as in {path}" if keys else None


def find() -> tuple[Path, Mapping[str, Any]] | None:
    """Return the nearest file with settings from here upward, and these."""
    try:
        here = Path.cwd()
    except OSError:  # the folder was removed meanwhile
        return None
    for folder in (here, *here.parents):
        for name in (FILE, PROJECT):
            file = folder / name
            # False also in a folder that may not be read, unlike Path.is_file
            if os.path.isfile(file) and (told := read(file)) is not None:
                return file, told
    return None


def read(file: Path) -> Mapping[str, Any] | None:
    """Return the settings in a file; None if it is a project's file without any."""
    import tomllib

    try:
        told = tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as caught:
        raise UsageError(f"{file}: {reason(caught)}") from caught
    if file.name != PROJECT:
        return told
    own: Mapping[str, Any] | None = told.get("tool", {}).get(TABLE)
    return own


def check(file: Path, told: Mapping[str, Any], group: click.Group) -> None:
    """Raise UsageError on a key that is no option, or only taken on the command line.

    Values are checked by the command that takes them: `format` is another in each.
    """
    known = {key for command in group.commands.values() for key in options(command)}
    for key, value in told.items():
        if not isinstance(value, dict):
            _check(file, key, key, known)
        elif key not in group.commands:
            raise UsageError(f"{file}: no command {key!r}{_like(key, group.commands)}")
        else:
            for inner in value:
                _check(file, f"{key}.{inner}", inner, options(group.commands[key]))


def options(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command by their names without dashes."""
    return {
        name.removeprefix("--"): option
        for option in command.params
        if isinstance(option, click.Option)
        for name in option.opts
        if name.startswith("--")
    }


def _check(file: Path, where: str, key: str, known: Iterable[str]) -> None:
    """Raise UsageError if a key is not one that a file may set."""
    if key in ASKED:
        raise UsageError(f"{file}: {where}: --{key} is only taken on the command line")
    if key not in known:
        raise UsageError(f"{file}: no option {where!r}{_like(key, known)}")


def _like(key: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    like = get_close_matches(key, list(known), 1)
    return f"; did you mean {like[0]}?" if like else ""


def _value(where: str, option: click.Option, value: Any) -> Any:
    """Return a value as the option takes it from the command line."""
    if option.is_flag:
        if not isinstance(value, bool):
            raise UsageError(f"{where}: true or false, not {value!r}")
        return value
    if isinstance(value, date):
        value = value.isoformat()
    if option.multiple and not isinstance(value, list):
        value = [value]
    elif isinstance(value, list) and not option.multiple:
        value = ",".join(map(str, value))  # --redact and --rank take commas
    try:
        option.type_cast_value(click.Context(click.Command(None)), value)
    except click.BadParameter as caught:
        raise UsageError(f"{where}: {caught.message}") from caught
    return value
