"""The one form of a stack, which the parsers of all stack dumps return.

One row per frame: `stack` (a number, the same for equal stacks), `depth` (0 is
innermost), `function`, `file` as printed, `file_line` (null in native code), `thread`
(its name, or its number), `thread_state` (as py-spy prints it, else null), `is_main`
(whether it is the thread that the process began with).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

COLUMNS = (
    *("stack", "depth", "function", "file", "file_line"),
    *("thread", "thread_state", "is_main"),
)
# the frames of dumps have a `stack` that is UInt64
KINDS = {"stack": "int", "is_main": "bool"}
BITS = 62  # of a stack number, so that it fits an Int64
MOST = 64  # frames of a `way`, from the innermost on
PACKAGES = "-packages/"

Frame = tuple[str, str | None, int | None]  # function, file, line


@dataclass(slots=True)
class Thread:
    """One thread of a dump; `frames` are innermost first."""

    name: str
    is_main: bool = False
    state: str | None = None
    frames: list[Frame] = field(default_factory=list)

    def rows(self) -> Iterator[dict[str, object]]:
        """Yield the rows of the thread's frames."""
        number = _number(self.frames)
        for depth, (function, file, line) in enumerate(self.frames):
            yield {
                "stack": number,
                "depth": depth,
                "function": function,
                "file": file,
                "file_line": line,
                "thread": self.name,
                "thread_state": self.state,
                "is_main": self.is_main,
            }


def way(frames: Sequence[Frame]) -> str:
    """Join frames, innermost first, to one string: a line `function file line` each.

    Values are parted by tabs, for `call_sites.stacks` to take apart. Files of installed
    packages begin at their directory, `site-packages/…`.
    """
    return "\n".join(
        f"{function}\t{_short(file or '')}\t{'' if line is None else line}"
        for function, file, line in frames[:MOST]
    )


def _short(file: str) -> str:
    before, packages, name = file.rpartition(PACKAGES)
    return f"{before.rpartition('/')[2]}{packages}{name}"


def _number(frames: list[Frame]) -> int:
    """Hash a stack by its Python frames if it has any.

    The native frames of a thread that polls its GPU differ from look to look.
    """
    python = [f for f in frames if f[1] and f[1].endswith(".py")]
    whole = "\n".join(
        f"{name} ({file}:{line})" for name, file, line in python or frames
    )
    digest = hashlib.blake2b(whole.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> (64 - BITS)
