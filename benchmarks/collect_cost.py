"""What `collect` costs a job of 8 ranks on one node: its wall time, and steps lost.

A real Gloo job makes steps of 50 ms, as one whose work is on GPUs: its processes
mostly wait. Its steps are counted while `collect` runs, and for as long before and
after, which is the reference. With --nonblocking and without, several times each.

    python benchmarks/collect_cost.py [--ranks 8] [--times 3]

Needs torch, and py-spy on the PATH. The issue asks for less than 15 s, and for less
than 1 % of the time of the job: of one that runs for an hour and is collected once.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from bisect import bisect
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

STEP_S, ELEMENTS = 0.05, 1 << 16
STARTED = 20  # steps until the job counts as running
STARTS_S, HOUR_S = 240, 3600
PORT = "29571"


def train(log: Path) -> None:
    """Make steps until it is killed; rank 0 writes the time of each to `log`."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    with log.open("a", buffering=1) as file:
        while True:
            time.sleep(STEP_S)
            dist.all_reduce(torch.ones(ELEMENTS))
            if dist.get_rank() == 0:
                file.write(f"{time.time()}\n")


@contextmanager
def job(ranks: int, log: Path) -> Iterator[list[str]]:
    """Run the job until it is left; yields the pids of its ranks."""
    shared = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": PORT}
    shared |= {"WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1"}
    shared |= {"LOCAL_WORLD_SIZE": str(ranks), "GLOO_SOCKET_IFNAME": "lo"}
    words = [sys.executable, __file__, "--train", str(log)]
    started = [
        subprocess.Popen(
            words,
            env=shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.DEVNULL,  # each loses its peers at the end
        )
        for rank in range(ranks)
    ]
    try:
        until = time.monotonic() + STARTS_S
        while not log.exists() or len(steps(log)) < STARTED:
            if time.monotonic() > until:
                raise RuntimeError("the job made no steps")
            time.sleep(0.5)
        yield [str(process.pid) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()


def steps(log: Path) -> list[float]:
    """Return the times of all steps in seconds since 1970."""
    return [float(line) for line in log.read_text().splitlines() if "." in line]


def measured(log: Path, pids: list[str], *options: str) -> tuple[float, float, float]:
    """Return how long collect took, the share of steps lost meanwhile, and seconds.

    The reference is the rate of as long a time right before and right behind.
    """
    with tempfile.TemporaryDirectory() as scratch:
        words = [sys.executable, "-m", "ncclforensics.collect", "-q", *options]
        words += [part for pid in pids for part in ("--pid", pid)]
        begin = time.time()
        subprocess.run([*words, "-o", f"{scratch}/out"], check=True)
        end = time.time()
    took = end - begin
    time.sleep(took + 1)
    made = steps(log)

    def rate(start: float) -> float:
        return (bisect(made, start + took) - bisect(made, start)) / took

    usual = (rate(begin - took) + rate(end)) / 2
    lost = 1 - rate(begin) / usual
    return took, lost, lost * took


def main() -> None:
    """Measure and print a line for each way of collecting."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.train:
        train(asked.train)
        return
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "steps"
        with job(asked.ranks, log) as pids:
            for options in ((), ("--nonblocking",)):
                time.sleep(20)  # as long as the longest reference
                runs = [measured(log, pids, *options) for _ in range(asked.times)]
                columns = zip(*runs, strict=True)
                took, lost, seconds = map(statistics.median, columns)
                print(
                    f"collect {' '.join(options) or '(py-spy stops the ranks)'}: "
                    f"{took:.1f} s (longest {max(run[0] for run in runs):.1f}), "
                    f"{lost:.0%} of the steps lost meanwhile = {seconds:.2f} s, "
                    f"{seconds / HOUR_S:.3%} of an hour"
                )


if __name__ == "__main__":
    main()
