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

from ncclforensics.collect.children import MIB, Question

if TYPE_CHECKING:
    from ncclforensics.collect.processes import Process

LIMIT_S = 5.0
HEAD, TAIL = MIB, 7 * MIB  # bytes kept of a log that is longer
MOST_LOGS = 64
STREAMS = {1: "stdout", 2: "stderr"}


def log_questions(
    processes: list[Process],
) -> tuple[list[Question], dict[str, str]]:
    """Return a question per log file, and why other descriptors give none.

    The second value is by descriptor, as `rank_3.stderr`. A file that several
    descriptors have open is asked for once, under the name that all may have.
    """
    of_file: dict[tuple[int, int], list[tuple[Process, int, str]]] = {}
    why_not: dict[str, str] = {}
    for process in processes:
        if not process.is_main:
            continue
        for number, stream in STREAMS.items():
            path = f"/proc/{process.pid}/fd/{number}"
            try:
                # the link's own text, and what stat(2) holds in memory: no wait
                target, told = os.readlink(path), os.stat(path)
            except OSError as error:
                why_not[f"{process.label}.{stream}"] = error.strerror or "unreadable"
                continue
            if not stat.S_ISREG(told.st_mode):
                why_not[f"{process.label}.{stream}"] = _what(target, told.st_mode)
                continue
            key = (told.st_dev, told.st_ino)
            of_file.setdefault(key, []).append((process, number, target))
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
