"""One GPU of `rocm-smi --showrasinfo`: the errors that its blocks did not correct.

    GPU[1]          : RAS INFO:
             Block       Status  Correctable Error  Uncorrectable Error
               UMC      ENABLED                 12                    3

Before ROCm 6 the name of the GPU stands in front of each line. The counts began when
the driver was loaded.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("uncorrectable",)
KINDS = {"uncorrectable": "int"}
_BLOCK = re.compile(
    r"(?:GPU\[[0-9]+\]\s*:)?\s*\w+\s+(?:ENABLED|DISABLED)(?:\s+[0-9]+\s+([0-9]{1,15}))?\s*$"
)
_HEAD = re.compile(r"(?:GPU\[[0-9]+\]\s*:)?\s*Block\s+Status\s")


def parse(text: str) -> list[dict[str, object]]:
    """Return one row `uncorrectable`, of all blocks, or none if no block is told."""
    counts: list[int] = []
    for line in capped(text).splitlines()[1:]:
        found = _BLOCK.match(line)
        if found is None and not _HEAD.match(line):
            break
        counts += [int(found[1] or 0)] if found else []
    return [{"uncorrectable": sum(counts)}] if counts else []
