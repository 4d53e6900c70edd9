"""Limits the memory of the C unpickler and pauses the garbage collector while it runs.

A pickle of a few bytes can request a memo table of 30 GB (LONG_BINPUT with a large
index, which one flipped bit can produce), and CPython fills it before it reads on. Only
the kernel can refuse that, so the address space is capped while an unpickler runs. On
systems other than Linux there is no such cap, only the limit on file size.
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
# The cap is per process: a second thread must not save it as the limit to restore.
_lock = threading.RLock()


@contextmanager
def ceiling(headroom: int = HEADROOM_BYTES) -> Iterator[None]:
    """Cap what the body may allocate at `headroom` bytes; beyond, MemoryError."""
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
    """Return the bytes of address space in use, None if /proc does not provide it."""
    try:
        pages = int(_STATM.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return None if resource is None else pages * resource.getpagesize()


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause the cycle collector, which would traverse a growing dump repeatedly.

    A dump's values have no cycles, and the pause shortens loading by a third.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
