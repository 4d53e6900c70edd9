"""One look at the job: what moves while it works, taken at one moment.

A second look some time later has the same questions under another folder. What stands
still in both is proved to stand; what moved is told by the later one.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from ncclforensics.collect import commands, dumps, peers, ras, stacks, state
from ncclforensics.collect.children import Question, ask, ask_all
from ncclforensics.collect.share import iso

if TYPE_CHECKING:
    from ncclforensics.collect.processes import Process
    from ncclforensics.collect.share import Share

SEARCH_S = 2.0
DOCUMENT = "collected_processes"  # the key by which the document is known


def take(
    share: Share,
    processes: list[Process],
    until: float,
    folder: str,
    *,
    nonblocking: bool,
    searched: bool,
    is_first: bool,
    also: list[Question],
) -> dict[int, dict[str, Any]]:
    """Take one look and write it under `folder`; return the processes' states by pid.

    `searched`: all processes of the job were looked for. `also` are further questions,
    asked at the same time; their files lie outside `folder`.
    """
    states = _states(share, processes, until)
    # a look that is the first of two ends with what is compared: py-spy lets a process
    # run for a moment when it stops it
    if not is_first:
        _write_states(share, processes, states, folder, searched=searched)
    asked = _stacks(share, processes, states, until, nonblocking=nonblocking)
    if share.redactor.leaves_out_dumps:
        why = "left out: paths in it cannot be replaced; use `analyze --redact`"
        share.miss({"Flight Recorder dumps": why})
    else:
        before = {row["asked"]: "why_not" not in row for row in share.asked}
        more, why_not = dumps.questions(processes, states, before)
        asked += more
        share.miss(why_not)
    moving, why_not = commands.questions(commands.TWICE, "")
    more, silent = ras.questions(processes)
    moving += more
    share.miss({**why_not, **silent})
    # dumps mostly wait: begun first, they take no time of their own
    own = {id(question) for question in asked + moving}
    for answer in ask_all([*reversed(asked), *moving, *also], until, at_once=12):
        share.keep(answer, folder if _is_of(answer.question, own, asked) else "")
    _write_counters(share, folder)
    if is_first:
        states = _states(share, processes, until)
        _write_states(share, processes, states, folder, searched=searched)
    return states


def _is_of(question: Question, own: set[int], asked: list[Question]) -> bool:
    """Whether a question belongs to the look, also as the `otherwise` of one."""
    file = question.file or ""
    return id(question) in own or file.startswith(("stacks/", "commands/ncclras"))


def _states(
    share: Share, processes: list[Process], until: float
) -> dict[int, dict[str, Any]]:
    """Return the state of each process by pid."""
    taken = time.time()
    answers = ask_all(state.questions(processes), until, at_once=32)
    for answer in answers:
        if answer.why_not:
            pid = answer.question.name
            share.miss({f"state of process {pid} in /proc": answer.why_not})
    told = {int(a.question.name): state.read(a.data) for a in answers}
    return {pid: {**row, "taken": taken} for pid, row in told.items()}


def _write_states(
    share: Share,
    processes: list[Process],
    states: dict[int, dict[str, Any]],
    folder: str,
    *,
    searched: bool,
) -> None:
    """Write processes.json."""
    taken = min((row.pop("taken") for row in states.values()), default=time.time())
    names = {address: name for name, (address, _) in peers.interfaces().items()}
    rows = [_row(process, states.get(process.pid, {}), names) for process in processes]
    host = os.uname().nodename
    told = {DOCUMENT: 1, "host": host, "taken": iso(taken), "searched": searched}
    told["processes"] = rows
    share.document(f"{folder}processes.json", told, "processes")


def _row(
    process: Process, told: dict[str, Any], names: dict[str, str]
) -> dict[str, Any]:
    """Return what is written of a process; `names` are interfaces by address."""
    own = process.environment
    group = own.get("GROUP_RANK", "")
    numbers = process.sizes | ({"group_rank": int(group)} if group.isdigit() else {})
    who = {"pid": process.pid, "parent": process.parent, "name": process.name}
    rank = {"rank": process.rank} if process.rank >= 0 else {}
    command = {"command": process.command[:1000]}
    # one that listens at an address of its own is waited for there
    used = {
        names.get(socket["local"].rpartition(":")[0], "")
        for socket in told.get("sockets", [])
    }
    leads = {"interfaces": sorted(used - {""})}
    main: dict[str, Any] = {"is_main": process.is_main}
    if "started_ticks" in told:
        booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        ticks = told["started_ticks"] / os.sysconf("SC_CLK_TCK")
        main["started"] = iso(booted + ticks)
    return {**who, **rank, **main, **numbers, **command, **leads, **told}


def _stacks(
    share: Share,
    processes: list[Process],
    states: dict[int, dict[str, Any]],
    until: float,
    *,
    nonblocking: bool,
) -> list[Question]:
    if not processes:
        return []
    search = Question("py-spy", partial(stacks.program, processes), SEARCH_S)
    found = ask(search, until)
    spy = found.data.decode("utf-8", "replace")
    if not spy:
        why = found.why_not or "not found on this node: no stacks"
        share.miss({"py-spy": why})
        return []
    asked, why_not = stacks.questions(processes, states, spy, nonblocking)
    share.miss(why_not)
    return asked


def _write_counters(share: Share, folder: str) -> None:
    """Keep what the interfaces have counted, as the kernel prints it."""
    try:
        with open("/proc/net/dev", "rb") as file:
            share.write(f"{folder}commands/net-dev.txt", file.read())
    except OSError as error:
        share.miss({"/proc/net/dev": error.strerror or "unreadable"})
