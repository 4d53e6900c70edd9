"""Decodes a JSON dump; of a truncated one, everything before the cut.

c10d writes one object on one line with its keys in alphabetical order, so a truncated
dump has entries but no pg_config, pg_status or version.
"""

from __future__ import annotations

import json

import msgspec

from ncclforensics.parsers.flight_recorder.recovery import Loaded

_DECODER = json.JSONDecoder()
_BLANKS = " \t\r\n"
# a cut may leave the first letters of null, true or false
_LONGEST_LITERAL = 5


def load(data: bytes) -> Loaded:
    """Decode the dump `data`; never raises. `problem` says why it ends early, if so.

    It is "cut" or starts with "damaged".
    """
    try:
        return Loaded(msgspec.json.decode(data), len(data), None)
    except (msgspec.DecodeError, ValueError, RecursionError):
        text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        return Loaded(json.loads(text), len(data), None)  # NaN, a bad byte in a string
    except json.JSONDecodeError as error:
        cut = error.msg.startswith("Unterminated")
        cut = cut or len(text.rstrip()) - error.pos < _LONGEST_LITERAL
        # U+FFFD takes three bytes in place of one bad byte
        end = min(len(data), len(data) if cut else len(text[: error.pos].encode()))
        return Loaded(_recover(text), end, "cut" if cut else f"damaged: {error.msg}")
    except (ValueError, RecursionError) as error:  # a huge number, too deep
        return Loaded(_recover(text), len(data), f"damaged: {error}"[:80])


def _recover(text: str) -> object:
    """Decode member by member and entry by entry, up to the damage."""
    members: dict[str, object] = {}
    items: list[object] = []
    listed = text.lstrip(_BLANKS)[:1] == "["
    try:
        at = _past(text, 0, _BLANKS)
        if listed:
            _items(text, at, items)
        elif text[at] == "{":
            _members(text, at, members)
    except (ValueError, IndexError, RecursionError):
        pass  # load has already said why
    return items if listed else members


def _members(text: str, at: int, into: dict[str, object]) -> None:
    """Decode the object at `at` into a dict. Raises at the damage."""
    at += 1
    while text[at := _past(text, at, _BLANKS + ",")] != "}":
        key, at = _DECODER.raw_decode(text, at)
        at = _past(text, at, _BLANKS + ":")
        if key == "entries" and text[at] == "[":
            entries: list[object] = []
            into[key] = entries
            at = _items(text, at, entries)
        else:
            into[str(key)], at = _DECODER.raw_decode(text, at)


def _items(text: str, at: int, into: list[object]) -> int:
    """Decode the array at `at` into a list; returns the index after it."""
    at += 1
    while text[at := _past(text, at, _BLANKS + ",")] != "]":
        item, at = _DECODER.raw_decode(text, at)
        into.append(item)
    return at + 1


def _past(text: str, at: int, skipped: str) -> int:
    while text[at] in skipped:
        at += 1
    return at
