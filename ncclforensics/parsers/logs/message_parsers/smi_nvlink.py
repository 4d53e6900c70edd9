"""One GPU of `nvidia-smi nvlink --status` or `--errorcounters`: its sick links.

    GPU 3: NVIDIA H100 80GB HBM3 (UUID: GPU-77aa…)
             Link 1: <inactive>
             Link 4: CRC Errors: 90211

The counts began when the driver was loaded. `nvidia-smi -L` has the same first line.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("inactive", "link_errors")
KINDS = dict.fromkeys(COLUMNS, "int")
_LINK = re.compile(
    r"\s+Link [0-9]{1,2}: (?:(?P<inactive><inactive>)"
    r"|[\w ]+ Errors: (?P<errors>[0-9]{1,15})|.*)\s*$"
)


def parse(text: str) -> list[dict[str, object]]:
    """Return one row `inactive link_errors`: links, and errors of all; or none."""
    inactive = active = errors = 0
    for line in capped(text).splitlines()[1:]:
        found = _LINK.match(line)
        if found is None:
            break
        inactive += found["inactive"] is not None
        active += found["inactive"] is None
        errors += int(found["errors"] or 0)
    # a GPU none of whose links is active has none that is wired
    inactive = inactive if active else 0
    return [{"inactive": inactive, "link_errors": errors}] if inactive or errors else []
