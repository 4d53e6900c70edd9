"""One GPU of `nvidia-smi -q`, as text or XML: what is wrong with it, by its own count.

    GPU 00000000:9B:00.0                    <gpu id="00000000:9B:00.0">
        ECC Errors                            <ecc_errors>
            Volatile                            <volatile>
                DRAM Uncorrectable : 3            <dram_uncorrectable>3</…

The text nests by indentation. Both become paths of plain words, so that one table reads
both. Counts called volatile began when the driver was loaded, those called aggregate
when the GPU was made. A link's generation drops when a GPU idles, its width does not.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any
from xml.etree import ElementTree as ET

from ncclforensics.parsers.logs.message_parsers.limits import capped

NUMBERS = ("uncorrectable", "width", "width_max", "utilization")
COLUMNS = (*NUMBERS, "remap", "state", "status", "cause")
KINDS = dict.fromkeys(NUMBERS, "int")
_LINE = re.compile(r"(?P<depth>\s*)(?P<name>\S.*?)(?:\s+: ?(?P<value>.*?))?\s*$")
_NEXT = re.compile(r"GPU [0-9A-Fa-f]{8}:|\S")
_COUNT = re.compile(r"[0-9]{1,15}$")
_PREFIX = re.compile(r"^(?:remapped row|clocks (?:event|throttle) reason|pci gpu) ")
_SLOW = {
    "hw slowdown": "HW Slowdown",
    "hw thermal slowdown": "HW Thermal Slowdown",
    "hw power brake slowdown": "HW Power Brake Slowdown",
    "sw thermal slowdown": "SW Thermal Slowdown",
}


def parse(text: str) -> list[dict[str, object]]:
    """Return one row for the GPU that `text` begins with, or none if nothing is told.

    Row: `uncorrectable` (errors of its memory since the driver was loaded), `remap`
    ("pending" or "failed", of memory rows), `width` and `width_max` of its PCIe link in
    lanes, `utilization` in %, `state` and `status` of its NVLink fabric, `cause` of
    lowered clocks.
    """
    whole = capped(text)
    told = _of_xml(whole) if "<gpu " in whole.partition("\n")[0] else _of_text(whole)
    row: dict[str, object] = dict.fromkeys(COLUMNS)
    for path, value in told.items():
        *_, section, name = ("", "", *path)
        if "volatile" in path and "uncorrectable" in name and _COUNT.match(value):
            row["uncorrectable"] = int(str(row["uncorrectable"] or 0)) + int(value)
        elif section == "remapped rows" and value == "Yes":
            is_failure = "failure" in name
            row["remap"] = "failed" if is_failure else row["remap"] or "pending"
        elif "link width" in section and _COUNT.match(value.removesuffix("x")):
            lanes = int(value.removesuffix("x"))
            row |= {"width_max" if "max" in name else "width": lanes}
        elif section == "utilization" and name in ("gpu", "gpu util"):
            percent = value.removesuffix("%").strip()
            row["utilization"] = int(percent) if _COUNT.match(percent) else None
        elif section == "fabric" and name in ("state", "status"):
            row[name] = value
        elif value == "Active" and name in _SLOW:
            row["cause"] = row["cause"] or _SLOW[name]
    return [row] if any(value is not None for value in row.values()) else []


def _of_text(text: str) -> dict[tuple[str, ...], str]:
    told: dict[tuple[str, ...], str] = {}
    above: list[tuple[int, str]] = []
    for line in text.splitlines()[1:]:
        if _NEXT.match(line):
            break
        found = _LINE.match(line)
        if found is None:
            continue
        depth, name = len(found["depth"]), found["name"].lower()
        above = [section for section in above if section[0] < depth]
        if found["value"] is None:
            above.append((depth, name))
        else:
            told[(*(section for _, section in above), name)] = found["value"]
    return told


def _of_xml(text: str) -> dict[tuple[str, ...], str]:
    """Read as far as the text is whole: a log may end inside a GPU."""
    told: dict[tuple[str, ...], str] = {}
    path: list[str] = []
    reader: ET.XMLPullParser[Any] = ET.XMLPullParser(("start", "end"))
    with suppress(ET.ParseError):
        reader.feed(text.partition("</gpu>")[0])
        events: Any = reader.read_events()
        for event, element in events:
            if event == "start":
                path.append(_word(element.tag))
                continue
            if value := (element.text or "").strip():
                told[tuple(path)] = value
            path.pop()
    return told


def _word(tag: str) -> str:
    """Return `link width` for `link_widths`: the word that the text has for it."""
    return _PREFIX.sub("", tag.replace("_", " ")).replace("widths", "width")
