"""Asks many nodes at once, but never more than a fixed number, each within its limit.

A node costs a process, a thread and a few buffers while it is asked, and nothing
before and after: what it sends goes straight to `take`. Ctrl-C ends the processes that
run, and what came in by then is kept.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import tempfile
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TYPE_CHECKING

from ncclforensics.fleet.answers import Answer, Stream, kind
from ncclforensics.fleet.nodes import last_line
from ncclforensics.model.errors import reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from ncclforensics.fleet.nodes import Node
    from ncclforensics.fleet.shares import Share

    Take = Callable[[Node, Stream], Share]

AT_ONCE = 32  # nodes asked at the same time
ENDS_S = 3  # from SIGTERM to SIGKILL: srun first cancels its step
SAID = 4096  # bytes of stderr that are read


class Running:
    """The processes that run now, so that all can be ended at once."""

    def __init__(self) -> None:
        """Begin with no process."""
        self._lock = threading.Lock()
        self._all: set[subprocess.Popen[bytes]] = set()
        self.stopped = False

    def start(
        self, argv: Sequence[str], script: Path, said: int
    ) -> subprocess.Popen[bytes]:
        """Start a command in a process group of its own, with the script on stdin."""
        with self._lock, script.open("rb") as stdin:
            if self.stopped:
                raise InterruptedError("interrupted")
            process = subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,
            )
            self._all.add(process)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End a process and all that it started, if it still runs."""
        _strike(process, signal.SIGTERM)
        try:
            process.wait(ENDS_S)
        except subprocess.TimeoutExpired:
            _strike(process, signal.SIGKILL)
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        with self._lock:
            self._all.discard(process)

    def stop(self) -> None:
        """End all processes, and start none any more; returns at once."""
        with self._lock:
            self.stopped = True
            running = list(self._all)
        for process in running:
            _strike(process, signal.SIGTERM)
        if running:
            later = threading.Timer(ENDS_S, self._kill)
            later.daemon = True
            later.start()

    def _kill(self) -> None:
        with self._lock:
            running = list(self._all)
        for process in running:
            _strike(process, signal.SIGKILL)


def _strike(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to a process that was not waited for, and to its group."""
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


def ask(
    nodes: Sequence[Node],
    script: Path,
    take: Take,
    *,
    limit: float,
    at_once: int = AT_ONCE,
) -> Iterator[Answer]:
    """Yield the answer of each node as it comes.

    `script` is the file that each command reads, `take` gets the node and its stream
    and returns what it made of it, `limit` are the seconds that each node has. On
    KeyboardInterrupt, the processes are ended, and the answers of those nodes are
    yielded before it is raised again.
    """
    running = Running()
    todo = iter(nodes)
    asked: set[Future[Answer]] = set()
    interrupted: KeyboardInterrupt | None = None
    with ThreadPoolExecutor(at_once) as pool:
        try:
            while True:
                for node in itertools.islice(todo, at_once - len(asked)):
                    asked.add(pool.submit(_ask, node, script, take, limit, running))
                if not asked:
                    break
                try:
                    done, _ = wait(asked, return_when=FIRST_COMPLETED)
                except KeyboardInterrupt as caught:
                    interrupted, todo = caught, iter(())
                    running.stop()
                    continue
                asked -= done
                for future in done:
                    yield future.result()
        finally:  # also if whoever iterates was interrupted
            running.stop()
    if interrupted is not None:
        raise interrupted


def _ask(
    node: Node, script: Path, take: Take, limit: float, running: Running
) -> Answer:
    """Run one node's command and hand what it sends to `take`."""
    if not node.argv:
        return Answer(node.name, "silent", node.why_not)
    began = time.monotonic()
    with tempfile.TemporaryFile() as said:
        try:
            process = running.start(node.argv, script, said.fileno())
        except InterruptedError:
            return Answer(node.name, "unasked", "interrupted")
        except OSError as caught:
            return Answer(node.name, "refused", f"{node.argv[0]}: {reason(caught)}")
        try:
            assert process.stdout is not None
            stream = Stream(process.stdout.fileno(), began + limit)
            got = take(node, stream)
            stream.drain()
            code = _exit(process, began + limit)
        finally:
            running.end(process)
        seconds = time.monotonic() - began
        said.seek(max(0, said.seek(0, os.SEEK_END) - SAID))
        told = last_line(said.read())
    code = None if stream.late or running.stopped else code
    if got.is_again:
        return Answer(node.name, "share", got.why, got.host, round(seconds, 3))
    if running.stopped and not got.files:
        return Answer(node.name, "unasked", "interrupted")
    found = kind(code, got.files, got.why == "", told)
    why = _why(code, got.why, told, limit, interrupted=running.stopped)
    why = "" if found == "share" else why
    return Answer(
        node.name, found, why, got.host, round(seconds, 3), stream.bytes, got.files
    )


def _exit(process: subprocess.Popen[bytes], deadline: float) -> int | None:
    try:
        return process.wait(max(deadline - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        return None


def _why(
    code: int | None, damage: str, said: str, limit: float, *, interrupted: bool
) -> str:
    """Return why an answer is not whole, in a line."""
    if interrupted:
        return "interrupted"
    if code is None:
        late = f"no answer within {limit:g} s"
        return f"{late}: {said}" if said else late
    return said or (f"exits {code}" if code else damage)
