"""Words for durations, wherever a person reads them."""

from __future__ import annotations

from itertools import pairwise

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
