"""The only writer to stdout: the answer as bytes, its width, and its colour.

JSON is always UTF-8; text uses the encoding of stdout. A reader that stops early
(`| head`) is not an error: the analysis is complete.
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
    """Write `text`; raises UsageError if stdout cannot be written (a full disk)."""
    encoding = "utf-8" if utf8 else sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode(encoding, "replace"))
        sys.stdout.flush()
    except BrokenPipeError:
        # otherwise the interpreter hits the broken pipe again when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as caught:
        raise UsageError(f"stdout cannot be written: {caught.strerror}") from caught


def reopen() -> None:
    """Open the null device in place of a closed standard stream (`2>&-`).

    Otherwise the next opened file would get its descriptor, and receive the output.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def width() -> int | None:
    """Return the width of the terminal in cells, None if stdout is not one."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def takes_keys() -> bool:
    """Whether the session is interactive: a terminal, or TEXTUAL_DRIVER is set.

    Textual draws on stderr, so stdout may be redirected to a file.
    """
    return bool(os.environ.get("TEXTUAL_DRIVER")) or (
        sys.stdin.isatty() and sys.stderr.isatty()
    )


def coloured(choice: Colour) -> bool:
    """Whether to use colour; "auto" checks the terminal, NO_COLOR and FORCE_COLOR."""
    if choice != "auto":
        return choice == "always"
    from rich.console import Console

    console = Console(file=sys.stdout)
    return console.color_system is not None and not console.no_color
