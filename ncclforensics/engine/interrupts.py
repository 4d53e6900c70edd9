"""Interrupt-safe sections: where Ctrl-C may raise, and where it has to wait.

Python raises KeyboardInterrupt wherever the program happens to be: in a destructor,
which can only ignore it, in a library that makes another error of it, or in the start
of polars, which panics.
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
AGAIN = 0.1  # seconds until an interrupt that came to nothing strikes once more


@contextlib.contextmanager
def noticed() -> Iterator[Callable[[], bool]]:
    """Give a function that says whether Ctrl-C was pressed since; none is ignored.

    Outside the main thread, where Python takes no signals, nobody is asked.
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
    """Whether a module is being imported, which Python notes in its specification."""
    spec = getattr(sys.modules.get(module), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


def _never_ignored(unraisable: sys.UnraisableHookArgs) -> None:
    """Let an interrupt strike again that struck where Python can only ignore it.

    Not before this hook has returned: here it would be ignored once more.
    """
    if unraisable.exc_type is KeyboardInterrupt:
        _again()
    else:
        sys.__unraisablehook__(unraisable)


def _again() -> None:
    """Let an interrupt strike a little later; one that comes meanwhile is the same."""
    again = threading.Timer(AGAIN, _thread.interrupt_main)
    again.daemon = True
    # no thread starts while Python ends
    with _striking, contextlib.suppress(RuntimeError):
        again.start()


@contextlib.contextmanager
def put_off() -> Iterator[None]:
    """Put a Ctrl-C off; processes that are started meanwhile it does not reach at all.

    Else a worker would print Python's own error before it is ready to ignore one.
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
    """Give a folder of its own, which no Ctrl-C leaves behind."""
    # most commands need none, and start without these
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
