"""The processes that read: how many pay, and what happens when one of them is killed.

Python's unpickler holds the interpreter, so only processes read dumps side by side.
They are spawned, as polars' threads do not survive a fork, and without the program's
`__main__`: a script that calls us needs no guard, and nothing of it runs twice.
"""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from ncclforensics.interrupts import put_off
from ncclforensics.parsers.fr_taster import expendable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Item = TypeVar("Item")
Made = TypeVar("Made")

# a process takes half a second to start; in that time one reads as many bytes of dumps,
# and two threads as many of logs
PAYS_BYTES = 24 * 1024**2
PAYS_LOG_BYTES = 512 * 1024**2

# what a worker's libraries are told before they start: there are as many processes as
# cores, and memory that glibc gives back is soon asked for again, page by page
ENVIRONMENT = {
    "POLARS_MAX_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}
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
        with _spawning, _environment():
            main = sys.modules["__main__"]
            sys.modules["__main__"] = ModuleType("__main__")
            try:
                return SpawnProcess._Popen(process)
            finally:
                sys.modules["__main__"] = main


@contextmanager
def _environment() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class _Context(SpawnContext):
    Process = _Process


class _Pool(ProcessPoolExecutor):
    def end(self) -> None:
        """End the processes, at once where somebody stopped waiting for them.

        One that outlived its parent would miss what they share, and say so.
        """
        with put_off():
            if self._pending_work_items:
                for process in list((self._processes or {}).values()):
                    process.kill()
            self.shutdown(cancel_futures=True)

    def submit(self, *args: Any, **options: Any) -> Future[Any]:
        """Take work, and start the process for it, without being interrupted."""
        with put_off():
            return super().submit(*args, **options)


def paying(sizes: Sequence[int], pays: int) -> int:
    """Return how many processes pay for sources of so many bytes, each for `pays`.

    One source is read by one process: what it takes, nobody else can shorten.
    """
    beside = sum(sizes) - max(sizes, default=0)
    return min(cores(), 1 + beside // pays)


@contextmanager
def processes(jobs: int) -> Iterator[Executor]:
    """Give a pool of `jobs` processes, this process alone for fewer than 2."""
    if jobs < 2:
        yield Here()
        return
    _track()
    pool = _Pool(jobs, mp_context=_Context(), initializer=expendable)
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
    results = executor.map(function, batches)
    while done < len(batches):
        try:
            made = next(results)
        except Exception as error:  # what breaks is the executor's own
            lost(error)
            break
        yield made
        done += 1
    yield from map(function, batches[done:])
