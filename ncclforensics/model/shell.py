"""Shell commands made from names in logs: quoted, and never taken for an option.

`less` begins an option with `+` as well as with `-`, and ssh runs what an option says.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SSH_PORT = 22
PAGERS = {".gz": "zless", ".xz": "xzless", ".bz2": "bzless", ".zst": "zstdless"}
_READ = re.compile(r"((?:z|xz|bz|zstd)?less(?: \+\d+)?|read(?: line \d+ of)?) (.+)")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")
_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./ -]+")


def read(source: str, line: int | None) -> str:
    """Return the command that shows a file of the evidence at a line.

    A member of an archive, and stdin, have no path: of them it is a sentence.
    """
    if "!" in source or source == "stdin" or "\\" in source:
        at = "" if line is None else f" line {line} of"
        return f"read{at} {shlex.quote(source)}"
    pager = next((PAGERS[end] for end in PAGERS if source.endswith(end)), "less")
    at = "" if line is None else f" +{line}"
    return f"{pager}{at} {_path(source)}"


def renamed(command: str, how: Callable[[str], str]) -> str:
    """Return a command of `read` with its file renamed; any other as it is."""
    found = _READ.fullmatch(command)
    words = _words(found[2]) if found else []
    if found is None or len(words) != 1:
        return command
    name = words[0].removeprefix("./") if words[0][2:3] in ("-", "+") else words[0]
    return f"{found[1]} {_path(how(name))}"


def is_read(command: str) -> bool:
    """Whether a command is one of `read`."""
    return renamed(command, lambda name: f"{name}x") != command


def at_host(host: str, command: str, port: int = SSH_PORT) -> str:
    """Return a command that runs `command` on a host; see `is_host`."""
    at = host if port == SSH_PORT else f"-p {port} {host}"
    return f"ssh {at} {_one_word(command)}"


def in_pod(pod: str, namespace: str | None, container: str | None, command: str) -> str:
    """Return a command that runs `command` in a container of a pod; see `is_host`."""
    where = f"-n {namespace} {pod}" if namespace else pod
    where += f" -c {container}" if container else ""
    plain = command if _PLAIN.fullmatch(command) else f"sh -c {_one_word(command)}"
    return f"kubectl exec {where} -- {plain}"


def _one_word(command: str) -> str:
    """Return a command as ssh takes it: plain, or quoted as a whole."""
    if _PLAIN.fullmatch(command):
        return command
    in_double = "'" in command and not set(command) & set('"$`\\!')
    return f'"{command}"' if in_double else shlex.quote(command)


def is_host(name: str | None) -> bool:
    """Whether a name can only be a host: no option, and nothing for a shell."""
    return name is not None and _HOST.fullmatch(name) is not None


def _path(name: str) -> str:
    """Return a path as a word of a command that cannot be an option."""
    return shlex.quote(f"./{name}" if name[:1] in ("-", "+") else name)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # an open quote: not one of ours
        return []
