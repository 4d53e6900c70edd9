"""Interrupt-safe sections: where Ctrl-C may raise, and where it has to wait.

Python raises KeyboardInterrupt wherever the program happens to be: in a destructor,
which can only ignore it; in a library, which may convert it to another error; or while
polars is being imported, which panics.
"""

from __future__ import annotations

import _thread
import contextlib
import signal
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType

_striking = threading.Lock()
AGAIN = 0.1  # seconds until an interrupt that had no effect is raised again


@contextlib.contextmanager
def noticed() -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether Ctrl-C was pressed since; none gets lost.

    Outside the main thread, where Python handles no signals, it always returns False.
    """
    came = threading.Event()

    def strike(_number: int, _frame: FrameType | None) -> None:
        came.set()
        if _striking.locked():
            return
        if not _starting("polars"):
            raise KeyboardInterrupt
        _again()

    if threading.current_thread() is not threading.main_thread():
        yield came.is_set
        return
    hook, handler = sys.unraisablehook, signal.signal(signal.SIGINT, strike)
    sys.unraisablehook = _never_ignored
    try:
        yield came.is_set
    finally:
        sys.unraisablehook = hook
        signal.signal(signal.SIGINT, handler)


def _starting(module: str) -> bool:
    """Whether a module is being imported, according to its import specification."""
    spec = getattr(sys.modules.get(module), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


def _never_ignored(unraisable: sys.UnraisableHookArgs) -> None:
    """Raise an interrupt again that was raised where Python can only ignore it.

    This happens after the hook has returned: inside, it would be ignored again.
    """
    if unraisable.exc_type is KeyboardInterrupt:
        _again()
    else:
        sys.__unraisablehook__(unraisable)


def _again() -> None:
    """Raise an interrupt a little later; one that arrives meanwhile counts as it."""
    again = threading.Timer(AGAIN, _thread.interrupt_main)
    again.daemon = True
    # threads cannot start during interpreter shutdown
    with _striking, contextlib.suppress(RuntimeError):
        again.start()


@contextlib.contextmanager
def put_off() -> Iterator[None]:
    """Defer Ctrl-C; processes started meanwhile inherit SIGINT blocked.

    Otherwise a worker would print Python's own traceback before it can ignore SIGINT.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        with _masked():
            yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _masked() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):  # not on Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a temporary folder that is removed even on Ctrl-C."""
    # imported here, because most commands need no folder and start faster without
    import shutil
    import tempfile
    from pathlib import Path

    folder = None
    try:
        with put_off():
            folder = tempfile.mkdtemp()
        yield Path(folder)
    finally:
        if folder is not None:
            with put_off():
                shutil.rmtree(folder, ignore_errors=True)
