r"""Names of evidence: printable, unique, and without a path outside the evidence.

Invalid UTF-8 bytes, control and other unprintable characters are escaped (`\xff`,
`\x0a`, `\u202e`), and backslashes doubled, so that different names stay different and
no name can forge a line of the report.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def printable(name: str) -> str:
    """Return `name` (as from os.fsdecode) with unprintable characters escaped."""
    if name.isprintable() and "\\" not in name:
        return name
    return "".join(map(_escaped, name))


def _escaped(char: str) -> str:
    code = ord(char)
    if char == "\\":
        return "\\\\"
    if char.isprintable():
        return char
    if (
        code < 0x80 or 0xDC80 <= code <= 0xDCFF
    ):  # surrogateescape keeps a raw byte there
        return f"\\x{code & 0xFF:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def own_names(roots: Sequence[str]) -> dict[str, str]:
    """Map several distinct absolute paths to the shortest suffixes that differ.

    `/a/x/logs` and `/a/y/logs` become `x/logs` and `y/logs`.
    """
    parts = {root: PurePath(root).parts[1:] for root in roots}
    longest = max(map(len, parts.values()), default=0)
    for length in range(1, longest + 1):
        short = {root: "/".join(part[-length:]) for root, part in parts.items()}
        if len(set(short.values())) == len(roots):
            return short
    return {root: "/".join(part) for root, part in parts.items()}


def unique(names: Iterable[str]) -> list[str]:
    """Number duplicate names: `a`, `a (2)`; the order is kept."""
    taken: set[str] = set()
    result = []
    for name in names:
        candidate, count = name, 1
        while candidate in taken:
            count += 1
            candidate = f"{name} ({count})"
        taken.add(candidate)
        result.append(candidate)
    return result
