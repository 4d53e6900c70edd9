"""Loads a pickle in a child process first, to see whether it kills its loader.

A few bytes can nest tuples a million deep and use them as a key, or nest each tuple
twice in the next. CPython hashes those in C without checking depth, time or signals,
and either segfaults or never returns. No check of the bytes is both sound and fast, so
a forked child loads them first. An expendable process, such as a worker of our own
pool, skips that and is killed by a timer instead.
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
    """Mark this process as a pool worker that may die; its parent notices.

    Ignores SIGINT, because the parent handles Ctrl-C and ends its workers. Turns off
    the garbage collector, because what a worker reads has no cycles.
    """
    global _expendable
    _expendable = True
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def in_a_child() -> bool:
    """Whether a pickle is loaded in a child first: not if this process may die."""
    return not _expendable and resource is not None and hasattr(os, "fork")


def survives(load: Callable[[], object], size: int) -> bool:
    """Whether a forked child survives loading `size` bytes, in bounded time.

    Exceptions in the child do not matter. Returns True without a test if this process
    is expendable or cannot fork.
    """
    if not in_a_child():
        return True
    child = os.fork()
    if not child:
        _taste(load, _seconds(size))
    _, status = os.waitpid(child, 0)
    return os.WIFEXITED(status)


@contextmanager
def deadline(size: int) -> Iterator[None]:
    """Let the kernel kill an expendable process that hangs loading `size` bytes."""
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
        pass  # the child survived, and only that matters
    finally:
        os._exit(0)
