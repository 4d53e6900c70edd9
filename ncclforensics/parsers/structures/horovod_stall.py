"""Horovod's stall inspector: which ranks have not submitted which tensors.

Since 0.18 a line per rank stands under `Missing ranks:`, as `3: [tensor, tensor]`; an
exclamation mark behind the rank says that one of its tensors is cached. Horovod does
not list the ranks that came.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.structures.limits import capped

_LINE = re.compile(r"\s*(?P<rank>\d{1,9})!?: \[(?P<tensors>[^\]\n]*)")


def parse(text: str) -> list[dict[str, object]]:
    """Return one row per rank: `missing` (the rank) and `tensor`, the first of its own.

    Without `Missing ranks:` there are no rows.
    """
    _, head, after = capped(text).partition("Missing ranks:")
    found = [_LINE.match(line) for line in after.splitlines()] if head else []
    return [
        {
            "missing": line["rank"],
            "tensor": line["tensors"].split(",")[0].strip() or None,
        }
        for line in found
        if line
    ]
