"""What do large logs cost? Ours beside a bare Python loop over lines, and grep -c.

    python benchmarks/logs.py [--megabytes N] [--files N] [--repeat N]
                              [--cases CASE…] [--into FOLDER]

Writes the logs of a job: each rank's file begins with what NCCL says at INFO while its
communicators are made, goes on with training output, and ends with a watchdog's timeout
that one rank caused. In the cases `many`, `single` and `gzip`, NCCL says more among the
training output, and the logs are many files, one file, and gzip files; in `small` they
are 2,048 files of 28 MB, whatever the options say. The other cases are many files of
one kind of line: see log_kinds.py. Each program reads them in a process of its own, in
turns. Seconds are the median of the turns. Memory is the highest sum of what the
process and its children have at one time. A ratio says how many times as long as the
loop a program takes.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import shutil
import statistics
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from flight_recorder import Cost, measured
from installed import compiled
from log_kinds import KINDS, Step, mixed

if TYPE_CHECKING:
    from collections.abc import Sequence

LOOP = """
import sys
from pathlib import Path
for file in sorted(Path(sys.argv[1]).iterdir()):
    for line in open(file, errors="replace"):
        pass
"""
GZIP_LOOP = """
import gzip, sys
from pathlib import Path
for file in sorted(Path(sys.argv[1]).iterdir()):
    for line in gzip.open(file, "rt", errors="replace"):
        pass
"""
OURS = """
import sys
from ncclforensics.cli import main
sys.exit(main(["analyze", "--no-cache", "--no-progress", "-f", "json", sys.argv[1]]))
"""
FORMS = ("many", "single", "gzip")  # of the same logs
SMALL = (2048, 28)  # files, and megabytes of all
CASES = (*FORMS, "small", *KINDS)
COMMUNICATORS = 3
CHANNELS = 24


def beginning(rank: int, ranks: int, head: str) -> list[str]:
    """Return what NCCL says while the communicators of one rank are made."""
    lines = [
        f"{head}Bootstrap: Using eth0:10.0.{rank // 256}.{rank % 256}<0>",
        f"{head}NCCL version 2.27.5+cuda12.9",
        f"{head}NCCL_SOCKET_IFNAME set by environment to eth0",
        f"{head}NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; "
        "OOB eth0:10.0.0.1<0>",
        f"{head}Using network IB",
    ]
    for number in range(COMMUNICATORS):
        comm = f"0x7f{number:02x}{rank:04x}"
        whose = f"comm {comm} rank {rank} nranks {ranks} cudaDev {rank % 8}"
        which = (
            f"nvmlDev {rank % 8} busId {rank % 8 + 1}b000 commId 0xc0ffee{number:02x}"
        )
        lines.append(f"{head}ncclCommInitRank {whose} {which} - Init START")
        lines += [
            f"{head}Channel {channel:02d}/0 : {rank}[{rank % 8}] -> "
            f"{(rank + 1) % ranks}[{(rank + 1) % 8}] via P2P/CUMEM/read"
            for channel in range(CHANNELS)
        ]
        lines.append(f"{head}Connected all rings, use ring PXN 1 GDR 1")
        lines.append(f"{head}ncclCommInitRank {whose} {which} - Init COMPLETE")
    return lines


def written(folder: Path, ranks: int, size: int, step: Step, rank: int) -> Path:
    """Write one rank's log of `size` bytes, with the lines of `step`."""
    chance = random.Random(rank)
    host, pid = f"gpu{rank // 8:04d}", 4000 + rank
    head = f"{host}:{pid}:{pid + 60} [{rank % 8}] NCCL INFO "
    path = folder / f"rank_{rank}.log"
    with path.open("w") as file:
        size -= sum(file.write(f"{line}\n") for line in beginning(rank, ranks, head))
        number = 0
        while size > 0:
            number += 1
            size -= file.write(step(chance, number, rank, head))
        if rank != ranks // 2:
            file.write(
                f"[rank{rank}]:[E1120 23:10:00.596967190 ProcessGroupNCCL.cpp:632] "
                f"[Rank {rank}] Watchdog caught collective operation timeout: "
                f"WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
                "Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n"
            )
    return path


def packed(into: Path, path: Path) -> None:
    """Compress one log."""
    with path.open("rb") as log, gzip.open(into / f"{path.name}.gz", "wb", 1) as file:
        shutil.copyfileobj(log, file, 1 << 20)


def compared(case: str, folder: Path, lines: int, size: int, repeat: int) -> None:
    """Read one folder of so many lines and bytes, and print a row per program."""
    names = sorted(map(str, folder.iterdir()))
    grep = "zgrep" if case == "gzip" else "grep"
    loop = GZIP_LOOP if case == "gzip" else LOOP
    programs = {
        "loop": [sys.executable, "-c", loop, str(folder)],
        "ncclforensics": [sys.executable, "-c", OURS, str(folder)],
        # grep stops at the first match where nobody reads what it prints
        "grep -c": ["sh", "-c", f'{grep} -c NCCL "$@" | cat', "sh", *names],
    }
    if shutil.which("rg") and case != "gzip":
        programs["rg -c"] = ["rg", "-c", "NCCL", *names]
    costs: dict[str, list[Cost]] = {name: [] for name in programs}
    for _ in range(repeat):
        for name, command in programs.items():
            costs[name].append(measured(command))
    seconds = {n: statistics.median(c.seconds for c in costs[n]) for n in programs}
    cpu = {n: statistics.median(c.cpu for c in costs[n]) for n in programs}
    for name, runs in costs.items():
        took = seconds[name]
        print(
            f"{case:12} {name:14} {len(names):5} {size / 1e6:7.0f} {lines:11,}"
            f" {took:8.2f} {size / 1e6 / took:8.1f} {lines / took:12,.0f}"
            f" {cpu[name]:7.2f} {max(run.memory for run in runs) / 1e9:6.2f}"
            f" {took / seconds['loop']:7.2f} x {cpu[name] / cpu['loop']:7.2f} x"
            f" {max(run.status for run in runs):5}",
            flush=True,
        )


def main() -> int:
    """Print a row per case and program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=512, help="of all files")
    parser.add_argument("--files", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--cases", nargs="*", default=CASES, choices=CASES)
    parser.add_argument("--into", help="an empty folder with room for the logs")
    options = parser.parse_args()
    compiled()
    print(f"{os.cpu_count()} cores, median of {options.repeat}")
    print(
        f"{'case':12} {'program':14} {'files':>5} {'MB':>7} {'rows':>11} {'s':>8}"
        f" {'MB/s':>8} {'rows/s':>12} {'CPU s':>7} {'GB':>6} {'of loop':>9}"
        f" {'its CPU':>9} {'exit':>5}"
    )
    with tempfile.TemporaryDirectory(dir=options.into) as scratch:
        many = Path(scratch) / "many"
        for kind in dict.fromkeys(case in FORMS or case for case in options.cases):
            few = options.files, options.megabytes
            files, megabytes = SMALL if kind == "small" else few
            step = KINDS.get(str(kind), mixed)
            many.mkdir()
            with ProcessPoolExecutor() as pool:
                each = megabytes * 10**6 // files
                write = partial(written, many, files, each, step)
                paths = list(pool.map(write, range(files)))
            size = sum(path.stat().st_size for path in paths)
            lines = sum(_lines(path) for path in paths)
            for case in options.cases:
                if case in FORMS if kind is True else case == kind:
                    folder = _formed(case, many, paths)
                    compared(case, folder, lines, size, options.repeat)
            shutil.rmtree(many)
    return 0


def _formed(case: str, many: Path, paths: Sequence[Path]) -> Path:
    """Return the folder of the logs in the form of a case."""
    folder = many if case not in ("single", "gzip") else many.with_name(case)
    folder.mkdir(exist_ok=True)
    if case == "gzip":
        with ProcessPoolExecutor() as pool:
            list(pool.map(partial(packed, folder), paths))
    elif case == "single":
        with (folder / "job.log").open("wb") as file:
            for path in paths:
                with path.open("rb") as log:
                    shutil.copyfileobj(log, file, 1 << 20)
    return folder


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(
            chunk.count(b"\n") for chunk in iter(partial(file.read, 1 << 20), b"")
        )


if __name__ == "__main__":
    sys.exit(main())
