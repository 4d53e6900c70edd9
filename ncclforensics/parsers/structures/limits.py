"""Limits on what the structures read: text that is too long is cut, never refused.

pyparsing's cost grows with the text; the longest structure that programs print (a
traceback of some hundred frames, a desync report of a large group) stays below these.
"""

from __future__ import annotations

MAX_CHARACTERS = 256 * 1024
MAX_LINES = 2000


def capped(text: str) -> str:
    """Return at most the first MAX_LINES lines and MAX_CHARACTERS characters."""
    return "\n".join(text[:MAX_CHARACTERS].splitlines()[:MAX_LINES])
