"""Truncates text that is too long for a structure."""

from __future__ import annotations

from ncclforensics.parsers.limits import MAX_STRUCTURE_CHARACTERS, MAX_STRUCTURE_LINES


def capped(text: str) -> str:
    """Return at most MAX_STRUCTURE_LINES lines and MAX_STRUCTURE_CHARACTERS of text."""
    return "\n".join(text[:MAX_STRUCTURE_CHARACTERS].splitlines()[:MAX_STRUCTURE_LINES])


def is_capped(text: str, longest: int = MAX_STRUCTURE_CHARACTERS) -> bool:
    """Whether a text is truncated if at most `longest` characters are read."""
    longest = min(longest, MAX_STRUCTURE_CHARACTERS)
    return len(text) > longest or text.count("\n") >= MAX_STRUCTURE_LINES
