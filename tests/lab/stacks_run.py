"""Runs the stacks lab: jobs that hang or work, of which only stack dumps are kept.

Real torch on CPU with Gloo. It needs root, `unshare`, py-spy (LAB_SPY) and a venv with
torch, aiohttp, jinja2 and tabulate in /opt/venv (or LAB_VENV, whose path shows in the
stacks; PYTHONPATH is passed on). The path of Python itself is replaced.

    python tests/lab/stacks_run.py all | SLUG…      # about a minute each
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

LAB = Path(__file__).parent
JOBS = LAB.parent / "fixtures" / "jobs"
VENV = os.environ.get("LAB_VENV", "/opt/venv")
SPY = os.environ.get("LAB_SPY", "py-spy")
RANKS = 4
LONGEST_START_S = 90
SET_UP = """
hostname gpu0001
ip link set lo up
mount --bind {job} /job
echo 127.0.0.1 localhost gpu0001 > /job/hosts
mount --bind /job/hosts /etc/hosts
exec sleep infinity
"""


@dataclass(frozen=True, slots=True)
class Case:
    """How a job trains, who dumps its stacks, and what is true of it."""

    slug: str
    fault: str
    by: str  # "faulthandler", "torch" or "py-spy"
    title: str
    happened: str


HUNG = "Rank 2 sleeps in save_checkpoint after step 4; its peers wait in step 5."
CASES = (
    Case(
        "stacks-faulthandler",
        "hang",
        "faulthandler",
        "faulthandler prints where each rank stands, again and again",
        f"{HUNG} dump_traceback_later prints the stacks to each rank's log.",
    ),
    Case(
        "stacks-torch-debug",
        "hang",
        "torch",
        "torch.distributed.debug wrote the stacks of all ranks into one file",
        f"{HUNG} The debug server of rank 0 asks all ranks for their stacks, once.",
    ),
    Case(
        "stacks-py-spy-thread",
        "thread",
        "py-spy",
        "py-spy dump --json of ranks that train in a thread",
        f"{HUNG} They train in a thread, while the main thread joins it.",
    ),
    Case(
        "stacks-at-work",
        "work",
        "py-spy",
        "py-spy dump --json of a job that runs",
        "Nothing is wrong. Rank 1 has the most to do, and the others wait for it.",
    ),
)


def start(case: Case, host: int, job: Path) -> list[subprocess.Popen[bytes]]:
    """Start the ranks on the pretended host, each with a log of its own."""
    env = {"PATH": f"{VENV}/bin:/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    env |= {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), "HOME": "/job"}
    env |= {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    env |= {"WORLD_SIZE": str(RANKS)}
    env |= {"LATER": "6"} if case.by == "faulthandler" else {}
    env |= {"DUMPS": "/job/dumps"} if case.by == "torch" else {}
    enter = ["nsenter", "--target", str(host), "--uts", "--net", "--mount"]
    return [
        subprocess.Popen(
            [*enter, "--wdns=/job", "python3", "train.py", case.fault],
            env=env | {"RANK": str(rank)},
            stdout=(job / f"rank_{rank}.log").open("wb"),
            stderr=subprocess.STDOUT,
        )
        for rank in range(RANKS)
    ]


def look(case: Case, ranks: list[subprocess.Popen[bytes]], job: Path) -> list[Path]:
    """Wait until the stacks are there, or take them; return their files."""
    if case.by == "py-spy":
        time.sleep(LONGEST_START_S / 3)
        for rank, process in enumerate(ranks):
            dump = [SPY, "dump", "--json", "--pid", str(process.pid)]
            shown = subprocess.run(dump, capture_output=True, check=True)
            (job / f"rank_{rank}.json").write_bytes(shown.stdout)
        return sorted(job.glob("rank_*.json"))
    until = time.monotonic() + LONGEST_START_S
    while time.monotonic() < until:
        time.sleep(1)
        logs = sorted(job.glob("rank_*.log"))
        dumps = sorted(job.glob("dumps/stacks_*.txt"))[1:2]
        if dumps and dumps[0].stat().st_size:
            return dumps
        said = [log.read_text().count("Timeout (") for log in logs]
        if case.by == "faulthandler" and min(said) >= 3:
            return logs
    raise RuntimeError("nobody dumped a stack")


def make(case: Case) -> None:
    """Run one case and write its fixture."""
    fixture = JOBS / case.slug
    shutil.rmtree(fixture / "evidence", ignore_errors=True)
    (fixture / "evidence").mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        job = Path(scratch)
        shutil.copy(LAB / "stacks_train.py", job / "train.py")
        kinds = ["--uts", "--net", "--mount", "--kill-child"]
        host = subprocess.Popen(
            ["unshare", *kinds, "sh", "-ec", SET_UP.format(job=job)]
        )
        time.sleep(1)
        ranks = start(case, host.pid, job)
        try:
            for file in look(case, ranks, job):
                text = file.read_text().replace(sys.base_prefix, "/opt/python3.11")
                (fixture / "evidence" / file.name).write_text(text)
        finally:
            for process in (*ranks, host):
                process.kill()
                process.wait()
    (fixture / "truth.toml").write_text(truth(case))


def truth(case: Case) -> str:
    """The truth as TOML."""
    hangs = case.fault != "work"
    fields: dict[str, str | list[str] | list[int]] = {
        "title": case.title,
        "what_happened": case.happened,
        "made_by": f"tests/lab/stacks_run.py {case.slug}",
        "how": "real",
        "with": f"torch 2.13.0+cpu, Gloo, {RANKS} processes on 1 host; {case.by}",
        "outcome": "failure" if hangs else "inconclusive",
    }
    fields["also_acceptable"] = ["straggler"] if hangs else []
    if hangs:
        fields["class"] = "missing-rank"
        hosts = ["gpu0001"] if case.by == "torch" else []
        fields |= {"ranks": [2], "hosts": hosts, "op": "all_reduce"}
    lines = (f"{key} = {json.dumps(value)}\n" for key, value in fields.items())
    return "".join(lines)


if __name__ == "__main__":
    Path("/job").mkdir(exist_ok=True)
    asked = set(sys.argv[1:])
    for one in CASES:
        if {"all", one.slug} & asked:
            make(one)
