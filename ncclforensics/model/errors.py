"""Exit codes and the errors that a user can cause; anything else is a bug (70)."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a finished command tells the shell."""

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
    """A path that does not exist, a grammar that is not well formed, a bad option."""


def reason(error: Exception) -> str:
    """Say why something failed, without the place of its file on this machine."""
    return getattr(error, "strerror", None) or str(error)
