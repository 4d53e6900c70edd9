"""The processes that read: how many pay, and what happens when one of them is killed.

Python's unpickler holds the interpreter, so only processes read dumps side by side.
They are forked where this process has no thread that a fork would lose. Where it has
they are spawned, without the program's `__main__`: a script that calls us needs no
guard, and nothing of it runs twice.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from ncclforensics.interrupts import put_off
from ncclforensics.parsers.fr_taster import expendable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Item = TypeVar("Item")
Made = TypeVar("Made")

# a process takes half a second to start; in that time one reads as many bytes of dumps,
# and two threads as many of logs; one that is forked is there at once, and needs no
# child of its own to try a dump
PAYS_BYTES = 24 * 1024**2
PAYS_BYTES_FORKED = 64 * 1024
PAYS_LOG_BYTES = 512 * 1024**2

# what a worker's libraries are told: there are as many processes as cores
ENVIRONMENT = {"POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
# memory that glibc gives back is soon asked for again, page by page: it keeps so much
KEPT_BYTES = 1 << 30
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
# threads that polars starts with itself; each does without, or starts again by itself
OWN_THREADS = {"jemalloc_bg_thd", "polars-ooc-clea"}
TASKS = Path("/proc/self/task")
_spawning = threading.Lock()


class Here(Executor):
    """Does everything in this process, one thing after the other."""

    def map(
        self, fn: Callable[..., Made], *iterables: Iterable[Any], **_: object
    ) -> Iterator[Made]:
        """Call `fn` when its result is asked for."""
        return map(fn, *iterables)


class _Process(SpawnProcess):
    @staticmethod
    def _Popen(process: Any) -> Any:  # noqa: N802 - multiprocessing's name
        with _spawning:
            main = sys.modules["__main__"]
            sys.modules["__main__"] = ModuleType("__main__")
            try:
                return SpawnProcess._Popen(process)
            finally:
                sys.modules["__main__"] = main


class _Context(SpawnContext):
    Process = _Process


def may_fork() -> bool:
    """Whether a fork loses no thread of this process.

    Elsewhere than on Linux nobody says which threads there are, or fork is no way.
    """
    try:
        names = [(task / "comm").read_text().strip() for task in TASKS.iterdir()]
    except OSError:
        return False
    return len(names) - sum(name in OWN_THREADS for name in names) == 1


def _begin() -> None:
    """Begin a worker: it reads with one thread, and does not outlive its parent."""
    # sets the environment, and lets polars look at it again
    pl.Config.load(json.dumps({"environment": ENVIRONMENT}))
    if keep := getattr(ctypes.CDLL(None), "mallopt", None):  # only glibc has it
        keep(M_MMAP_THRESHOLD, KEPT_BYTES)
        keep(M_TRIM_THRESHOLD, KEPT_BYTES)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    expendable()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _Pool(ProcessPoolExecutor):
    def end(self) -> None:
        """End the processes, at once where somebody stopped waiting for them.

        One that outlived its parent would miss what they share, and say so.
        """
        with put_off():
            if self._pending_work_items:
                for process in list((self._processes or {}).values()):
                    process.kill()
                # of a result that is half written the rest would be waited for, as
                # long as anybody could write it
                self._result_queue._writer.close()  # type: ignore[attr-defined]
            self.shutdown(cancel_futures=True)

    def submit(self, *args: Any, **options: Any) -> Future[Any]:
        """Take work, and start the process for it, without being interrupted."""
        with put_off():
            return super().submit(*args, **options)


def pays_bytes() -> int:
    """Return of how many bytes of dumps a process pays."""
    return PAYS_BYTES_FORKED if may_fork() else PAYS_BYTES


def paying(sizes: Sequence[int], pays: int) -> int:
    """Return how many processes pay for sources of so many bytes, each for `pays`.

    One source is read by one process: what it takes, nobody else can shorten.
    """
    beside = sum(sizes) - max(sizes, default=0)
    return min(cores(), 1 + beside // pays)


@contextmanager
def processes(jobs: int) -> Iterator[Executor]:
    """Give a pool of `jobs` processes, this process alone for fewer than 2.

    And alone where there is no shared memory for their locks, as in some containers.
    """
    if jobs < 2:
        yield Here()
        return
    _track()
    context = get_context("fork") if may_fork() else _Context()
    try:
        pool = _Pool(jobs, mp_context=context, initializer=_begin)
    except (OSError, ImportError, NotImplementedError):
        yield Here()
        return
    try:
        yield pool
    finally:
        pool.end()


def _track() -> None:
    """Start what tracks the processes' locks, while stderr is a file.

    It is handed the descriptor of `sys.stderr`. What Textual puts there has none, and
    says so with a number that no process can be given.
    """
    if os.name != "posix":
        return
    with _spawning:
        stands_in, sys.stderr = sys.stderr, sys.__stderr__
        try:
            resource_tracker.ensure_running()
        finally:
            sys.stderr = stands_in


def cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


def spread(
    function: Callable[[Sequence[Item]], Made],
    batches: Sequence[Sequence[Item]],
    executor: Executor,
    lost: Callable[[BaseException], None],
) -> Iterator[Made]:
    """Yield what `function` makes of each batch, in order.

    Where the executor breaks, because the kernel killed a worker or a cluster went
    away, `lost` is told why, and this process does what is left.
    """
    done = 0
    try:
        for made in executor.map(function, batches):
            yield made
            done += 1
    except Exception as error:  # what breaks is the executor's own
        lost(error)
    yield from map(function, batches[done:])
