"""How long until the timeline is there, and how long does a step through it take?

    python benchmarks/timeline.py [RANKS…] [--calls N] [--steps N]

Per size, in a process of its own: the time to the window, to the answer on screen, the
median and the worst step of the cursor (until the screen is drawn, and the processor
time of it, which a busy machine does not lengthen), by sequence number and by time,
with every rank a line of its own, and the peak of memory. 1,024 and 16,384 ranks by
default. Calls are exported to parquet first, which is not timed.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ncclforensics.tui.chart import Chart


async def step(chart: Chart, number: int) -> None:
    """Move the cursor or what is on screen, and wait until it is drawn."""
    drawn = asyncio.Event()
    moves = (
        partial(chart.action_page, 1),
        partial(chart.action_pan, -1),
        partial(chart.action_move, 1, 0),
        partial(chart.action_pan, 1),
        partial(chart.action_move, 0, -1),
    )
    moves[number % len(moves)]()
    chart.call_after_refresh(drawn.set)
    await drawn.wait()


async def measure(folder: Path, steps: int) -> dict[str, float]:
    """Drive the application without a terminal and time it."""
    from ncclforensics.tui.app import TimelineApp
    from ncclforensics.tui.load import Request

    start = time.perf_counter()
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as scratch:
        app = TimelineApp(Request((str(folder),)), Path(scratch))
        async with app.run_test(size=(200, 50)) as pilot:
            found["window"] = time.perf_counter() - start
            while app.chart.view is None:
                await asyncio.sleep(0.01)
            await pilot.pause()
            found["answer"] = time.perf_counter() - start
            for mode in ("sequence", "time"):
                if mode == "time":
                    await pilot.press("t")
                await pilot.press("f")
                await pilot.pause()
                taken, worked = [], []
                for number in range(steps):
                    begin = time.perf_counter(), time.thread_time()
                    await step(app.chart, number)
                    taken.append(time.perf_counter() - begin[0])
                    worked.append(time.thread_time() - begin[1])
                found[f"{mode} median"] = median(taken) * 1000
                found[f"{mode} worst"] = max(taken) * 1000
                found[f"{mode} cpu"] = median(worked) * 1000
                found[f"{mode} cpu worst"] = max(worked) * 1000
                await pilot.press("f")
    found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def main() -> int:
    """Print a row per size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ranks", nargs="*", type=int, default=[1024, 16384])
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--in", dest="folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder is not None:
        found = asyncio.run(measure(options.folder, options.steps))
        print(" ".join(f"{value:9.2f}" for value in found.values()))
        return 0
    print(
        f"{'ranks':>6} {'window s':>9} {'answer s':>9}"
        f" {'seq ms':>9} {'worst':>9} {'CPU ms':>9} {'worst':>9}"
        f" {'time ms':>9} {'worst':>9} {'CPU ms':>9} {'worst':>9} {'peak MiB':>9}"
    )
    for ranks in options.ranks:
        with tempfile.TemporaryDirectory() as folder:
            write = (
                "import sys; sys.path.insert(0, sys.argv[1]); import simulate_timeline"
            )
            write += "; simulate_timeline.export(*sys.argv[2:])"
            simulator = str(Path(__file__).parent / "simulator")
            size = [folder, str(ranks), str(options.calls)]
            # processes of their own: the peak is that of the timeline alone
            subprocess.run([sys.executable, "-c", write, simulator, *size], check=True)
            again = [__file__, "--in", folder, "--steps", str(options.steps)]
            told = subprocess.run(
                [sys.executable, *again], check=True, capture_output=True, text=True
            )
            print(f"{ranks:6} {told.stdout.rstrip()}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
