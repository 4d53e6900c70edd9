"""Flight Recorder dumps: asked of the job by its pipe, and picked up where they lie.

torch makes a pipe `<TORCH_NCCL_DEBUG_INFO_PIPE_FILE><rank>.pipe`; its watchdog thread
looks once a second whether something was written there, dumps to
`<TORCH_FR_DUMP_TEMP_FILE><rank>`, and the job goes on. Without the pipe a dump lies
there only if a timeout has passed.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from ncclforensics.collect import files
from ncclforensics.collect.children import MIB, Question

if TYPE_CHECKING:
    from ncclforensics.collect.processes import Process

PIPES = (
    "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
    "TORCH_FR_DEBUG_INFO_PIPE_FILE",
    "NCCL_DEBUG_INFO_PIPE_FILE",
)
PREFIXES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
# where torch writes without a prefix, from 2.9, 2.7 and 2.2 on
USUAL = (
    "{cache}/torch/comm_lib_trace_rank_",
    "{cache}/torch/nccl_trace_rank_",
    "/tmp/nccl_trace_rank_",
)
MOST_BYTES = 24 * MIB
WRITTEN_S = 10.0  # a poll a second, and symbols of stacks take seconds
SETTLED_S = 0.3  # a dump that has not grown for so long is written
LIMIT_S = WRITTEN_S + 3


def questions(
    processes: list[Process],
    states: dict[int, dict[str, Any]],
    before: dict[str, bool],
) -> tuple[list[Question], dict[str, str]]:
    """Return a question for the dump of each rank, and why others are not asked.

    `states` are those of `state.of` by pid. `before` says which questions an earlier
    look had answers to: the others are not asked again, and of these only a dump that
    was written since is taken.
    """
    asked: list[Question] = []
    why_not: dict[str, str] = {}
    for process in processes:
        if not process.is_main or process.rank < 0:
            continue
        name = f"Flight Recorder dump of {process.label.replace('_', ' ', 1)}"
        if states.get(process.pid, {}).get("state") == "T":
            why_not[name] = "its process is stopped, and answers nobody"
        elif before.get(name, True):
            file = f"dumps/comm_lib_trace_{process.label}"
            ask = partial(_dump, process, name in before)
            asked.append(Question(name, ask, LIMIT_S, file))
    return asked, why_not


def _dump(process: Process, is_new: bool) -> bytes:
    """Return the times and bytes of the newest dump; raises OSError without one.

    Where `is_new`, one that lay there before counts as none.
    """
    places = _places(process)
    before = _newest(places)
    asked = _asked(process)
    until = time.monotonic() + WRITTEN_S
    newest = before
    while not asked and time.monotonic() < until:
        newest = _newest(places)
        if newest is not None and newest != before and _is_settled(newest):
            break
        time.sleep(0.1)
    if newest is None or (is_new and newest == before):
        raise OSError(0, asked or "the job was asked by its pipe, and wrote no dump")
    return files.whole(newest[0], MOST_BYTES)


def _places(process: Process) -> list[str]:
    own = process.environment
    home = own.get("XDG_CACHE_HOME") or os.path.join(process.home or "/root", ".cache")
    told = [own[name] for name in PREFIXES if own.get(name)]
    prefixes = told or [usual.format(cache=home) for usual in USUAL]
    return [_inside(process, f"{prefix}{process.rank}") for prefix in prefixes]


def _inside(process: Process, path: str) -> str:
    """Return a path of the process as this one can open it, also of a container."""
    base = "root" if path.startswith("/") else "cwd"
    inside = f"/proc/{process.pid}/{base}/{path.lstrip('/')}"
    readable = os.access(f"/proc/{process.pid}/{base}", os.X_OK)
    return inside if readable else path


def _newest(places: list[str]) -> tuple[str, int, int] | None:
    """Return path, time and size of the newest dump."""
    found = []
    for path in places:
        try:
            told = os.stat(path)
        except OSError:
            continue
        if stat.S_ISREG(told.st_mode) and told.st_size:
            found.append((path, told.st_mtime_ns, told.st_size))
    return max(found, key=lambda told: told[1], default=None)


def _is_settled(found: tuple[str, int, int]) -> bool:
    time.sleep(SETTLED_S)
    return _newest([found[0]]) == found


def _asked(process: Process) -> str:
    """Write to the pipe of the process; return why that was not possible, or ""."""
    stem = next(
        (process.environment[n] for n in PIPES if process.environment.get(n)), ""
    )
    if not stem:
        return "no dump lies there, and the job has no TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
    path = _inside(process, f"{stem}{process.rank}.pipe")
    try:
        if not stat.S_ISFIFO(os.stat(path).st_mode):
            return "its pipe is no pipe"
        pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        no_reader = error.errno == errno.ENXIO
        why = "nobody reads it" if no_reader else (error.strerror or "unreadable")
        return f"no dump lies there, and its pipe cannot be written to: {why}"
    try:
        os.write(pipe, b"1")
    except OSError as error:
        return f"its pipe cannot be written to: {error.strerror}"
    finally:
        os.close(pipe)
    return ""
