"""Takes the shares of all nodes into one folder: a tar stream becomes a folder of it.

What a node sends is not trusted: the rules for archives of evidence hold (no path
outside, no link, no device), and a share has a limit. It is unpacked beside its place
and moved there when it has ended, so that no reader takes half a share for a whole one.
"""

from __future__ import annotations

import json
import re
import shutil
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, cast

from ncclforensics.sources.archive_members import Contents
from ncclforensics.sources.scratch import EndlessError, Scratch
from ncclforensics.sources.tars import take_tar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ncclforensics.fleet.answers import Stream
    from ncclforensics.fleet.nodes import Node

# unpacked bytes of one node: its logs and dumps are far below, an endless one is not
SHARE_BYTES = 4 * 1024**3
INCOMING = ".incoming"


@dataclass(frozen=True, slots=True)
class Share:
    """What came of a node: its own name, its files, and why some are missing.

    `is_again` says that it is another name of a node whose share is there.
    """

    host: str | None
    files: int
    why: str = ""
    is_again: bool = False


class Shares:
    """The folder that the shares of all nodes go into, from several threads at once."""

    def __init__(self, into: Path, name: Callable[[str], str] = str) -> None:
        """Take shares into the folder `into`, which is created.

        `name` returns the name of a node as it may be written.
        """
        self._into = into
        self._name = name
        self._incoming = into / INCOMING
        self._lock = threading.Lock()
        self._incoming.mkdir(parents=True, exist_ok=True)

    def take(self, node: Node, stream: Stream) -> Share:
        """Unpack the tar stream of a node into a folder named after its host."""
        scratch = Scratch(self._incoming, SHARE_BYTES)
        contents = Contents(scratch)
        why = ""
        try:
            take_tar(cast("BinaryIO", stream), contents)
        except EndlessError as caught:
            why = f"it sends without end: {caught}"
        except Exception as caught:  # on damage, tarfile may raise any exception
            why = str(caught) or type(caught).__name__
        told = [
            text if name is None else f"{name}: {text}" for text, name in contents.notes
        ]
        hosts = {name.partition("/")[0] for name in contents.members if "/" in name}
        host = hosts.pop() if len(hosts) == 1 else None
        try:
            files, missed = self._place(node, host, contents)
        finally:
            scratch.remove()
        if files < 0:
            return Share(host, 0, f"is {host}, which has answered", is_again=True)
        return Share(host, files, why or missed or "; ".join(told[:3]))

    def _place(
        self, node: Node, host: str | None, contents: Contents
    ) -> tuple[int, str]:
        """Move the files to their names; return how many, and what went wrong.

        A share that is there already counts as -1.
        """
        if not contents.members:
            return 0, ""
        with self._lock:
            folder = self._folder(node, host, contents)
            if folder is None:
                return -1, ""
            folder.mkdir()
        missed = ""
        placed = 0
        for name, file in contents.members.items():
            place = folder / (name if host is None else name.partition("/")[2])
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                file.rename(place)
                placed += 1
            except (OSError, ValueError) as caught:
                missed = f"{name}: {caught}"
        return placed, missed

    def _folder(self, node: Node, host: str | None, contents: Contents) -> Path | None:
        """Return the folder of a share, None if the same host's share is there.

        Two machines may give themselves the same name: then the tool's name tells them
        apart.
        """
        for name in (host, None):
            folder = self._into / plain(name or self._name(node.name))
            if not folder.exists():
                return folder
            machine = _machine(contents)
            if machine is not None and machine == _machine_of(folder):
                return None
        return None

    def close(self) -> None:
        """Remove the folder of shares that are not in their place."""
        shutil.rmtree(self._incoming, ignore_errors=True)


def plain(name: str) -> str:
    """Return a name of a folder: no separator, nothing hidden."""
    return re.sub(r"[^\w.@-]", "_", name).lstrip(".") or "_"


def _machine(contents: Contents) -> str | None:
    """Return what tells a machine from all others, by the manifest of its share."""
    for name, file in contents.members.items():
        if name.count("/") == 1 and name.endswith("/manifest.json"):
            return _told_machine(file)
    return None


def _machine_of(folder: Path) -> str | None:
    return _told_machine(folder / "manifest.json")


def _told_machine(manifest: Path) -> str | None:
    try:
        told = json.loads(manifest.read_bytes())
        return str(told["machine"]) or None
    except (OSError, ValueError, KeyError, TypeError):
        return None
