"""Runs jobs that hang, collects them while they do, and analyzes what was collected.

    python tests/lab/collect_run.py FOLDER all | FAULT…       # about half a minute each

Real torch on CPU with Gloo, four ranks on this machine. Needs py-spy on the PATH;
`storage` needs fusepy, libfuse 2 and root, else a FIFO stands for the mount. Prints for
each fault what should be named, what is, and how long `collect` took. `--pipe` lets the
job answer the recorder's pipe, `--again S` is handed on.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

LAB = Path(__file__).parent
RANKS = 4
START_S = 240
# what should be named, where several are right; None: nobody
TRUTH: dict[str, tuple[tuple[str, ...], list[int]]] = {
    "stopped": (("missing-rank",), [2]),
    "lock": (("missing-rank",), [1]),
    "storage": (("storage-stall", "missing-rank"), [3]),
    "collective": (("collective-mismatch", "rank-conditional-collective"), [0]),
    "gil": (("gil-deadlock", "missing-rank"), [2]),
    "loader": (("missing-rank", "storage-stall"), [1]),
    # it works: named as a possibility at most
    "slow": (("missing-rank", "straggler"), [1]),
    "healthy": ((), []),
}


def start(fault: str, job: Path, *, pipe: bool) -> list[subprocess.Popen[bytes]]:
    """Start the ranks, each with a log of its own."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29561"}
    env |= {"WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS)}
    env |= {"TORCH_FR_BUFFER_SIZE": "200", "STORAGE": str(job / "storage")}
    env |= {"WANDB_API_KEY": "0123456789abcdef0123456789abcdef01234567"}
    if pipe:
        env |= {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE": f"{job}/pipe_"}
        env |= {"TORCH_FR_DUMP_TEMP_FILE": f"{job}/comm_lib_trace_rank_"}
    return [
        subprocess.Popen(
            [sys.executable, LAB / "collect_train.py", fault],
            env=env | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=(job / f"out_{rank}.log").open("wb"),
            stderr=subprocess.STDOUT,
            start_new_session=True,  # to end its workers with it
        )
        for rank in range(RANKS)
    ]


def storage(job: Path) -> subprocess.Popen[bytes] | None:
    """Mount a file system that answers no read, or make a FIFO in its place."""
    folder = job / "storage"
    folder.mkdir()
    try:
        import fuse  # noqa: F401
    except ImportError:
        os.mkfifo(folder / "shard-000.bin")
        return None
    server = subprocess.Popen([sys.executable, LAB / "stalled_mount.py", folder])
    time.sleep(1)
    return server


def hang(job: Path, fault: str) -> None:
    """Wait until all ranks have logged the step after which it goes wrong."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        logs = [(job / f"out_{rank}.log").read_text() for rank in range(RANKS)]
        if all("step 20 " in log for log in logs):
            time.sleep(2)
            return
        time.sleep(0.2)
    raise RuntimeError(f"{fault}: the job did not come so far")


def run(fault: str, folder: Path, again: str, *, pipe: bool) -> str:
    """Run one job, collect and analyze it; return one line."""
    job, kept = folder / f"{fault}.job", folder / fault
    for old in (job, kept):
        shutil.rmtree(old, ignore_errors=True)
    job.mkdir(parents=True)
    server = storage(job)
    ranks = start(fault, job, pipe=pipe)
    try:
        hang(job, fault)
        begun = time.monotonic()
        pids = [part for p in ranks for part in ("--pid", str(p.pid))]
        command = [sys.executable, "-m", "ncclforensics.collect", "-o", kept]
        two = ["--again", again] if again else []
        # by pid, as other jobs may run on this machine
        subprocess.run([*command, *two, *pids], check=True)
        took = time.monotonic() - begun
    finally:
        if server is not None:
            server.send_signal(signal.SIGKILL)
            subprocess.run(["umount", "-l", job / "storage"], check=False)
        for process in ranks:
            os.killpg(process.pid, signal.SIGKILL)
        for process in ranks:
            process.wait()
    return f"{judged(fault, kept)}  {took:.1f} s"


def judged(fault: str, kept: Path) -> str:
    """Return what should be named and what is."""
    command = [sys.executable, "-m", "ncclforensics", "analyze", kept, "-f", "json"]
    done = subprocess.run([*command, "--no-cache"], capture_output=True, check=False)
    told = json.loads(done.stdout)
    verdict = told["verdict"] or {"class": None, "culprits": {"ranks": []}}
    classes, ranks = TRUTH[fault]
    named = verdict["culprits"]["ranks"]
    # without a class to name, none may be named
    right = (verdict["class"] in (classes or (None,)), named == ranks)
    confidence = verdict.get("confidence", "")
    if fault == "slow":
        right = (confidence in ("", "possible"), named in ([], ranks))
    words = ["class right" if right[0] else "CLASS WRONG"]
    words += ["rank right" if right[1] else "RANK WRONG"]
    suspects = [s["rank"] for s in told["suspects"]]
    return (
        f"{fault:11} {', '.join(words)}: {told['outcome']} {verdict['class']} {named} "
        f"{confidence}, suspects {suspects}"
    )


def main() -> None:
    """Run the faults that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("faults", nargs="+", choices=[*TRUTH, "all"])
    parser.add_argument("--again", default="5")
    parser.add_argument("--pipe", action="store_true")
    parser.add_argument("--judge", action="store_true", help="analyze what is there")
    asked = parser.parse_args()
    for fault in TRUTH if "all" in asked.faults else asked.faults:
        if asked.judge:
            line = judged(fault, asked.folder / fault)
        else:
            line = run(fault, asked.folder, asked.again, pipe=asked.pipe)
        print(line, flush=True)


if __name__ == "__main__":
    main()
