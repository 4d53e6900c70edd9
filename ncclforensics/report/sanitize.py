"""Sanitizes text from logs before anything prints it.

A log line may contain escape sequences, carriage returns, direction marks or half a
code point. None of that may reach a terminal, a ticket or a JSON file. Escape sequences
are removed whole; other control characters are removed or become a space; lone
surrogates (undecodable bytes of a file name) become U+FFFD.
"""

from __future__ import annotations

import re

ELLIPSIS = "…"

# CSI; then OSC, DCS, SOS, PM and APC with their text up to the terminator; then others.
# The text of an unterminated one is kept, so that nothing readable is hidden.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
_BLANK = re.compile(r"[\t\n\v\f\r\x85\u2028\u2029]+")
# other control characters, invisible characters, and direction marks
_UNSEEN = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
# for whole columns: polars accepts these patterns unchanged
HARMFUL = ((_SEQUENCE.pattern, ""), (_BLANK.pattern, " "), (_UNSEEN.pattern, ""))
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def line(text: str, limit: int) -> str:
    """Return `text` as one printable line of at most `limit` characters.

    A longer text is truncated and ends with …. It is truncated before it is searched,
    so that a line of hundreds of megabytes costs no more than a short one.
    """
    head = text[: 4 * limit]
    if not (head.isascii() and head.isprintable()):
        head = _BLANK.sub(" ", _SEQUENCE.sub("", head))
        head = _SURROGATE.sub("\ufffd", _UNSEEN.sub("", head))
    head = head.strip()
    whole = len(text) <= 4 * limit
    return head if whole and len(head) <= limit else cut(head, limit, force=not whole)


def paragraphs(text: str, limit: int) -> str:
    """Return `text` sanitized like `line`, but with its newlines."""
    lines = (line(part, limit).rstrip() for part in text[: 4 * limit].split("\n"))
    joined = "\n".join(lines).strip("\n")
    return cut(joined, limit, force=len(text) > 4 * limit)


def cut(text: str, limit: int, *, force: bool = False) -> str:
    """Truncate `text` to `limit` characters, ending with … if anything was dropped."""
    if len(text) <= limit and not force:
        return text
    return untorn(text[: limit - 1], text) + ELLIPSIS


def untorn(head: str, text: str) -> str:
    """Return the `head` of a text without the word that was cut, if that is short."""
    is_torn = text[len(head) :][:1].strip() and head[-1:].strip()
    at = head.rfind(" ") if is_torn else -1
    return (head[:at] if 4 * at >= 3 * len(head) else head).rstrip()
