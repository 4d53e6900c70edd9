"""What do many dumps cost? Ours beside a bare pickle.load and torchfrtrace.

    python benchmarks/flight_recorder.py [--ranks N…] [--entries N] [--skip torch]

Writes dumps of a job with tensor-parallel groups of 8 and the default group, in which
one rank misses the last call, and reads the same files with each program in a process
of its own. A row has seconds, entries per second and the highest memory of the process
and its children together (the sum of each one's own peak, so it is an upper bound).
"""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

START_NS = 1_767_323_045_000_000_000
TENSOR_PARALLEL = 8
TORCH = "/usr/lib/python3/dist-packages/torch/distributed"

LOAD = """
import pickle, sys
from pathlib import Path
n = 0
for file in sorted(Path(sys.argv[1]).iterdir()):
    n += len(pickle.loads(file.read_bytes())["entries"])
"""
OURS = """
import os, sys
from ncclforensics.cli import main
sys.argv[1:] = ["analyze", "--no-progress", "-f", "json", sys.argv[1]]
main()
"""


def stack(op: str, site: str, line: int) -> list[dict[str, object]]:
    """Return the frames of a call, innermost first."""
    return [
        {"name": op, "filename": f"{TORCH}/distributed_c10d.py", "line": 2810},
        {"name": "wrapper", "filename": f"{TORCH}/c10d_logger.py", "line": 83},
        {"name": site, "filename": "/job/layers.py", "line": line},
        *(
            {"name": f"call_{depth}", "filename": "/job/model.py", "line": 100 + depth}
            for depth in range(8)
        ),
        {"name": "train", "filename": "/job/train.py", "line": 60},
        {"name": "<module>", "filename": "/job/train.py", "line": 99},
    ]


def dump(rank: int, ranks: int, entries: int, absent: int) -> bytes:
    """Return the dump of one rank: 9 calls in its group, then one of all ranks."""
    first = rank // TENSOR_PARALLEL * TENSOR_PARALLEL
    own = (str(1 + rank // TENSOR_PARALLEL), "TENSOR_MODEL_PARALLEL_GROUP")
    groups = [
        ("0", "default_pg", list(range(ranks))),
        (*own, list(range(first, min(first + TENSOR_PARALLEL, ranks)))),
    ]
    stacks = [stack("all_gather_into_tensor", "forward", 40 + i) for i in range(9)]
    stacks.append(stack("all_reduce", "loss", 70))
    made = []
    counts = [0, 0]
    for record in range(entries - (rank == absent)):
        kind = record % 10
        group = 0 if kind == 9 else 1
        counts[group] += 1
        over = record < entries - 1
        created = START_NS + record * 1_000_000 + rank
        made.append(
            {
                "record_id": record,
                "pg_id": group,
                "process_group": groups[group][:2],
                "collective_seq_id": counts[group],
                "p2p_seq_id": 0,
                "op_id": counts[group],
                "profiling_name": "nccl:all_reduce"
                if group == 0
                else "nccl:_all_gather_base",
                "time_created_ns": created,
                "input_sizes": [[1] if group == 0 else [4096, 5120]],
                "input_dtypes": ["Float" if group == 0 else "BFloat16"],
                "output_sizes": [[1] if group == 0 else [32768, 5120]],
                "output_dtypes": ["Float" if group == 0 else "BFloat16"],
                "state": "completed" if over else "scheduled",
                "time_discovered_started_ns": None,
                "time_discovered_completed_ns": created + 500_000 if over else None,
                "retired": over,
                "timeout_ms": 600_000,
                "is_p2p": False,
                "frames": stacks[kind],
                "thread_id": "23456244340032",
                "thread_name": "python3",
            }
        )
    status = {
        str(group): {
            "last_enqueued_collective": counts[group],
            "last_started_collective": -1,
            "last_completed_collective": counts[group]
            - (group == (entries % 10 != 0) and rank != absent),
        }
        for group in (0, 1)
    }
    told = {
        "version": "2.10",
        "comm_lib_version": "2.27.3",
        "pg_config": {
            name: {"name": name, "desc": desc, "ranks": str(members)}
            for name, desc, members in groups
        },
        "pg_status": status,
        "entries": made,
    }
    return pickle.dumps(told, protocol=2)


def measured(command: list[str]) -> tuple[float, float, int]:
    """Run a program; return seconds, GiB of memory at the worst, and its status."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    peaks: dict[int, int] = {}
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            for pid in [process.pid, *children(process.pid)]:
                peaks[pid] = max(peaks.get(pid, 0), resident(pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    status = process.wait()
    seconds = time.perf_counter() - started
    over.set()
    watcher.join()
    return seconds, sum(peaks.values()) / 2**30, status


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
    """Return the highest resident memory of a process in bytes."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def main() -> int:
    """Print a row per program and number of ranks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", nargs="*", type=int, default=[256, 1024])
    parser.add_argument("--entries", type=int, default=2000)
    parser.add_argument("--skip", nargs="*", default=[], choices=["torch", "load"])
    options = parser.parse_args()
    torchfrtrace = Path(sys.executable).with_name("torchfrtrace")
    print(f"{os.cpu_count()} cores, {options.entries} entries a rank")
    print(
        f"{'program':14} {'ranks':>5} {'s':>8} {'entries/s':>11} {'GiB':>6} {'exit':>4}"
    )
    for ranks in options.ranks:
        with tempfile.TemporaryDirectory() as folder:
            for rank in range(ranks):
                file = Path(folder) / f"nccl_trace_rank_{rank}"
                file.write_bytes(dump(rank, ranks, options.entries, ranks // 2 + 1))
            programs = {
                "ncclforensics": [sys.executable, "-c", OURS, folder],
                "pickle.load": [sys.executable, "-c", LOAD, folder],
                "torchfrtrace": [str(torchfrtrace), folder, "-p", "nccl_trace_rank_"],
            }
            if "load" in options.skip:
                del programs["pickle.load"]
            if "torch" in options.skip or not torchfrtrace.exists():
                del programs["torchfrtrace"]
            for name, command in programs.items():
                seconds, memory, status = measured(command)
                rate = ranks * options.entries / seconds
                print(
                    f"{name:14} {ranks:5} {seconds:8.2f} {rate:11,.0f} {memory:6.2f}"
                    f" {status:6}",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
