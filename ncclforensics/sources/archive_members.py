"""The members of an archive, and the rules that they must pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ncclforensics.sources import limits
from ncclforensics.sources.scratch import EndlessError, Scratch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# notes kept of one archive; a hostile one would fill the report with refusals
MOST_NOTES = 50
NOTED = 80  # characters of a path that is too long


@dataclass(slots=True)
class Contents:
    """The members of one archive: name to file, later ones replacing earlier ones.

    `notes` are (text, member or None for the archive as a whole). `why_not` is set if
    the archive is no evidence and was left closed.
    """

    to: Scratch
    members: dict[str, Path] = field(default_factory=dict)
    notes: list[tuple[str, str | None]] = field(default_factory=list)
    why_not: str | None = None

    def note(self, text: str, member: str | None = None) -> None:
        """Keep a note, but no more than a reader can stand."""
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
        """Keep what `read` gives as `member`; EndlessError once there is no end.

        `modified` are the seconds since 1970 at which it was written, 0 for unknown.
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
        """Tell whether `member` lies inside the archive's own place; note if not."""
        if len(member) > limits.MAX_PATH:
            text = f"refused: its path has {len(member):,} characters"
            self.note(text, member[:NOTED] + "…")
            return False
        parts = member.replace("\\", "/").split("/")
        if not parts[0] or ".." in parts or not plain(member):
            self.note("refused: it would land outside its place", member)
            return False
        return True


def plain(member: str) -> str:
    """Return a member's path without `.` and empty parts."""
    return "/".join(part for part in member.split("/") if part not in ("", "."))
