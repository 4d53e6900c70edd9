"""Needles that differ in a few words, written as one: `{forward,fwd}{=,: }`."""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


def spelled_out(needles: Iterable[str]) -> tuple[str, ...]:
    """Return needles with their alternatives written out: `{a,b}{c,d}` is ac ad bc bd.

    As in a shell; braces without a comma stand for themselves.
    """
    told: dict[str, None] = {}
    for needle in needles:
        parts = enumerate(_BRACES.split(needle))  # every second one was in braces
        choices = (part.split(",") if n % 2 else [part] for n, part in parts)
        told |= dict.fromkeys(map("".join, product(*choices)))
    return tuple(told)
