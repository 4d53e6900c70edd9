"""Does little evidence feel instant? Whole processes, beside Python that loads polars.

    python benchmarks/small.py [--ranks N] [--repeat N]

Writes what a job of 16 ranks leaves: short dumps, dumps of a full ring, short dumps
with a log of each rank. `again` is a second look, which takes the kept answer. Seconds
are the median of the turns, of a process from its start to its end.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

import flight_recorder
import logs
from installed import compiled
from log_kinds import mixed

LOG_BYTES = 300_000
OURS = [sys.executable, "-m", "ncclforensics"]
AGAIN = [*OURS, "analyze", "--no-progress"]


def evidence(folder: Path, ranks: int, entries: int, log_bytes: int) -> None:
    """Write the dumps of a job and, of so many bytes, its logs."""
    folder.mkdir()
    flight_recorder.written(folder, ranks, entries, "c10d")
    for rank in range(ranks if log_bytes else 0):
        logs.written(folder, ranks, log_bytes, mixed, rank)


def main() -> int:
    """Print a row per program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=16)
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args()
    compiled()
    with tempfile.TemporaryDirectory() as scratch:
        kinds = {"dumps": (200, 0), "full": (2000, 0), "logs": (200, LOG_BYTES)}
        for name, (entries, log_bytes) in kinds.items():
            evidence(Path(scratch, name), options.ranks, entries, log_bytes)
        programs = {
            "import polars": [sys.executable, "-c", "import polars"],
            "--help": [*OURS, "--help"],
        }
        os.environ["XDG_CACHE_HOME"] = f"{scratch}/cache"
        for name in kinds:
            look = [*AGAIN, f"{scratch}/{name}"]
            flight_recorder.measured(look)
            programs[f"{name} of {options.ranks} ranks"] = [*look, "--no-cache"]
            programs[f"{name} again"] = look
            programs[f"{name}, report"] = [
                *(*OURS, "report", look[-1], "-o", f"{scratch}/a.html", "--force")
            ]
        print(f"{os.cpu_count()} cores, median of {options.repeat}")
        print(f"{'program':22} {'s':>6} {'CPU s':>7} {'exit':>5}")
        costs = {
            name: [flight_recorder.measured(command) for _ in range(options.repeat)]
            for name, command in programs.items()
        }
    for name, runs in costs.items():
        seconds = statistics.median(run.seconds for run in runs)
        cpu = statistics.median(run.cpu for run in runs)
        print(f"{name:22} {seconds:6.2f} {cpu:7.2f} {max(r.status for r in runs):5}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
