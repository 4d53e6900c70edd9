"""Exit codes and the errors that a user can cause; anything else is a bug (70)."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit code of a command."""

    OK = 0
    FAILURE_NAMED = 1  # only with --exit-code
    USAGE = 2
    NO_EVIDENCE = 3
    POSTING_FAILED = 4
    BUG = 70
    INTERRUPTED = 130


class NcclForensicsError(Exception):
    """An error to print in one line; `code` becomes the exit code."""

    code: ExitCode = ExitCode.USAGE


class UsageError(NcclForensicsError):
    """A path that does not exist, a malformed grammar, or an invalid option."""


def reason(error: Exception) -> str:
    """Return why something failed, without the local path of the file."""
    return getattr(error, "strerror", None) or str(error)
