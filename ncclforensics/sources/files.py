"""Finds the regular files under the paths that a user gives.

Only regular files are ever opened. Links to directories are not followed, which rules
out loops, nor are links that lead out of the evidence. Everything skipped leaves a
note.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ncclforensics.model.notes import Note
from ncclforensics.sources.names import own_names, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# folders of version control and of Python's bytecode are not evidence
SKIPPED = frozenset({".git", ".hg", ".svn", ".jj", "__pycache__"})

NO_FILE = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@dataclass(frozen=True, slots=True)
class Found:
    """A regular file: its name in the evidence, and the path for `layouts`.

    `layout` starts with the name of the directory that the user gave, which may contain
    a rank or a host.
    """

    name: str
    path: Path
    layout: str


def files(given: Sequence[str]) -> tuple[list[Found], list[Note]]:
    """Find the regular files under the real, distinct paths `given`."""
    notes: list[Note] = []
    found: list[Found] = []
    own = own_names(given)
    for root in given:
        if stat.S_ISDIR(mode := _mode(root)):
            prefix = own[root] + "/" if len(given) > 1 else ""
            found += _under(root, own[root], prefix, notes)
        elif stat.S_ISREG(mode):
            found.append(Found(printable(own[root]), Path(root), own[root]))
        else:
            notes.append(_note(f"{_what(mode)}, not opened", own[root]))
    return found, notes


def _under(root: str, own: str, prefix: str, notes: list[Note]) -> list[Found]:
    inside: dict[str, str] = {}
    links = []
    for name, is_link in _walk(root, prefix, notes):
        if is_link:
            links.append(name)
        else:
            inside[os.path.join(root, name)] = name
    for name in links:
        target = os.path.realpath(os.path.join(root, name))
        if target in inside:
            continue
        mode = _mode(target)
        if not stat.S_ISREG(mode):
            notes.append(_note(f"a link to {_what(mode)}, not followed", prefix + name))
        elif Path(target).is_relative_to(root):
            inside[target] = name
        else:
            text = "a link that leads out of the evidence, not followed"
            notes.append(_note(text, prefix + name))
    return [
        Found(printable(prefix + name), Path(path), f"{own}/{name}")
        for path, name in inside.items()
    ]


def _walk(root: str, prefix: str, notes: list[Note]) -> Iterator[tuple[str, bool]]:
    """Yield every file and link below `root`, and whether it is a link."""
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            text = f"the directory cannot be read: {error.strerror}"
            notes.append(_note(text, prefix + folder))
            continue
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in SKIPPED:
                    pending.append(name)
            elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                yield name, entry.is_symlink()
            else:
                text = f"{_what(_mode(entry.path))}, not opened"
                notes.append(_note(text, prefix + name))


def _note(text: str, name: str) -> Note:
    return Note("sources", text, printable(name) or None)


def _mode(path: str) -> int:
    try:
        return os.stat(path).st_mode
    except (OSError, ValueError):
        return 0


def _what(mode: int) -> str:
    return NO_FILE.get(stat.S_IFMT(mode), "nothing")
