"""The one writer to stderr: errors, warnings, progress.

stdout carries the answer and nothing else. A message is one line that starts with
`ncclforensics: `; text in it is cleaned, because it may quote a file's name. Progress
appears on a terminal only, and leaves no trace.
"""

from __future__ import annotations

import contextlib
import platform
import sys
import time
import traceback
from importlib import metadata
from typing import TYPE_CHECKING

from ncclforensics import __version__
from ncclforensics.report.clean import line

if TYPE_CHECKING:
    from collections.abc import Callable

REDRAW = 0.1  # seconds


def error(text: str) -> None:
    """Say what went wrong."""
    _say(f"error: {line(text, 2000)}")


def warn(text: str) -> None:
    """Say what may matter and does not stop anything."""
    _say(f"warning: {line(text, 2000)}")


def say(text: str) -> None:
    """Say what was done, where it is not the answer itself."""
    _say(line(text, 2000))


def bug(caught: BaseException) -> None:
    """Print the traceback, and that it is not the user's fault."""
    sys.stderr.write("".join(traceback.format_exception(caught)))
    error(f"this is a bug, please report it with the lines above ({versions()})")


def versions() -> str:
    """Return the versions that a bug report needs, without importing anything."""
    try:
        polars = metadata.version("polars")
    except metadata.PackageNotFoundError:
        polars = "missing"
    python = platform.python_version()
    return f"ncclforensics {__version__}, polars {polars}, Python {python}"


def progress(*, enabled: bool = True) -> Callable[[int, int], None] | None:
    """Return a function (done, of all files) that redraws one line, or None.

    None where stderr is no terminal, or where progress is not wanted. The last call,
    with done equal to all, wipes the line.
    """
    if not enabled or not sys.stderr.isatty():
        return None
    drawn = 0.0

    def show(done: int, total: int) -> None:
        nonlocal drawn
        now = time.monotonic()
        if done >= total:
            wipe()
        elif now - drawn >= REDRAW:
            drawn = now
            sys.stderr.write(f"\r\x1b[Kreading {done:,}/{total:,} files")
            sys.stderr.flush()

    return show


def wipe() -> None:
    """Take a line of progress away, where there may be one."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def usage(text: str) -> None:
    """Print the help that answers a call without arguments."""
    sys.stderr.write(f"{text}\n")


def _say(text: str) -> None:
    """Write one line, after whatever stdout still holds, so that pipes keep order."""
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    sys.stderr.write(f"ncclforensics: {text}\n")
    sys.stderr.flush()
