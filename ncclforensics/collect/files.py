"""Copies of files of the job: logs by the descriptors 1 and 2, dumps by their prefix.

A file is read in a child, as it may lie on a mount that hangs, and through
/proc/PID/root, as a container has paths of its own. Of a long log the head and the tail
are kept. A copy has the times of the file.
"""

from __future__ import annotations

import os
import stat
from functools import partial
from typing import TYPE_CHECKING

from ncclforensics.collect.children import MIB, Question, ask_all

if TYPE_CHECKING:
    from ncclforensics.collect.processes import Process

LIMIT_S = 5.0
OPENED_S = 2.0
HEAD, TAIL = MIB, 7 * MIB  # bytes kept of a log that is longer
MOST_LOGS = 64
STREAMS = {1: "stdout", 2: "stderr"}


def log_questions(
    processes: list[Process], until: float
) -> tuple[list[Question], dict[str, str]]:
    """Return a question per log file, and why other descriptors give none.

    The second value is by descriptor, as `rank_3.stderr`. A file that several
    descriptors have open is asked for once, under the name that all may have.
    """
    of_file: dict[bytes, list[tuple[Process, int, str]]] = {}
    why_not: dict[str, str] = {}
    outputs = [(p, number) for p in processes if p.is_main for number in STREAMS]
    asked = [
        Question(str(at), partial(_opened, f"/proc/{p.pid}/fd/{number}"), OPENED_S)
        for at, (p, number) in enumerate(outputs)
    ]
    answers = ask_all(asked, until, at_once=32)
    for answer in sorted(answers, key=lambda answer: int(answer.question.name)):
        process, number = outputs[int(answer.question.name)]
        name = f"{process.label}.{STREAMS[number]}"
        head, _, told = answer.data.rpartition(b"\n")
        target = head.decode("utf-8", "replace")
        if answer.why_not:
            why_not[name] = f"{target}: {answer.why_not}" if target else answer.why_not
            continue
        mode, _, key = told.partition(b" ")
        if stat.S_ISREG(int(mode)):
            of_file.setdefault(key, []).append((process, number, target))
        else:
            why_not[name] = _what(target, int(mode))
    questions: list[Question] = []
    for held in list(of_file.values())[:MOST_LOGS]:
        process, number, target = held[0]
        ranks = {p.rank for p, _, _ in held}
        streams = {n for _, n, _ in held}
        base = os.path.basename(target.replace(" (deleted)", "")) or "log"
        if len(ranks) > 1:
            name = f"logs/{len(questions)}.{base}"
        elif len(streams) > 1:
            name = f"logs/{process.label}.log"
        else:
            name = f"logs/{process.label}.{STREAMS[number]}.log"
        path = f"/proc/{process.pid}/fd/{number}"
        questions.append(Question(target, partial(log, path), LIMIT_S, name))
    return questions, why_not


def _opened(path: str) -> bytes:
    """Tell what a descriptor leads to, then its mode, device and inode."""
    os.write(1, os.readlink(path).encode("utf-8", "surrogateescape") + b"\n")
    told = os.stat(path)  # waits for the server of a mount
    return f"{told.st_mode} {told.st_dev} {told.st_ino}".encode()


def _what(target: str, mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a pipe: whoever reads it has the output"
    if target == "/dev/null":
        return "/dev/null: the output was thrown away"
    kind = "a terminal" if target.startswith(("/dev/pts", "/dev/tty")) else "no file"
    return f"{kind}, {target}: nothing of it is left"


def log(path: str) -> bytes:
    """Return the times of a file and its text, long ones without their middle."""
    with open(path, "rb") as file:
        told = os.fstat(file.fileno())
        if told.st_size <= HEAD + TAIL:
            return _stamp(told) + file.read(HEAD + TAIL)
        head = file.read(HEAD)
        file.seek(told.st_size - TAIL)
        tail = file.read(TAIL)
    head = head[: head.rfind(b"\n") + 1] or head
    tail = tail[tail.find(b"\n") + 1 :]
    left = told.st_size - len(head) - len(tail)
    return _stamp(told) + head + f"[{left} bytes left out]\n".encode() + tail


def whole(path: str, most: int) -> bytes:
    """Return the times of a file and all of it; raises OSError where it is longer."""
    with open(path, "rb") as file:
        told = os.fstat(file.fileno())
        if told.st_size > most:
            raise OSError(0, f"it has {told.st_size >> 20} MiB: not copied")
        return _stamp(told) + file.read(most)


def _stamp(told: os.stat_result) -> bytes:
    return f"{told.st_mtime_ns}\n".encode()


def unstamped(data: bytes) -> tuple[int | None, bytes]:
    """Return the modification time in ns and the bytes of what a child returned."""
    stamp, newline, rest = data.partition(b"\n")
    return (int(stamp), rest) if newline and stamp.isdigit() else (None, data)
