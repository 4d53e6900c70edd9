"""What the kernel tells of a process: its state, where it waits, what it has used.

Read in a child per process, and again in a second look: a process whose `cpu_s`,
`switches` and `storage_bytes` do not grow has done nothing in between.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from ncclforensics.collect.children import Question
from ncclforensics.collect.processes import lines

if TYPE_CHECKING:
    from ncclforensics.collect.processes import Process

LIMIT_S = 4.0
MOST_THREADS = 64
MOST_SOCKETS = 200
GPUS = ("/dev/nvidia", "/dev/kfd", "/dev/dri/")
_SWITCHES = ("voluntary", "nonvoluntary")
_SOCKET = re.compile(r"socket:\[(\d+)\]")
TCP = (
    *("", "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT"),
    *("CLOSE", "CLOSE_WAIT", "LAST_ACK", "LISTEN", "CLOSING", "NEW_SYN_RECV"),
)
_LIBRARY = re.compile(r"(/\S*?/(?:site|dist)-packages)/")
_NCCL = re.compile(r"libnccl\.so[\d.]*")


def questions(processes: list[Process]) -> list[Question]:
    """Return a question for the state of each process, named by its pid."""
    return [Question(str(p.pid), partial(_told, p.pid), LIMIT_S) for p in processes]


def read(answer: bytes) -> dict[str, object]:
    """Return the state in an answer, also in one that was cut behind its first line."""
    told: dict[str, object] = {}
    for part in lines(answer):
        told.update(part)
    return told


def _told(pid: int) -> bytes:
    os.write(1, json.dumps(of(pid)).encode() + b"\n")
    # these may wait for a file system, or for a process whose memory is locked
    return json.dumps(_versions(pid)).encode()


def of(pid: int) -> dict[str, object]:
    """Return the state of one process; what cannot be read is absent."""
    told: dict[str, object] = {}
    main, threads = _tasks(pid)
    told.update(main)
    told["threads"] = threads
    io = dict(re.findall(r"(\w+): (\d+)", _read(f"/proc/{pid}/io")))
    if io:
        moved = int(io["read_bytes"]) + int(io["write_bytes"])
        told["storage_bytes"] = moved
        told["called_bytes"] = int(io["rchar"]) + int(io["wchar"])
    status = dict(re.findall(r"(?m)^(\w+):\s*(.*)$", _read(f"/proc/{pid}/status")))
    told["memory"] = status.get("VmRSS", "")
    # those of the main thread alone: as long as they stay, it has not run at all
    counts = [status.get(f"{kind}_ctxt_switches") for kind in _SWITCHES]
    if None not in counts:
        told["switches"] = sum(map(int, filter(None, counts)))
    told["traced_by"] = int(status.get("TracerPid") or 0)
    # the pid that the process itself prints, where it is in a container
    told["own_pid"] = int((status.get("NSpid") or str(pid)).split()[-1])
    stack = _read(f"/proc/{pid}/stack").splitlines()
    if stack:
        told["kernel_stack"] = stack[:32]
    targets = _targets(pid)
    told["uses_gpu"] = any(target.startswith(GPUS) for target in targets)
    told["sockets"] = _sockets(pid, targets)
    return told


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _tasks(pid: int) -> tuple[dict[str, object], list[dict[str, object]]]:
    """Return what the main thread does, and up to MOST_THREADS of all threads."""
    tick = os.sysconf("SC_CLK_TCK")
    rows: list[dict[str, object]] = []
    main: dict[str, object] = {}
    whole = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if len(whole) > 19:
        main = {
            "state": whole[0],
            "cpu_s": (int(whole[11]) + int(whole[12])) / tick,
            "started_ticks": int(whole[19]),
        }
        main["wchan"] = _read(f"/proc/{pid}/wchan").strip("0\n")
    try:
        tids = sorted(map(int, os.listdir(f"/proc/{pid}/task")))
    except OSError:
        tids = []
    main["thread_count"] = len(tids)
    for tid in tids[:MOST_THREADS]:
        folder = f"/proc/{pid}/task/{tid}"
        head, _, rest = _read(f"{folder}/stat").rpartition(")")
        fields = rest.split()
        if len(fields) < 13:
            continue
        rows.append(
            {
                "tid": tid,
                "name": head.partition("(")[2],
                "state": fields[0],
                "cpu_s": (int(fields[11]) + int(fields[12])) / tick,
                "wchan": _read(f"{folder}/wchan").strip("0\n"),
            }
        )
    return main, rows


def _targets(pid: int) -> set[str]:
    """Return what the descriptors of a process lead to."""
    found = set()
    with suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                found.add(os.readlink(entry.path))
    return found


def _sockets(pid: int, targets: set[str]) -> list[dict[str, object]]:
    """Return the TCP connections of a process, with their queues in bytes."""
    own = {found[1] for target in targets if (found := _SOCKET.match(target))}
    rows: list[dict[str, object]] = []
    for table in ("tcp", "tcp6"):
        for line in _read(f"/proc/{pid}/net/{table}").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[9] in own and len(rows) < MOST_SOCKETS:
                sent, _, received = fields[4].partition(":")
                rows.append(
                    {
                        "local": _address(fields[1]),
                        "remote": _address(fields[2]),
                        "state": TCP[int(fields[3], 16)],
                        "send_queue": int(sent, 16),
                        "receive_queue": int(received, 16),
                    }
                )
    return rows


def _address(told: str) -> str:
    """Return `10.0.0.1:29500` for the kernel's `0100000A:733C`."""
    raw, _, port = told.partition(":")
    words = [bytes.fromhex(raw[i : i + 8]) for i in range(0, len(raw), 8)]
    if sys.byteorder == "little":
        words = [word[::-1] for word in words]
    packed = b"".join(words)
    if len(packed) == 4:
        return f"{socket.inet_ntop(socket.AF_INET, packed)}:{int(port, 16)}"
    if packed.startswith(bytes(10) + b"\xff\xff"):
        return f"{socket.inet_ntop(socket.AF_INET, packed[12:])}:{int(port, 16)}"
    return f"[{socket.inet_ntop(socket.AF_INET6, packed)}]:{int(port, 16)}"


def _versions(pid: int) -> dict[str, object]:
    """Return the releases of torch and NCCL that a process has loaded."""
    maps = _read(f"/proc/{pid}/maps")
    found: dict[str, object] = {}
    if "libnccl" in maps and (library := _NCCL.search(maps)):
        found["nccl_library"] = library[0]
    folders = dict.fromkeys(_LIBRARY.findall(maps))
    for folder in list(folders)[:4]:
        try:
            names = os.listdir(f"/proc/{pid}/root{folder}")
        except OSError:
            continue
        for name in names:
            part = re.match(r"(torch|nvidia_nccl_cu\d+)-(\S+)\.dist-info$", name)
            if part:
                found["torch" if part[1] == "torch" else "nccl"] = part[2]
    return found
