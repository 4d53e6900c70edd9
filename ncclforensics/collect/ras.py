"""NCCL's RAS: how far each rank of each communicator came, asked of the job itself.

The client `ncclras` knows JSON from 2.28 on, text before. Where it is not installed,
the port is asked directly: a line of text, as NCCL's manual does with netcat.
"""

from __future__ import annotations

import socket
from functools import partial
from typing import TYPE_CHECKING

from ncclforensics.collect.children import Question
from ncclforensics.collect.commands import FOLDER, no_gpu

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncclforensics.collect.processes import Process

LIMIT_S = 8.0  # RAS itself waits five seconds for processes that do not answer
PORT = 28028
ASKED = b"verbose status\n"


def questions(processes: list[Process]) -> tuple[list[Question], dict[str, str]]:
    """Return how to ask RAS, and why it is not asked."""
    own = processes[0].environment if processes else {}
    if own.get("NCCL_RAS_ENABLE") == "0":
        return [], {"ncclras": "the job has NCCL_RAS_ENABLE=0"}
    if why := "" if "NCCL_RAS_ADDR" in own else no_gpu():
        return [], {"ncclras": why}
    host, port = _address(own)
    where = ("-h", host, "-p", str(port))
    text, name = f"{FOLDER}/ncclras.txt", f"RAS at {host}:{port}"
    by_hand = Question(name, partial(_status, host, port), LIMIT_S, text)
    told = ("ncclras", "-v", *where)
    client = Question(" ".join(told), told, LIMIT_S, text, by_hand)
    best = ("ncclras", "-f", "json", *where)
    file = f"{FOLDER}/ncclras.json"
    return [Question(" ".join(best), best, LIMIT_S, file, client)], {}


def _address(own: Mapping[str, str]) -> tuple[str, int]:
    host, _, port = own.get("NCCL_RAS_ADDR", "").rpartition(":")
    return host or "localhost", int(port) if port.isdigit() else PORT


def _status(host: str, port: int) -> bytes:
    with socket.create_connection((host, port), LIMIT_S) as asked:
        asked.sendall(ASKED)
        asked.shutdown(socket.SHUT_WR)
        parts = []
        while part := asked.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)
