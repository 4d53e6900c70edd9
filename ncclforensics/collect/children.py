"""Children with a limit: whatever may block for ever is asked in a process of its own.

A child leads its own process group. At its limit the group is killed; one that is in
state D cannot be killed, and is left behind instead of waited for. `subprocess` is not
used: it waits until the program was found, which never ends on a PATH that hangs.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MIB = 1 << 20
MOST_BYTES = 8 * MIB  # of one answer
AT_ONCE = 8
POLL_S = 0.01
REAP_S = 0.3  # until a killed child counts as left behind
NOT_FOUND = 127
# Python ignores the last two, or its caller handles the first ones
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)
# what journalctl prints instead of an answer
_NOTHING = re.compile(rb"\s*(?:-- No entries --|No journal files were found)")
_ERROR = re.compile(r"(?i)(?:[\w-]+: )?error\b")


@dataclass
class Question:
    """What one child is asked: a command line, or a function that returns bytes.

    `limit` is in seconds. `otherwise` is asked if this one gives no answer. `file` is
    where the answer is kept, relative to the folder of this node; None keeps no file.
    `clean` leaves out what was not asked for.
    """

    name: str
    ask: Sequence[str] | Callable[[], bytes]
    limit: float
    file: str | None = None
    otherwise: Question | None = None
    clean: Callable[[bytes], bytes] | None = None


@dataclass
class Answer:
    """What came back: `exit` is None if nothing did; `why_not` says why, else ""."""

    question: Question
    exit: int | None = None
    seconds: float = 0.0
    data: bytes = b""
    why_not: str = ""


@dataclass
class _Child:
    question: Question
    pid: int
    output: int
    errors: int
    started: float = field(default_factory=time.monotonic)


def ask_all(
    questions: Sequence[Question],
    until: float,
    at_once: int = AT_ONCE,
    environment: dict[str, str] | None = None,
) -> list[Answer]:
    """Ask all questions, `at_once` at a time, and return the answers in any order.

    `until` is a time of the monotonic clock, after which nothing more is begun and
    nothing waited for. A question with `otherwise` adds an answer for each attempt.
    """
    waiting: deque[Question] = deque(questions)
    running: list[_Child] = []
    answers: list[Answer] = []
    try:
        while waiting or running:
            now = time.monotonic()
            while waiting and len(running) < at_once and now < until:
                running.append(_start(waiting.popleft(), environment))
            if now >= until:
                why = "not asked: the time limit of the whole was used up"
                answers += [Answer(question, why_not=why) for question in waiting]
                waiting.clear()
            for child in list(running):
                answer = _look(child, until)
                if answer is None:
                    continue
                running.remove(child)
                answers.append(answer)
                if answer.why_not and child.question.otherwise is not None:
                    waiting.append(child.question.otherwise)
            if running:
                time.sleep(POLL_S)
    finally:
        for child in running:
            _kill(child.pid)
    return answers


def ask(question: Question, until: float) -> Answer:
    """Ask one question; see `ask_all`."""
    return ask_all([question], until)[0]


def _start(question: Question, environment: dict[str, str] | None) -> _Child:
    output, errors = os.memfd_create("answer"), os.memfd_create("errors")
    pid = os.fork()
    if pid:
        return _Child(question, pid, output, errors)
    try:
        _answer(question, output, errors, environment)
    finally:
        os._exit(1)


def _answer(
    question: Question, output: int, errors: int, environment: dict[str, str] | None
) -> None:
    """Run in the child: answer on `output`, and exit."""
    os.setsid()
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES * 4, MOST_BYTES * 4))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(errors if not callable(question.ask) else nothing, 2)
    if callable(question.ask):
        try:
            data = memoryview(question.ask())
            while data:
                data = data[os.write(1, data) :]
        except OSError as error:
            os.write(1, (error.strerror or str(error)).encode())
            os._exit(1)
        os._exit(0)
    os.closerange(3, 1024)
    variables = {**os.environ, **(environment or {}), "LC_ALL": "C"}
    with contextlib.suppress(OSError):
        os.execvpe(question.ask[0], list(question.ask), variables)
    os._exit(NOT_FOUND)


def _look(child: _Child, until: float) -> Answer | None:
    """Return the answer of a child that ended or was given up, else None."""
    status = _reaped(child.pid)
    seconds = time.monotonic() - child.started
    late = seconds >= child.question.limit or time.monotonic() >= until
    if status is None and not late:
        return None
    answer = Answer(child.question, seconds=seconds)
    if status is None:
        _kill(child.pid)
        deadline = time.monotonic() + REAP_S
        while (status := _reaped(child.pid)) is None and time.monotonic() < deadline:
            time.sleep(POLL_S)
        answer.why_not = f"no answer within {seconds:.0f} s"
        if status is None:
            answer.why_not += ", and its process cannot be ended: left behind"
    else:
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        answer.exit = code
    answer.data, errors = _written(child.output), _written(child.errors)
    return _judged(answer, errors)


def _written(file: int) -> bytes:
    """Return what a child wrote; one that was left behind may still have the file."""
    size = os.fstat(file).st_size
    data = os.pread(file, min(size, MOST_BYTES * 4), 0)
    os.close(file)
    return data


def _judged(answer: Answer, errors: bytes) -> Answer:
    """Say why an answer that failed is none; its output is kept."""
    if answer.question.clean is not None:
        answer.data = answer.question.clean(answer.data)
    if answer.exit == 0 and _NOTHING.match(answer.data):
        answer.why_not = "it has no entries"
    if answer.why_not or answer.exit == 0:
        return answer
    if answer.exit == NOT_FOUND and not answer.data:
        answer.why_not = "not found on this node"
        return answer
    if answer.exit == -signal.SIGXFSZ:
        answer.why_not = "more output than is kept: cut"
        return answer
    said = (errors.strip() or answer.data).decode("utf-8", "replace").splitlines()
    named = [line for line in said if _ERROR.match(line)]
    line = (named or said or [f"exit code {answer.exit}"])[-1]
    answer.why_not = line.strip()[:200]
    return answer


def _reaped(pid: int) -> int | None:
    try:
        gone, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0
    return status if gone else None


def _kill(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
