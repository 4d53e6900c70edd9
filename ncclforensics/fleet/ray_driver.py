"""Runs in the Python that has Ray, as a script: lists the nodes, or asks them all.

    ray_driver.py list
    ray_driver.py ask FOLDER LIMIT AT_ONCE IDS [ARGUMENT...] < SCRIPT

It imports nothing of ours. A task reserves nothing, is bound to its node, and sends in
pieces, so that neither the object store nor this process holds a whole share.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

PIECE = 1 << 20  # bytes
AHEAD = 8  # pieces that a task may be ahead of what was written


def on_node(script: bytes, arguments: list[str], limit: float) -> Iterator[Any]:
    """Run the script on this node; yield its stdout in pieces, then how it ended."""
    import subprocess
    import tempfile
    import threading

    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as sent:
        sent.write(script)
        sent.seek(0)
        process = subprocess.Popen(
            ["python3", "-I", "-", *arguments],
            stdin=sent, stdout=subprocess.PIPE, stderr=said, cwd="/",
        )  # fmt: skip
        late = threading.Timer(limit, process.kill)
        late.start()
        try:
            while piece := process.stdout.read(PIECE):  # type: ignore[union-attr]
                yield piece
            code = process.wait()
        finally:
            late.cancel()
            process.kill()
            process.wait()
        said.seek(0)
        lines = said.read()[-4096:].decode("utf-8", "replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "")
        yield (code, last[:300])


def rows(ray: Any) -> list[dict[str, Any]]:
    """Return name, id and whether it lives of each node; a dead one only once."""
    found: dict[str, dict[str, Any]] = {}
    for node in ray.nodes():
        name = node.get("NodeName") or node["NodeManagerAddress"]
        same = found.get(name)
        if same is None or node["Alive"]:
            # several nodes on one address are told apart by a part of their id
            key = name if same is None or not same["alive"] else node["NodeID"][:12]
            found[key] = {"name": key, "id": node["NodeID"], "alive": node["Alive"]}
    return list(found.values())


def ask(
    ray: Any, folder: str, limit: float, at_once: int, arguments: list[str]
) -> None:
    """Run the script of stdin on all nodes, or those of some ids, `at_once` together.

    `arguments` are the ids, with commas, and those of the script.

    Writes FOLDER/NAME.tar, and a line of JSON per node when it is done.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

    script = sys.stdin.buffer.read()
    only, arguments = arguments[0], arguments[1:]
    alive = [row for row in rows(ray) if row["alive"]]
    todo = deque(row for row in alive if not only or row["id"] in only.split(","))
    held = ray.put(script)
    task = ray.remote(on_node)
    runs: dict[Any, list[Any]] = {}  # the stream of a node: its row, start and file
    while todo or runs:
        while todo and len(runs) < at_once:
            row = todo.popleft()
            row["file"] = row["name"].replace("/", "_") + ".tar"
            stream = task.options(
                num_cpus=0,
                max_retries=0,
                num_returns="streaming",
                _generator_backpressure_num_objects=AHEAD,
                scheduling_strategy=On(row["id"], soft=False),
            ).remote(held, arguments, limit)
            file = open(os.path.join(folder, row["file"]), "wb")  # noqa: SIM115
            runs[stream] = [row, time.monotonic(), file, (None, "no answer")]
        ready, _ = ray.wait(list(runs), num_returns=1, timeout=1, fetch_local=False)
        for stream in ready:
            try:
                piece = ray.get(next(stream), timeout=limit)
            except StopIteration:
                _done(runs.pop(stream))
                continue
            except Exception as caught:
                run = runs.pop(stream)
                lines = str(caught).strip().splitlines() or [type(caught).__name__]
                run[3] = (None, lines[0][:300])
                _done(run)
                continue
            if isinstance(piece, bytes):
                runs[stream][2].write(piece)
            else:
                runs[stream][3] = piece
        now = time.monotonic()
        for stream, run in list(runs.items()):
            if now - run[1] > limit + 5:
                ray.cancel(stream, force=True)
                run[3] = (None, f"no answer within {limit:g} s")
                _done(runs.pop(stream))


def _done(run: list[Any]) -> None:
    """Write the line of a node that is done."""
    row, began, file, (code, said) = run
    file.close()
    seconds = round(time.monotonic() - began, 3)
    told = {"id": row["id"], "file": row["file"], "exit": code, "said": said}
    print(json.dumps({**told, "seconds": seconds}), flush=True)


def main(arguments: list[str]) -> None:
    """Connect to the cluster, and list its nodes or ask them."""
    # this folder comes first for a script, and its ray.py is none
    sys.path.remove(os.path.dirname(os.path.abspath(__file__)))
    try:
        import ray
    except ImportError:
        sys.exit(
            f"ray: {sys.executable} has no Ray; put the one that has first on PATH"
        )
    try:
        ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
    except ConnectionError as caught:
        sys.exit(f"ray: {str(caught).splitlines()[0]}")
    if arguments[0] == "list":
        print(json.dumps(rows(ray)))
    else:
        folder, limit, at_once, *rest = arguments[1:]
        ask(ray, folder, float(limit), int(at_once), rest)


if __name__ == "__main__":
    main(sys.argv[1:])
