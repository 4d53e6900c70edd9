"""The only writer to stderr: errors, warnings, progress.

stdout carries only the answer. A message is one line that starts with
`ncclforensics: `; its text is sanitized, because it may quote a file name. Progress
appears only on a terminal, and is erased afterwards.
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

REDRAW = 0.1  # seconds between updates of progress
BAR = 20  # characters


def error(text: str) -> None:
    """Print an error."""
    _say(f"error: {line(text, 2000)}")


def warn(text: str) -> None:
    """Print a warning."""
    _say(f"warning: {line(text, 2000)}")


def ended(report: Report, *, interrupted: bool) -> ExitCode:
    """Return the exit code of a finished command; warns if it was interrupted."""
    if interrupted:
        if note := coverage.interrupted(report):
            warn(note.text)
        return ExitCode.INTERRUPTED
    return ExitCode.OK if coverage.recognised(report) else ExitCode.NO_EVIDENCE


def say(text: str) -> None:
    """Print what was done, if that is not the answer itself."""
    _say(line(text, 2000))


def bug(caught: BaseException) -> None:
    """Print the traceback, and a request to report the bug."""
    sys.stderr.write("".join(traceback.format_exception(caught)))
    error(f"this is a bug, please report it with the lines above ({versions()})")


def versions() -> str:
    """Return the versions for a bug report, without importing the packages."""
    try:
        polars = metadata.version("polars")
    except metadata.PackageNotFoundError:
        polars = "missing"
    python = platform.python_version()
    return f"ncclforensics {__version__}, polars {polars}, Python {python}"


def progress(
    *, enabled: bool = True, what: str = "files"
) -> Callable[[int, int], None] | None:
    """Return a function (files done, files in total) that redraws one line, or None.

    None if stderr is not a terminal or progress is disabled. After the last file, the
    line says what comes next; `wipe` erases it.
    """
    if not enabled or not sys.stderr.isatty():
        return None
    drawn = 0.0

    def show(done: int, total: int) -> None:
        nonlocal drawn
        now = time.monotonic()
        if done >= total:
            _draw("looking for the cause" if what == "files" else "all answered")
        elif now - drawn >= REDRAW:
            drawn = now
            bar = "#" * (BAR * done // total)
            _draw(f"reading [{bar:.<{BAR}}] {done:,} of {total:,} {what}")

    return show


def status(text: str) -> None:
    """Show on a terminal how things stand now, in place of what stood there before."""
    if sys.stderr.isatty():
        _draw(line(text, 77))


@contextlib.contextmanager
def doing(what: str, *, enabled: bool = True) -> Iterator[None]:
    """Show on a terminal what is being done, and erase it when it is finished."""
    if enabled and sys.stderr.isatty():
        _draw(line(what, 60))
    try:
        yield
    finally:
        wipe()


def _draw(text: str) -> None:
    """Overwrite the progress line, within 79 columns."""
    sys.stderr.write(f"\r\x1b[K{text[:77]} …")
    sys.stderr.flush()


def wipe() -> None:
    """Erase the progress line, if stderr is a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def usage(text: str) -> None:
    """Print the help text, for a call without arguments."""
    sys.stderr.write(f"{text}\n")


def _say(text: str) -> None:
    """Write one line; flushes stdout first, so that the order of output is kept."""
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    sys.stderr.write(f"ncclforensics: {text}\n")
    sys.stderr.flush()
