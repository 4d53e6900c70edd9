"""The lines of a file around a cited one, with their numbers.

A log, and even a single line of it, may have a hundred megabytes. So it is read forward
once, in pieces of bounded length, and only the lines around the citation are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.report.sanitize import line as clean

if TYPE_CHECKING:
    from ncclforensics.sources import Source

BEFORE, AFTER, LIMIT, PIECE = 6, 10, 400, 1 << 16
WHOLE = 4000  # characters of a line where it is shown by itself
INDENT = 40
TEXTUAL = ("log", "error_json")


def excerpt(source: Source, number: int) -> list[tuple[str, str]]:
    """Return (style, text) of the lines around the 1-based line `number` of a source.

    For a file that is not text, is unreadable or has fewer lines, one line says so.
    """
    if source.kind not in TEXTUAL:
        return [("dim", f"entry {number} of a {source.kind.replace('_', ' ')}")]
    found: list[tuple[str, str]] = []
    try:
        with source.open() as file:
            at = 1
            while at <= number + AFTER and (piece := file.readline(PIECE)):
                if at >= number - BEFORE:
                    text = shown(piece, LIMIT)
                    mark = ">" if at == number else " "
                    style = "bold" if at == number else ""
                    found.append((style, f"{mark}{at:>7} {text}"))
                while not piece.endswith(b"\n") and piece:
                    piece = file.readline(PIECE)
                at += 1
    except Exception as caught:  # damaged evidence may raise any exception
        found.append(("dim", clean(f"cannot be read: {caught}", LIMIT)))
    return found or [("dim", f"there is no line {number}")]


def shown(raw: bytes, limit: int = WHOLE) -> str:
    """Return a line as printable text of `limit` characters, with its indentation."""
    text = raw.decode("utf-8", "replace").expandtabs(4)
    indent = " " * min(len(text) - len(text.lstrip(" ")), INDENT)
    return indent + clean(text, limit)
