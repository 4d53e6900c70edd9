"""One GPU of `amd-smi metric`: how many errors of its memory were not corrected.

    GPU: 3
        ECC:
            TOTAL_CORRECTABLE_COUNT: 0
            TOTAL_UNCORRECTABLE_COUNT: 2

The counts began when the driver was loaded. `amd-smi static` has no counts, but names
the PCI address of the GPU.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("uncorrectable", "pci")
KINDS = {"uncorrectable": "int"}
_COUNT = re.compile(r"(?m)^\s+TOTAL_UNCORRECTABLE_COUNT: ([0-9]{1,15})[ \t\r]*$")
_PCI = re.compile(r"(?m)^\s+BDF: ([0-9A-Fa-f]{4}:[0-9A-Fa-f:]+\.[0-7])[ \t\r]*$")
_NEXT = re.compile(r"(?m)^\S")


def parse(text: str) -> list[dict[str, object]]:
    """Return one row `uncorrectable pci`, or none if the section has neither."""
    below = capped(text).partition("\n")[2]
    end = _NEXT.search(below)
    section = below[: end.start()] if end else below
    count, pci = _COUNT.search(section), _PCI.search(section)
    if count is None and pci is None:
        return []
    return [
        {
            "uncorrectable": int(count[1]) if count else None,
            "pci": pci[1] if pci else None,
        }
    ]
