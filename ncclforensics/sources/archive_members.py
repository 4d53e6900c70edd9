"""The members of an archive, and the rules for accepting them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ncclforensics.sources import limits
from ncclforensics.sources.scratch import EndlessError, Scratch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# notes kept per archive; a hostile one would fill the report with refusals
MOST_NOTES = 50
NOTED = 80  # characters of a path that is too long


@dataclass(slots=True)
class Contents:
    """The members of one archive: name to file, later ones replacing earlier ones.

    `notes` are (text, member or None for the archive as a whole). `why_not` is set if
    the archive is not evidence and was not unpacked.
    """

    to: Scratch
    members: dict[str, Path] = field(default_factory=dict)
    notes: list[tuple[str, str | None]] = field(default_factory=list)
    why_not: str | None = None

    def note(self, text: str, member: str | None = None) -> None:
        """Add a note; beyond MOST_NOTES, notes on members are dropped."""
        if len(self.notes) < MOST_NOTES or member is None:
            self.notes.append((text, member))
        elif len(self.notes) == MOST_NOTES:
            self.notes.append(("more notes on its members are left out", None))

    def store(
        self,
        member: str,
        read: Callable[[int], bytes],
        packed_bytes: int,
        modified: float = 0,
    ) -> None:
        """Store what `read` returns as `member`.

        `modified` is its modification time in seconds since 1970, 0 if unknown. Raises
        EndlessError if it exceeds the limits; what was written is kept.
        """
        name = plain(member)
        stored = self.to.keep(read, packed_bytes, modified)
        if name in self.members:
            self.note("twice in the archive, the later one is kept", member)
        self.members[name] = stored.path
        if stored.damage:
            self.note(f"kept up to byte {stored.bytes}: {stored.damage}", member)
        if stored.is_endless:
            raise EndlessError("what came before is kept")

    def accepts(self, member: str) -> bool:
        """Whether the path of `member` stays inside the archive; adds a note if not."""
        if len(member) > limits.MAX_PATH:
            text = f"refused: its path has {len(member):,} characters"
            self.note(text, member[:NOTED] + "…")
            return False
        parts = member.replace("\\", "/").split("/")
        if not parts[0] or ".." in parts or not plain(member):
            self.note("refused: its path leads out of the archive", member)
            return False
        return True


def plain(member: str) -> str:
    """Return the path of a member without `.` and empty parts."""
    return "/".join(part for part in member.split("/") if part not in ("", "."))
