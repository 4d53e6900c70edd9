"""What do many dumps cost? Ours beside a bare pickle.load and torchfrtrace.

    python benchmarks/flight_recorder.py [--ranks N…] [--entries N] [--pickler python]
                                         [--repeat N] [--skip torch]

Writes dumps of a job with tensor-parallel groups of 8 and the default group, in which
one rank misses the last call, and reads the same files with each program in a process
of its own, in turns. Seconds are the median of the turns (torchfrtrace takes one).
Memory is the highest sum of what the process and its children have at one time, a page
that they share counted once. CPU seconds are of all its processes. A ratio says how
many times as long as pickle.load a program takes, and how many times faster than
torchfrtrace it is.
"""

from __future__ import annotations

import argparse
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

import dumps
from installed import compiled

LOAD = """
import pickle, sys
from pathlib import Path
n = 0
for file in sorted(Path(sys.argv[1]).iterdir()):
    with file.open("rb") as stream:
        n += len(pickle.load(stream)["entries"])
"""
OURS = """
import sys
from ncclforensics.cli import main
sys.exit(main(["analyze", "--no-cache", "--no-progress", "-f", "json", sys.argv[1]]))
"""


class Cost(NamedTuple):
    """What one run took: seconds, and of all cores; bytes at the worst; exit status."""

    seconds: float
    cpu: float
    memory: int
    status: int


def measured(command: list[str]) -> Cost:
    """Run a program and watch the memory of its processes."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    sums = [0]
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            sums.append(sum(map(resident, [process.pid, *children(process.pid)])))

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    over.set()
    watcher.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu = used.ru_utime + used.ru_stime
    return Cost(seconds, cpu, max(sums), process.returncode)


def children(pid: int) -> list[int]:
    """Return the processes below one."""
    found = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *children(child)]
    except OSError:
        pass
    return found


def resident(pid: int) -> int:
    """Return a process's resident memory in bytes, its share of shared pages (PSS)."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def written(folder: Path, ranks: int, entries: int, pickler: str) -> int:
    """Write the dumps; return their bytes."""
    size = 0
    for rank in range(ranks):
        absent = ranks // 2 + 1
        if pickler == "c10d":
            data = dumps.dump(rank, ranks, entries, absent)
        else:
            told = dumps.told(rank, ranks, entries, absent)
            data = pickle.dumps(dumps.plain(told))
        size += (folder / f"nccl_trace_rank_{rank}").write_bytes(data)
    return size


def compared(options: argparse.Namespace, ranks: int, folder: Path) -> None:
    """Write the dumps of one job, read them with each program, print a row of each."""
    size = written(folder, ranks, options.entries, options.pickler)
    rows = ranks * options.entries - 1
    torchfrtrace = Path(sys.executable).with_name("torchfrtrace")
    programs = {
        "pickle.load": [sys.executable, "-c", LOAD, str(folder)],
        "ncclforensics": [sys.executable, "-c", OURS, str(folder)],
        "torchfrtrace": [str(torchfrtrace), str(folder), "-p", "nccl_trace_rank_"],
    }
    if "torch" in options.skip or not torchfrtrace.exists():
        del programs["torchfrtrace"]
    costs: dict[str, list[Cost]] = {name: [] for name in programs}
    for turn in range(options.repeat):
        for name, command in programs.items():
            if turn == 0 or name != "torchfrtrace":
                costs[name].append(measured(command))
    seconds = {n: statistics.median(c.seconds for c in costs[n]) for n in programs}
    for name, runs in costs.items():
        took = seconds[name]
        ratio = f"{took / seconds['pickle.load']:7.2f} x"
        faster = seconds.get("torchfrtrace", 0) / took
        print(
            f"{name:14} {ranks:5} {size / 1e6:7.0f} {rows:9,} {took:8.2f}"
            f" {size / 1e6 / took:7.1f} {rows / took:10,.0f}"
            f" {statistics.median(run.cpu for run in runs):7.2f}"
            f" {max(run.memory for run in runs) / 1e9:6.2f} {ratio}"
            f" {f'{faster:9.1f} x' if faster else '':>11}"
            f" {max(run.status for run in runs):5}",
            flush=True,
        )


def main() -> int:
    """Print a row per program and number of ranks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", nargs="*", type=int, default=[256, 1024])
    parser.add_argument("--entries", type=int, default=2000)
    parser.add_argument("--pickler", choices=["c10d", "python"], default="c10d")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--skip", nargs="*", default=[], choices=["torch"])
    options = parser.parse_args()
    compiled()
    print(
        f"{os.cpu_count()} cores, {options.entries:,} entries a rank as"
        f" {options.pickler} writes them, median of {options.repeat}"
    )
    print(
        f"{'program':14} {'files':>5} {'MB':>7} {'rows':>9} {'s':>8} {'MB/s':>7}"
        f" {'rows/s':>10} {'CPU s':>7} {'GB':>6}"
        f" {'of load':>9} {'faster':>11} {'exit':>5}"
    )
    for ranks in options.ranks:
        with tempfile.TemporaryDirectory() as folder:
            compared(options, ranks, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
