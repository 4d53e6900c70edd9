"""Gathering from many nodes: seconds, memory and processes, by a fake transport.

Each node is a `cat` of one share: what is measured is what this machine pays, the rest
is paid by nodes and network.

    python benchmarks/fleet.py [--nodes 1000] [--mib 2]
"""

from __future__ import annotations

import argparse
import io
import os
import resource
import shutil
import tarfile
import tempfile
import threading
import time
from pathlib import Path

from ncclforensics.fleet import runner
from ncclforensics.fleet.nodes import Node
from ncclforensics.fleet.shares import Shares

FILES = 20  # of a share


def share(path: Path, mib: float) -> None:
    """Write a share of `mib` MiB to `path`."""
    with tarfile.open(path, "w") as archive:
        for number in range(FILES):
            told = tarfile.TarInfo(f"gpu/commands/{number}.txt")
            told.size = int(mib * 2**20 / FILES)
            archive.addfile(told, io.BytesIO(os.urandom(told.size)))


def children(most: list[int], stop: threading.Event) -> None:
    """Keep in `most` the largest number of children of this process."""
    tasks = Path(f"/proc/{os.getpid()}/task")
    while not stop.wait(0.02):
        pids = set()
        for task in tasks.iterdir():
            try:
                pids |= set((task / "children").read_text("ascii").split())
            except OSError:
                continue
        most[0] = max(most[0], len(pids))


def main() -> None:
    """Print a row for each number of nodes asked at once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--mib", type=float, default=2.0)
    asked = parser.parse_args()
    print("at once    nodes     MiB  seconds  peak RSS MiB  grown  processes  threads")
    for at_once in (8, 32, 128):
        folder = Path(tempfile.mkdtemp())
        try:
            one, script = folder / "share.tar", folder / "script"
            share(one, asked.mib)
            script.touch()
            shares = Shares(folder / "all")
            nodes = [Node(f"gpu{n:05}", ("cat", str(one))) for n in range(asked.nodes)]
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            most, stop = [0], threading.Event()
            counting = threading.Thread(target=children, args=(most, stop))
            counting.start()
            began, threads, whole = time.monotonic(), 0, 0
            for answer in runner.ask(
                nodes, script, shares.take, limit=600, at_once=at_once
            ):
                threads = max(threads, threading.active_count())
                whole += answer.kind == "share"
            seconds = time.monotonic() - began
            stop.set()
            counting.join()
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            size = sum(f.stat().st_size for f in (folder / "all").rglob("*.txt"))
            print(
                f"{at_once:7} {whole:8,} {size / 2**20:7.0f} {seconds:8.1f} "
                f"{peak / 1024:13.0f} {(peak - before) / 1024:6.0f} {most[0]:10} "
                f"{threads:8}"
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
