"""One GPU of `lspci -vv`: how wide its PCIe link is, and how wide it could be.

9b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)
        LnkCap: Port #0, Speed 32GT/s, Width x16, ASPM not supported
        LnkSta: Speed 32GT/s, Width x4 (downgraded)

Its speed drops while a GPU idles, its width does not.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("width", "width_max")
KINDS = {"width": "int", "width_max": "int"}
_LINK = re.compile(r"\s+Lnk(?P<what>Cap|Sta):.*?\bWidth x(?P<width>[0-9]{1,2})\b")


def parse(text: str) -> list[dict[str, object]]:
    """Return one row `width width_max` in lanes, or none if nothing is told."""
    row: dict[str, object] = {}
    for line in capped(text).splitlines()[1:]:
        if not line[:1].isspace():
            break
        if found := _LINK.match(line):
            name = "width" if found["what"] == "Sta" else "width_max"
            row[name] = int(found["width"])
    return [row] if len(row) == len(COLUMNS) else []
