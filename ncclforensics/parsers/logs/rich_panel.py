"""The panel in which rich prints a traceback, as Typer's programs do by default.

A frame is a paragraph `FILE:LINE in FUNCTION`, broken where the panel ends, and below
it some lines of the file, of which `❱` marks the one that ran. The exception stands
under the panel, as Python prints it. A console without UTF-8 draws with `+`, `-` and
`|`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TOP = re.compile(
    r"[╭┌+][─━-]{2,} Traceback \(most recent call last\) [─━-]{2,}[╮┐+]\s*$"
)
_END = re.compile(r"\s*[╰└+][─━-]{4,}[╯┘+]\s*$")
_ROW = re.compile(r"\s*[│|] (?P<inside>.*) [│|]\s*$")
_PLACE = re.compile(r"(?P<file>\S.*):(?P<line>\d{1,9}) in (?P<function>\S.*)$")
_RAN = re.compile(r"(?:❱|\\u2771|>) *\d{1,9} (?P<code>.*)$")
_GUIDES = re.compile(r"^(?:[│|] {3})+")


def is_top(line: str) -> bool:
    """Whether a line is the upper edge of such a panel."""
    return bool(_TOP.search(line))


def plain(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines below the upper edge as those of Python's own traceback.

    Each line yields one, which is empty where Python prints nothing; from the lower
    edge on they stay as they are.
    """
    place = ""
    rows = iter(lines)
    for line in rows:
        row = _ROW.match(line)
        if not row:
            yield "" if _END.match(line) else line
            break
        inside = row["inside"]
        if ran := _RAN.match(inside):
            yield f"    {_GUIDES.sub('', ran['code']).strip()}"
        elif not inside.strip() or inside.startswith((" ", "│", "╭", "╰", "+", "|")):
            place = ""
            yield ""
        elif found := _PLACE.match(place + inside.rstrip()):
            place = ""
            yield (
                f'  File "{found["file"]}", line {found["line"]}, in '
                + found["function"].strip()
            )
        else:
            # only a word that is too long is broken at the very edge; `in` is not
            is_cut = inside.rstrip() == inside and not inside.endswith(" in")
            place += inside if is_cut else inside.rstrip() + " "
            yield ""
    yield from rows
