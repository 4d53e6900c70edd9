r"""Regular expressions in which `\d`, `\w` and `\b` match ASCII only.

In Rust regex they match all of Unicode. The digits, host names and file names that
programs print never need that, and it is expensive: building the automaton takes ten
times as long, and if several are joined in one pattern it exceeds the cache, which
makes the search of each line twenty times slower. A class of all of Unicode is as dear
where it is repeated up to a number, `[^\n]{0,200}`: each time is a copy of it. Repeated
without an end, or of ASCII alone, it costs a tenth.
"""

from __future__ import annotations

import re
from functools import cache

_TOKEN = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]")
_OUTSIDE = {r"\d": "[0-9]", r"\w": "[A-Za-z0-9_]", r"\b": r"(?-u:\b)"}


@cache
def ascii_only(pattern: str) -> str:
    r"""Return a Rust regex pattern with `\d`, `\w` and `\b` restricted to ASCII.

    Inside brackets they are expanded; `\s`, `\D`, `\W` and `\S` are left alone.
    """
    return _TOKEN.sub(_narrowed, pattern)


def _narrowed(token: re.Match[str]) -> str:
    text = token[0]
    if text.startswith("["):
        return text.replace(r"\w", "A-Za-z0-9_").replace(r"\d", "0-9")
    return _OUTSIDE.get(text, text)
