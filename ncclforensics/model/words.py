"""Words for numbers, wherever a person reads them: durations."""

from __future__ import annotations

MINUTE, HOUR, DAY = 60, 3600, 86400


def lasted(seconds: float) -> str:
    """Return a duration: "0.4 s", "12 s", "30 min 27 s", "2 h 5 min", "3 d 4 h"."""
    whole = round(abs(seconds))
    if whole < 10:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    for unit, name, smaller, rest in (
        (DAY, "d", HOUR, "h"),
        (HOUR, "h", MINUTE, "min"),
        (MINUTE, "min", 1, "s"),
    ):
        # smaller units are noise: round to those that are shown
        shown = round(whole / smaller) * smaller
        if shown >= unit:
            left = shown % unit // smaller
            sign = "-" if seconds < 0 else ""
            return f"{sign}{shown // unit:,} {name}" + (
                f" {left} {rest}" if left else ""
            )
    return f"{seconds:.0f} s"
