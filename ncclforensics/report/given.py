"""What the person gave to the command, so that the commands it prints can be pasted.

Only a terminal gets these: the name of a file in a report is that within the evidence.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncclforensics.model.shell import renamed

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST = 400  # characters: a pattern that the shell expanded can be a thousand files
STDIN = "-"


@dataclass(frozen=True, slots=True)
class Given:
    """The paths as typed, and what tells the path of a file by its name in them."""

    paths: tuple[str, ...] = ()
    path_of: Callable[[str], str] = str

    @property
    def is_stdin(self) -> bool:
        """Whether the evidence is gone: it was read from stdin."""
        return STDIN in self.paths

    @property
    def words(self) -> str:
        """The paths as words of a command; PATH where they are not known."""
        quoted = " ".join(map(shlex.quote, self.paths))
        return quoted if 0 < len(quoted) <= LONGEST else "PATH"

    def remedy(self, command: str) -> str:
        """Return a command with the file in it as this person can open it."""
        return renamed(command, self.path_of)


NOTHING_GIVEN = Given()
