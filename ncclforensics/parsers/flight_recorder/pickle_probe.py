"""Loads a pickle in a child process first, to see whether it kills its loader.

A few bytes may nest tuples a million times and use them as a key, or nest each tuple
twice in the next: CPython hashes those in C, without a look at depth, time or signals,
and ends in a segmentation fault or never. No check of the bytes is both sound and fast,
so a forked child loads them first. A process that may be lost anyway, as a worker of a
pool of ours, does without (`expendable`) and is killed by a timer.
"""

from __future__ import annotations

import gc
import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ncclforensics.parsers import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

try:
    import resource
except ImportError:  # not on Windows, which cannot fork either
    resource = None  # type: ignore[assignment]

_FATAL = (signal.SIGSEGV, signal.SIGABRT, signal.SIGINT, signal.SIGTERM)
_expendable = False


def expendable() -> None:
    """Begin a worker of a pool: it may die of what it reads, its parent will notice.

    Ctrl-C is the parent's affair, which ends its workers itself. What a worker reads
    holds no cycles that a collector would have to look for.
    """
    global _expendable
    _expendable = True
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def survives(load: Callable[[], object], size: int) -> bool:
    """Tell whether a child that loads `size` bytes is alive after it, in bounded time.

    What it raises is fine. True without a try where the process is expendable or cannot
    fork.
    """
    if _expendable or resource is None or not hasattr(os, "fork"):
        return True
    child = os.fork()
    if not child:
        _taste(load, _seconds(size))
    _, status = os.waitpid(child, 0)
    return os.WIFEXITED(status)


@contextmanager
def deadline(size: int) -> Iterator[None]:
    """Let the kernel kill an expendable process that loads `size` bytes without end."""
    if not _expendable or not hasattr(signal, "ITIMER_VIRTUAL"):
        yield
        return
    signal.setitimer(signal.ITIMER_VIRTUAL, _seconds(size))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _seconds(size: int) -> int:
    return limits.LOAD_SECONDS + size // limits.LOAD_BYTES_PER_SECOND


def _taste(load: Callable[[], object], seconds: int) -> None:
    """Call `load` in the child; does not return."""
    try:
        for number in _FATAL:
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        load()
    except BaseException:
        pass  # it lived, which is all that was asked
    finally:
        os._exit(0)
