"""Nodes of a Ray cluster, by Ray itself: a task on each, bound to its node.

Ray belongs to the user's Python, so `ray_driver.py` runs there, as a script: one driver
for all nodes, because each driver is a job of the cluster. It writes what a node sends
into a file and a line when the node is done; the file is then taken like any stream.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ncclforensics.fleet.answers import Answer, Stream, kind
from ncclforensics.fleet.nodes import Node, listed, once
from ncclforensics.fleet.runner import Running
from ncclforensics.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ncclforensics.fleet.runner import Take

DRIVER = Path(__file__).with_name("ray_driver.py")
START_S = 60  # until a driver is connected to its cluster
READ_S = 600  # to unpack a file that is here already


def python() -> str:
    """Return the Python that has Ray: this one, or the first on PATH."""
    return sys.executable if importlib.util.find_spec("ray") else "python3"


def nodes(arguments: Sequence[str] = ()) -> list[Node]:
    """Return the nodes of the cluster that RAY_ADDRESS or this machine belongs to.

    A node's `argv` are its id in Ray and the arguments of the script: `ask` runs them.
    """
    text = listed((python(), str(DRIVER), "list"))
    try:
        rows = json.loads(text.splitlines()[-1])
    except (ValueError, IndexError) as caught:
        raise UsageError("Ray listed no nodes") from caught
    return once(
        Node(row["name"], (row["id"], *arguments))
        if row["alive"]
        else Node(row["name"], (), "Ray lists it as dead")
        for row in rows
    )


def command(
    folder: str,
    limit: float,
    at_once: int,
    arguments: Sequence[str],
    only: Iterable[str] = (),
) -> list[str]:
    """Return the command that asks all living nodes and writes NAME.tar into `folder`.

    `only` are the ids of the nodes to ask, none for all.
    """
    own = (folder, f"{limit:g}", str(at_once), ",".join(only))
    return [python(), str(DRIVER), "ask", *own, *arguments]


def ask(
    nodes: Sequence[Node], script: Path, take: Take, *, limit: float, at_once: int
) -> Iterator[Answer]:
    """Yield the answer of each node as it comes: see `runner.ask`."""
    for node in nodes:
        if not node.argv:
            yield Answer(node.name, "silent", node.why_not)
    todo = {node.argv[0]: node for node in nodes if node.argv}
    if not todo:
        return
    arguments = next(iter(todo.values())).argv[1:]
    running = Running()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as said:
        argv = command(folder, limit, at_once, arguments, todo)
        driver = running.start(argv, script, said.fileno())
        # all nodes in turns, should each take its whole limit
        rounds = -(-len(todo) // at_once)
        deadline = time.monotonic() + START_S + rounds * limit
        try:
            assert driver.stdout is not None
            for line in _lines(Stream(driver.stdout.fileno(), deadline)):
                told = json.loads(line)
                done = todo.pop(told["id"], None)
                if done is not None:
                    yield _taken(done, told, take, Path(folder))
        finally:
            running.end(driver)
    for node in todo.values():
        yield Answer(node.name, "silent", f"no answer within {limit:g} s")


def _lines(stream: Stream) -> Iterator[bytes]:
    held = b""
    while got := stream.read():
        *lines, held = (held + got).split(b"\n")
        yield from lines


def _taken(node: Node, told: dict[str, object], take: Take, folder: Path) -> Answer:
    """Take the file of a node whose task has ended, and remove it."""
    file = folder / str(told["file"])
    code = told["exit"] if isinstance(told["exit"], int) else None
    descriptor = os.open(file, os.O_RDONLY | os.O_CREAT)
    try:
        stream = Stream(descriptor, time.monotonic() + READ_S)
        got = take(node, stream)
        stream.drain()
    finally:
        os.close(descriptor)
        file.unlink()
    if got.is_again:
        return Answer(node.name, "share", got.why, got.host)
    said = str(told["said"])
    found = kind(code, got.files, got.why == "", said)
    why = "" if found == "share" else said or got.why
    seconds = float(str(told["seconds"]))
    return Answer(node.name, found, why, got.host, seconds, stream.bytes, got.files)
