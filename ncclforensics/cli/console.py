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
from ncclforensics.model.errors import ExitCode
from ncclforensics.report import coverage
from ncclforensics.report.sanitize import line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ncclforensics.report.contract import Report

REDRAW = 0.1  # seconds
BAR = 20  # characters


def error(text: str) -> None:
    """Say what went wrong."""
    _say(f"error: {line(text, 2000)}")


def warn(text: str) -> None:
    """Say what may matter and does not stop anything."""
    _say(f"warning: {line(text, 2000)}")


def ended(report: Report, *, interrupted: bool) -> ExitCode:
    """Return the exit code of a command that is done; say if it was interrupted."""
    if interrupted:
        if note := coverage.interrupted(report):
            warn(note.text)
        return ExitCode.INTERRUPTED
    return ExitCode.OK if coverage.recognised(report) else ExitCode.NO_EVIDENCE


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

    None where stderr is no terminal, or where progress is not wanted. With the last
    file the line says what comes next; `wipe` takes it away.
    """
    if not enabled or not sys.stderr.isatty():
        return None
    drawn = 0.0

    def show(done: int, total: int) -> None:
        nonlocal drawn
        now = time.monotonic()
        if done >= total:
            _draw("looking for the cause")
        elif now - drawn >= REDRAW:
            drawn = now
            bar = "#" * (BAR * done // total)
            _draw(f"reading [{bar:.<{BAR}}] {done:,} of {total:,} files")

    return show


@contextlib.contextmanager
def doing(what: str, *, enabled: bool = True) -> Iterator[None]:
    """Say on a terminal what is being done, and take it away when it is over."""
    if enabled and sys.stderr.isatty():
        _draw(line(what, 60))
    try:
        yield
    finally:
        wipe()


def _draw(text: str) -> None:
    """Write a line of progress over the one before it, within 79 columns."""
    sys.stderr.write(f"\r\x1b[K{text[:77]} …")
    sys.stderr.flush()


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
