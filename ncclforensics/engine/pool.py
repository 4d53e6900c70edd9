"""Worker processes: how many are worth starting, and what happens when one dies.

Python's unpickler holds the GIL, so reading dumps in parallel takes processes. They are
forked if this process has no thread that a fork would lose. Otherwise they are spawned
without the program's `__main__`: a script that calls us needs no guard, and none of it
runs twice.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
import threading
from collections import deque
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import polars as pl

from ncclforensics.engine.interrupts import put_off
from ncclforensics.parsers.flight_recorder.pickle_probe import expendable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from multiprocessing.connection import Connection

Item = TypeVar("Item")
Made = TypeVar("Made")

# Bytes of input per process from which it pays off. Spawning takes half a second; in
# that time one process reads that many bytes of dumps, and two threads that many of
# logs. A forked process starts at once, and needs no child of its own to probe a dump.
PAYS_BYTES = 24 * 1024**2
PAYS_BYTES_FORKED = 64 * 1024
PAYS_LOG_BYTES = 512 * 1024**2

# environment of a worker: there is one process per core
ENVIRONMENT = {"POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
# glibc keeps that much freed memory, which is soon needed again, page by page
KEPT_BYTES = 1 << 30
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
# threads that polars starts on import; a fork can lose them, or they restart
OWN_THREADS = {"jemalloc_bg_thd", "polars-ooc-clea"}
TASKS = Path("/proc/self/task")
# how many lost processes are replaced: if the kernel runs out of memory, it would kill
# the replacements as well
RESTARTS = 4
_spawning = threading.Lock()


class Here(Executor):
    """An executor that runs everything in this process, sequentially."""

    def map(
        self, fn: Callable[..., Made], *iterables: Iterable[Any], **_: object
    ) -> Iterator[Made]:
        """Call `fn` lazily, when its result is requested."""
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

    False except on Linux: other systems do not list threads, or forking is unsafe.
    """
    try:
        names = [(task / "comm").read_text().strip() for task in TASKS.iterdir()]
    except OSError:
        return False
    return len(names) - sum(name in OWN_THREADS for name in names) == 1


def _begin() -> None:
    """Set up a worker: it uses one thread, and does not outlive its parent."""
    # sets the environment, and makes polars read it again
    pl.Config.load(json.dumps({"environment": ENVIRONMENT}))
    keep_memory()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    expendable()
    gc.freeze()


def keep_memory() -> None:
    """Let this process keep what it frees: it soon needs as much again."""
    if keep := getattr(ctypes.CDLL(None), "mallopt", None):  # only glibc has it
        keep(M_MMAP_THRESHOLD, KEPT_BYTES)
        keep(M_TRIM_THRESHOLD, KEPT_BYTES)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class LostError(Exception):
    """A worker process was killed, or ended by itself."""


class _Worker:
    """A worker process, and the pipe for its tasks and results."""

    def __init__(self) -> None:
        """Start the process, forked if that loses no thread."""
        context: Any = get_context("fork") if may_fork() else _Context()
        if isinstance(context, _Context):
            _track()
        self.pipe, other = context.Pipe()
        try:
            self.process = context.Process(target=_work, args=(other,), daemon=True)
            self.process.start()
        except BaseException:
            self.pipe.close()
            raise
        finally:
            # the worker holds the only other end, so the pipe closes when it ends
            other.close()

    def ask(self, function: Callable[..., Made], args: Sequence[Any]) -> Made:
        """Return or raise what `function` does in the worker; LostError if it ended."""
        try:
            self.pipe.send((function, args))
            is_made, made = self.pipe.recv()
        except (EOFError, OSError):
            self.process.kill()
            self.process.join()
            raise LostError(_ended(self.process.exitcode)) from None
        if not is_made:
            raise made
        return cast("Made", made)

    def kill(self) -> None:
        """Kill the process; a thread that waits for its result gets LostError."""
        self.process.kill()
        self.process.join()


class Pool(ThreadPoolExecutor):
    """Worker processes, and one thread each that sends tasks and awaits results.

    A task raises LostError if its process ends, even while sending the result. The
    others continue, and a new process replaces the lost one, up to `restarts` times.
    """

    def __init__(self, jobs: int, restarts: int = RESTARTS) -> None:
        """Prepare a pool of `jobs` processes, which start with the first task."""
        super().__init__(max(jobs, 1))
        self.jobs, self._restarts = max(jobs, 1), restarts
        self._workers: list[_Worker] = []
        self._idle: SimpleQueue[_Worker | None] = SimpleQueue()
        self._changing = threading.Lock()
        self._is_over = False

    @property
    def pids(self) -> list[int]:
        """The pids of the current processes."""
        return [worker.process.pid for worker in list(self._workers)]

    def submit(self, *args: Any, **_: Any) -> Future[Any]:
        """Call `function(*args)` in a process; raises OSError if none can start."""
        # threads started here do not receive SIGINT, nor do their processes
        with put_off():
            if not (self._workers or self._is_over):
                # all at once, while there is no thread that prevents a fork
                self._start(self.jobs)
            return super().submit(self._ask, *args)

    def close(self) -> None:
        """Kill all processes at once, and cancel pending tasks."""
        with put_off():
            with self._changing:
                self._is_over = True
                for worker in self._workers:
                    worker.kill()
                self._idle.put(None)
            self.shutdown(cancel_futures=True)

    def _start(self, count: int) -> None:
        for _ in range(count):
            worker = _Worker()
            self._workers.append(worker)
            self._idle.put(worker)

    def _ask(self, function: Callable[..., Made], *args: Any) -> Made:
        worker = self._idle.get()
        if worker is None:
            self._idle.put(None)  # wakes the next waiting thread
            raise LostError("no worker process is left")
        try:
            made = worker.ask(function, args)
        except LostError:
            self._replace(worker)
            raise
        except BaseException:
            self._idle.put(worker)
            raise
        self._idle.put(worker)
        return made

    def _replace(self, worker: _Worker) -> None:
        with self._changing:
            if self._is_over:
                return
            self._workers.remove(worker)
            if self._restarts:
                self._restarts -= 1
                with suppress(OSError):
                    self._start(1)
            if not self._workers:
                self._is_over = True
                self._idle.put(None)


def _work(pipe: Connection) -> None:
    """Main loop of a worker: run the tasks from the pipe until it closes."""
    _begin()
    while True:
        try:
            function, args = pipe.recv()
        except EOFError:
            return
        try:
            told = True, function(*args)
        except Exception as error:
            told = False, error
        pipe.send(told)
        del told
        gc.collect()  # automatic collection is off; earlier objects are frozen


def _ended(code: int | None) -> str:
    """Return in words how a process ended, given its `multiprocessing` exit code."""
    if code is None or code >= 0:
        return f"ended with {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def pays_bytes() -> int:
    """Return from how many bytes of dumps a further process pays off."""
    return PAYS_BYTES_FORKED if may_fork() else PAYS_BYTES


def worker_count(sizes: Sequence[int], pays: int) -> int:
    """Return how many processes pay off for sources of these sizes, in bytes.

    Each further process needs `pays` bytes. One source is read by one process, so the
    largest one does not count.
    """
    beside = sum(sizes) - max(sizes, default=0)
    return min(cores(), 1 + beside // pays)


@contextmanager
def processes(jobs: int) -> Iterator[Executor]:
    """Yield a pool of `jobs` processes, or this process alone for fewer than 2."""
    if jobs < 2:
        yield Here()
        return
    with closing(Pool(jobs)) as pool:
        yield pool


def _track() -> None:
    """Start multiprocessing's resource tracker with the real stderr.

    The tracker inherits the file descriptor of `sys.stderr`. Textual's replacement has
    none, and returns an invalid number.
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
    """Return the number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


def here(
    function: Callable[[Item], Made], items: Iterable[Item]
) -> Iterator[Made | Exception]:
    """Yield the result of `function` for each item, or its exception, in order."""
    for item in items:
        try:
            yield function(item)
        except Exception as error:
            yield error


def apart(
    function: Callable[[Item], Made], items: Sequence[Item]
) -> Iterator[Made | Exception]:
    """Like `here`, in processes; an item that ends its process yields LostError.

    Each item is tried once; a process that was lost is replaced by a new one.
    """
    with closing(Pool(min(cores(), len(items)), restarts=len(items))) as pool:
        asked = deque(_asked(function, item, pool) for item in items)
        yield from here(lambda _: asked.popleft().result(), items)


def spread(
    function: Callable[[Sequence[Item]], Made],
    batches: Sequence[Sequence[Item]],
    executor: Executor,
    lost: Callable[[BaseException], None],
) -> Iterator[Made]:
    """Yield the result of `function` for each batch, in order.

    If work is lost because the kernel killed a worker or a cluster went away, calls
    `lost` with the exception and does that batch in this process.
    """
    if isinstance(executor, Here):
        yield from map(function, batches)
        return
    asked = deque(_asked(function, batch, executor) for batch in batches)
    try:
        for batch in batches:
            try:
                made = asked.popleft().result()
            except Exception as error:  # the executor failed, not `function`
                lost(error)
                made = function(batch)
            yield made
    finally:
        for future in asked:
            future.cancel()


def _asked(
    function: Callable[[Item], Made], item: Item, executor: Executor
) -> Future[Made]:
    """Submit a task; returns a failed future if the executor accepts none."""
    try:
        return executor.submit(function, item)
    except Exception as error:
        broken: Future[Made] = Future()
        broken.set_exception(error)
        return broken
