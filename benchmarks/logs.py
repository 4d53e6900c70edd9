"""What do large logs cost? Ours beside a bare Python loop over lines, and grep -c.

    python benchmarks/logs.py [--megabytes N] [--files N] [--repeat N]
                              [--cases many single gzip] [--into FOLDER]

Writes the logs of a job: each rank's file begins with what NCCL says at INFO while its
communicators are made, goes on with training output among which NCCL says more, and
ends with a watchdog's timeout that one rank caused. They are read as many files, as one
file, and as gzip files, by each program in a process of its own, in turns. Seconds are
the median of the turns. Memory is the highest sum of what the process and its children
have at one time. A ratio says how many times as long as the loop a program takes.
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

from flight_recorder import Cost, measured
from installed import compiled

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


def going_on(chance: random.Random, step: int, rank: int, head: str) -> list[str]:
    """Return what is printed in one step of the training."""
    clock = f"2026-11-20 {step // 3600 % 24:02d}:{step // 60 % 60:02d}:{step % 60:02d}"
    peer = chance.randrange(256)
    return [
        f"[{clock}] step {step}/500000 | loss {chance.random() * 3:.4f} | lr 1.2e-04 | "
        f"grad norm {chance.random():.3f} | tokens/s {chance.randrange(10**5)}",
        f"INFO:trainer.data:rank {rank} took shard {chance.randrange(10**5):05d} in "
        f"{chance.random() * 9:.3f} s, {chance.randrange(64)} more are queued",
        f"{head}Channel {step % 32:02d}/1 : {rank}[{rank % 8}] -> {peer}[{peer % 8}] "
        "[send] via NET/IB/1/GDRDMA/Shared",
        f"{head}Channel {step % 32:02d}/1 : {peer}[{peer % 8}] -> {rank}[{rank % 8}] "
        "[receive] via NET/IB/1/GDRDMA/Shared",
        f"{head}New proxy send connection {step % 512} from local rank {rank % 8}, "
        "transport 2",
        f"{head}proxyProgressAsync opId=0x{chance.getrandbits(40):x} op.type=1 "
        f"op.reqBuff=0x{chance.getrandbits(40):x} op.respSize=16 done",
    ]


def written(folder: Path, ranks: int, size: int, rank: int) -> Path:
    """Write one rank's log of `size` bytes."""
    chance = random.Random(rank)
    host, pid = f"gpu{rank // 8:04d}", 4000 + rank
    head = f"{host}:{pid}:{pid + 60} [{rank % 8}] NCCL INFO "
    path = folder / f"rank_{rank}.log"
    with path.open("w") as file:
        file.writelines(f"{line}\n" for line in beginning(rank, ranks, head))
        step = 0
        while file.tell() < size:
            lines: list[str] = []
            for _ in range(1000):
                step += 1
                lines += going_on(chance, step, rank, head)
            file.writelines(f"{line}\n" for line in lines)
        if rank != ranks // 2:
            file.write(
                f"[rank{rank}]:[E1120 23:10:00.596967190 ProcessGroupNCCL.cpp:632] "
                f"[Rank {rank}] Watchdog caught collective operation timeout: "
                f"WorkNCCL(SeqNum={step}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
                "Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n"
            )
    return path


def packed(into: Path, path: Path) -> None:
    """Compress one log."""
    with path.open("rb") as log, gzip.open(into / f"{path.name}.gz", "wb", 1) as file:
        shutil.copyfileobj(log, file, 1 << 20)


def compared(case: str, folder: Path, lines: int, size: int, repeat: int) -> None:
    """Read one folder with each program, and print a row of each."""
    names = sorted(map(str, folder.iterdir()))
    grep = "zgrep" if case == "gzip" else "grep"
    loop = GZIP_LOOP if case == "gzip" else LOOP
    programs = {
        "loop": [sys.executable, "-c", loop, str(folder)],
        "ncclforensics": [sys.executable, "-c", OURS, str(folder)],
        # grep stops at the first match where nobody reads what it prints
        "grep -c": ["sh", "-c", f'{grep} -c NCCL "$@" | cat', "sh", *names],
    }
    costs: dict[str, list[Cost]] = {name: [] for name in programs}
    for _ in range(repeat):
        for name, command in programs.items():
            costs[name].append(measured(command))
    seconds = {n: statistics.median(c.seconds for c in costs[n]) for n in programs}
    cpu = {n: statistics.median(c.cpu for c in costs[n]) for n in programs}
    for name, runs in costs.items():
        took = seconds[name]
        print(
            f"{case:7} {name:14} {len(names):5} {size / 1e6:7.0f} {lines:11,}"
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
    parser.add_argument(
        "--cases", nargs="*", default=["many", "single", "gzip"], metavar="CASE"
    )
    parser.add_argument("--into", help="an empty folder with room for the logs")
    options = parser.parse_args()
    compiled()
    print(f"{os.cpu_count()} cores, median of {options.repeat}")
    print(
        f"{'case':7} {'program':14} {'files':>5} {'MB':>7} {'rows':>11} {'s':>8}"
        f" {'MB/s':>8} {'rows/s':>12} {'CPU s':>7} {'GB':>6} {'of loop':>9}"
        f" {'its CPU':>9} {'exit':>5}"
    )
    with tempfile.TemporaryDirectory(dir=options.into) as scratch:
        folders = {case: Path(scratch) / case for case in ("many", "single", "gzip")}
        for folder in folders.values():
            folder.mkdir()
        each = options.megabytes * 10**6 // options.files
        write = partial(written, folders["many"], options.files, each)
        with ProcessPoolExecutor() as pool:
            paths = list(pool.map(write, range(options.files)))
            if "gzip" in options.cases:
                list(pool.map(partial(packed, folders["gzip"]), paths))
        if "single" in options.cases:
            with (folders["single"] / "job.log").open("wb") as file:
                for path in paths:
                    with path.open("rb") as log:
                        shutil.copyfileobj(log, file, 1 << 20)
        size = sum(path.stat().st_size for path in paths)
        lines = sum(_lines(path) for path in paths)
        for case in options.cases:
            compared(case, folders[case], lines, size, options.repeat)
    return 0


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(
            chunk.count(b"\n") for chunk in iter(partial(file.read, 1 << 20), b"")
        )


if __name__ == "__main__":
    sys.exit(main())
