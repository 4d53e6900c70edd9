"""The one writer to stdout: the answer as bytes, its width, and its colour.

JSON is UTF-8 wherever it goes; text is what the terminal's encoding can hold. A reader
that stops early (`| head`) is no error: the analysis ran to its end.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Literal

from ncclforensics.model.errors import UsageError

COLOURS = ("auto", "always", "never")
Colour = Literal["auto", "always", "never"]


def write(text: str, *, utf8: bool = False) -> None:
    """Write `text`; raises UsageError where stdout cannot take it (a full disk)."""
    encoding = "utf-8" if utf8 else sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode(encoding, "replace"))
        sys.stdout.flush()
    except BrokenPipeError:
        # else the interpreter meets the same pipe when it flushes at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as caught:
        raise UsageError(f"stdout cannot be written: {caught.strerror}") from caught


def reopen() -> None:
    """Put the null device where a standard stream was closed (`2>&-`).

    Else the next file that is opened takes its number, and what is printed its bytes.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def width() -> int | None:
    """Return the width of the terminal in cells, or None in a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def takes_keys() -> bool:
    """Say whether somebody can look and type: a terminal, or Textual's own driver.

    Textual draws on stderr, so stdout may go to a file.
    """
    return bool(os.environ.get("TEXTUAL_DRIVER")) or (
        sys.stdin.isatty() and sys.stderr.isatty()
    )


def coloured(choice: Colour) -> bool:
    """Say whether to colour; "auto" asks the terminal, NO_COLOR and FORCE_COLOR."""
    if choice != "auto":
        return choice == "always"
    from rich.console import Console

    console = Console(file=sys.stdout)
    return console.color_system is not None and not console.no_color
