"""Limits the memory of the C unpickler, and keeps the garbage collector out of it.

A pickle of a few bytes may ask for a memo table of 30 GB (LONG_BINPUT with a large
index, which one flipped bit can make), and CPython fills it before it reads on. Only
the kernel can refuse that, so the address space is capped while an unpickler runs.
Where there is no such cap (not Linux) the size limit on files is what remains.
"""

from __future__ import annotations

import gc
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ncclforensics.parsers.limits import HEADROOM_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

_STATM = Path("/proc/self/statm")
# the cap is one per process: a second thread must not take it for the limit to restore
_lock = threading.RLock()


@contextmanager
def ceiling(headroom: int = HEADROOM_BYTES) -> Iterator[None]:
    """Let the body allocate `headroom` bytes at most, then MemoryError."""
    with _lock:
        used = _address_space()
        if used is None:
            yield
            return
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        limits = [n for n in (soft, hard) if n != resource.RLIM_INFINITY]
        resource.setrlimit(resource.RLIMIT_AS, (min([used + headroom, *limits]), hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _address_space() -> int | None:
    """Return the bytes of address space in use, None where Linux does not tell."""
    try:
        pages = int(_STATM.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return None if resource is None else pages * resource.getpagesize()


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause the cycle collector, which would walk a growing dump again and again.

    A dump's values hold no cycles, and the pause takes a third off the load.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
