r"""Regular expressions in which `\d`, `\w` and `\b` are ASCII, as programs print.

Rust regex means all of Unicode by them. What a program prints for itself (digits, names
of hosts and files) never needs that, and it costs: such an automaton takes ten times as
long to make, and where a few are joined in one pattern it is too large to be kept, so
that each line is searched twenty times as slowly.
"""

from __future__ import annotations

import re
from functools import cache

_TOKEN = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]")
_OUTSIDE = {r"\d": "[0-9]", r"\w": "[A-Za-z0-9_]", r"\b": r"(?-u:\b)"}


@cache
def ascii_only(pattern: str) -> str:
    r"""Return a pattern of Rust regex with `\d`, `\w` and `\b` of ASCII alone.

    Inside brackets they are written out; `\s`, `\D`, `\W` and `\S` stay as they are.
    """
    return _TOKEN.sub(_narrowed, pattern)


def _narrowed(token: re.Match[str]) -> str:
    text = token[0]
    if text.startswith("["):
        return text.replace(r"\w", "A-Za-z0-9_").replace(r"\d", "0-9")
    return _OUTSIDE.get(text, text)
