"""Reads node hours from the site's accounting: a CSV file of hosts and hours."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ncclforensics.model.errors import UsageError, reason

if TYPE_CHECKING:
    from pathlib import Path


def node_hours(path: Path) -> dict[str, float]:
    """Return node hours by host: a host and its hours a line, in any order.

    A first line may name the columns, and the hours of a host may be in several lines.
    Raises UsageError on a file that cannot be read so.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, ValueError) as caught:
        raise UsageError(f"{path}: {reason(caught)}") from caught
    found: dict[str, float] = {}
    for number, line in enumerate(lines, 1):
        host, _, hours = (part.strip().strip('"') for part in line.partition(","))
        told = _number(hours)
        if host and told is not None:
            found[host] = found.get(host, 0.0) + told
        elif line.strip() and number > 1:
            raise UsageError(
                f"{path}:{number}: not a host and its hours: {line[:60]!r}"
            )
    if not any(found.values()):
        raise UsageError(f"{path} has no hours")
    return found


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) and found >= 0 else None
