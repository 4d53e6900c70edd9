"""Words that people read in many places: durations, cached answers, groups."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

UNNAMED = ("", "undefined")  # descriptions that c10d gives where there is none
# c10d names the groups of a device mesh by a hash: its first digits are enough to grep
_HASH = re.compile(r"[0-9a-f]{16,}")
HASH_DIGITS = 8
_SOURCE = re.compile(r"\[\S{0,300}/([\w.-]+:\d+)\]")  # `[/pytorch/…/pair.cc:144]`
UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def lasted(seconds: float) -> str:
    """Return a duration of 0 or more: "40 ms", "0.4 s", "30 min 27 s", "2 h 5 min".

    Two units are shown, and what is below them is rounded.
    """
    if 0 < seconds < 0.095:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    for (unit, name), (part, rest) in pairwise(UNITS):
        shown = round(seconds / part)
        if shown * part >= unit:
            many, left = divmod(shown, unit // part)
            return f"{many:,} {name}" + (f" {left} {rest}" if left else "")
    return f"{seconds:.0f} s"


def cached(seconds: float) -> str:
    """Return the notice on an answer of an earlier run, which took `seconds`."""
    return f"{lasted(seconds)} parse, cached; --no-cache reads anew"


def name_group(name: str | None, description: str | None = None) -> str:
    """Name a group: "process group 35 (TP)", of a device mesh "mesh_dp b410e88f"."""
    known = description if description and description not in UNNAMED else ""
    if name and known and _HASH.fullmatch(name):
        return f"{known} {short_name(name)}"
    if not name:
        return f"a group ({known})" if known else "an unnamed group"
    told = f" ({known})" if known else ""
    return f"process group {short_name(name)}{told}"


def name_groups(names: Sequence[str | None], description: str | None) -> str:
    """Name groups of one description: the only one, or "12 PIPELINE_MODEL groups"."""
    if len(names) == 1:
        return name_group(names[0], description)
    kind = "process" if description in (None, *UNNAMED) else str(description)
    kind = kind.removesuffix("_GROUP").removesuffix("_group")
    return f"{len(names):,} {kind} groups"


def short_name(name: str) -> str:
    """Return the name of a group, of a hash its first digits."""
    return name[:HASH_DIGITS] if _HASH.fullmatch(name) else name


def percent(share: float) -> str:
    """Return a share as "12 %", below 10 % with one place: "4.5 %"."""
    told = 100 * share
    return f"{told:.0f} %" if told >= 9.95 else f"{told:.1f}".removesuffix(".0") + " %"


def said(text: object, most: int = 200) -> str:
    """Return what a line says as a sentence of at most so many characters.

    Of hashes and of paths of sources only what can be looked for is left, so that the
    point of a long line is not cut off.
    """
    words = _SOURCE.sub(r"[\1]", " ".join(str(text).split())).strip(" .,")
    words = _HASH.sub(lambda found: f"{found[0][:HASH_DIGITS]}…", words)
    if len(words) <= most:
        return f"{words}."
    return f"{words[: most - 1].rsplit(' ', 1)[0].rstrip(' .,')}…"
