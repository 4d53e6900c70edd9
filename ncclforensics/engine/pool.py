"""Worker processes: how many are worth starting, and what happens when one dies.

Python's unpickler holds the interpreter, so only processes read dumps side by side.
They are forked where this process has no thread that a fork would lose. Where it has
they are spawned, without the program's `__main__`: a script that calls us needs no
guard, and nothing of it runs twice.
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
# processes that take the place of lost ones: a kernel that is short of memory would
# kill them as well
RESTARTS = 4
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
    gc.freeze()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class LostError(Exception):
    """A process that worked for us was killed, or ended by itself."""


class _Worker:
    """A process, and the pipe over which it is given work and answers."""

    def __init__(self) -> None:
        """Start it, forked where no thread is lost by that."""
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
            # with nobody else that holds it, the pipe ends when the process does
            other.close()

    def ask(self, function: Callable[..., Made], args: Sequence[Any]) -> Made:
        """Return or raise what `function` does there; LostError where that ended."""
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
        """End it; a thread that waits for its answer is told."""
        self.process.kill()
        self.process.join()


class Pool(ThreadPoolExecutor):
    """Processes, and as many threads that hand them work and wait for their answers.

    What is asked of a process that ends, also in the midst of its answer, raises
    LostError; the others go on, and another one takes its place, `restarts` times.
    """

    def __init__(self, jobs: int, restarts: int = RESTARTS) -> None:
        """Prepare a pool of `jobs` processes, which start with the first work."""
        super().__init__(max(jobs, 1))
        self.jobs, self._restarts = max(jobs, 1), restarts
        self._workers: list[_Worker] = []
        self._idle: SimpleQueue[_Worker | None] = SimpleQueue()
        self._changing = threading.Lock()
        self._is_over = False

    @property
    def pids(self) -> list[int]:
        """The processes that are there now."""
        return [worker.process.pid for worker in list(self._workers)]

    def submit(self, *args: Any, **_: Any) -> Future[Any]:
        """Have `function(*args)` called in a process; raises OSError without any."""
        # threads that begin here are not interrupted, nor what they start
        with put_off():
            if not (self._workers or self._is_over):
                # all at once, while there is no thread that forbids a fork
                self._start(self.jobs)
            return super().submit(self._ask, *args)

    def close(self) -> None:
        """End the processes at once, whatever they do."""
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
            self._idle.put(None)  # for the others that wait
            raise LostError("no process is left")
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
    """Do what comes through a pipe until it ends: the life of a process."""
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
        gc.collect()  # nothing else does; what was there before is frozen


def _ended(code: int | None) -> str:
    """Return how a process ended, as `multiprocessing` tells it."""
    if code is None or code >= 0:
        return f"ended with {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


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
    """Give a pool of `jobs` processes, this process alone for fewer than 2."""
    if jobs < 2:
        yield Here()
        return
    with closing(Pool(jobs)) as pool:
        yield pool


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


def here(
    function: Callable[[Item], Made], items: Iterable[Item]
) -> Iterator[Made | Exception]:
    """Yield what `function` makes of each item, or what it raised, in order."""
    for item in items:
        try:
            yield function(item)
        except Exception as error:
            yield error


def apart(
    function: Callable[[Item], Made], items: Sequence[Item]
) -> Iterator[Made | Exception]:
    """Do what `here` does in processes; LostError is for an item that ended its own.

    Each is tried once, by a process that nothing went wrong in before.
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
    """Yield what `function` makes of each batch, in order.

    Where work is lost, because the kernel killed a worker or a cluster went away,
    `lost` is told why, and this process does it.
    """
    if isinstance(executor, Here):
        yield from map(function, batches)
        return
    asked = deque(_asked(function, batch, executor) for batch in batches)
    try:
        for batch in batches:
            try:
                made = asked.popleft().result()
            except Exception as error:  # what breaks is the executor's own
                lost(error)
                made = function(batch)
            yield made
    finally:
        for future in asked:
            future.cancel()


def _asked(
    function: Callable[[Item], Made], item: Item, executor: Executor
) -> Future[Made]:
    """Return an executor's promise, one that is broken where it takes no work."""
    try:
        return executor.submit(function, item)
    except Exception as error:
        broken: Future[Made] = Future()
        broken.set_exception(error)
        return broken
