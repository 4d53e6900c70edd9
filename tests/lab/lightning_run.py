"""Runs the Lightning lab: real Lightning under real torchrun, on CPU with Gloo.

It needs root, `unshare`, and a venv with torch and lightning in /opt/venv (or LAB_VENV,
whose path shows in tracebacks). Each case takes less than a minute.

    python tests/lab/lightning_run.py all | SLUG…
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

LAB = Path(__file__).parent
JOBS = LAB.parent / "fixtures" / "jobs"
VENV = os.environ.get("LAB_VENV", "/opt/venv")
SET_UP = """
mount --bind {hosts} /etc/hosts
ip link set lo up
hostname gpu0001
mount -t tmpfs tmpfs /job && cp {lab}/lightning_train.py /job/train.py && cd /job
exec "$@"
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A fault of `lightning_train.py`, and what is true of it."""

    slug: str
    fault: str
    title: str
    happened: str
    failure: str
    ranks: tuple[int, ...] = ()
    also: tuple[str, ...] = ()


CASES = (
    Case(
        "lightning-stuck-rank",
        "stuck",
        "rank 0 reads a shard for a minute under Lightning",
        "Rank 0 sleeps in read_shard at step 3; its peers time out after 8 s. torchrun "
        "then sends it SIGTERM, and Lightning's handler of that makes a broadcast.",
        "missing-rank",
        (0,),
        ("straggler",),
    ),
    Case(
        "lightning-raises",
        "raises",
        "rank 2 raises an exception of its own under Lightning",
        "Rank 2 raises ValueError in training_step; its peers lose their connections.",
        "crashed-rank",
        (2,),
    ),
    Case(
        "lightning-unused-parameters",
        "unused",
        "rank 2 leaves out a layer under Lightning",
        "From step 2 on rank 2 does not use the head, which Lightning says in its words.",
        "unused-parameters",
        (2,),
    ),
    Case(
        "lightning-unused-parameters-all",
        "unused-all",
        "every rank leaves out a layer under Lightning",
        "No rank uses the head: the model is wrong, and no rank is the culprit.",
        "unused-parameters",
    ),
    Case(
        "lightning-slow-loader",
        "slow-loader",
        "rank 2 loads its batches slowly under Lightning",
        "Rank 2 sleeps 5 ms for each of the 4 samples of a batch; the job ends well. "
        "Each rank writes the report of Lightning's SimpleProfiler.",
        "slow-rank",
        (2,),
    ),
)


def run(case: Case) -> None:
    """Run one case in namespaces of its own, and keep its logs."""
    Path("/job").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        logs = Path(name) / "kept"
        logs.mkdir()
        hosts = Path(name) / "hosts"
        hosts.write_text("127.0.0.1 localhost gpu0001\n")
        command = ["unshare", "--uts", "--net", "--mount", "--pid", "--fork"]
        command += ["--mount-proc", "--kill-child", "sh", "-ec"]
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "OMP_NUM_THREADS": "1"}
        if case.failure == "slow-rank":
            env["REPORTS"] = str(logs / "reports")
        command += [
            SET_UP.format(lab=LAB, hosts=hosts),
            "lab",
            f"{VENV}/bin/python",
            "-m",
        ]
        command += ["torch.distributed.run", "--standalone", "--nproc-per-node", "4"]
        command += ["--log-dir", str(logs / "logs"), "--redirects", "3", "train.py"]
        with (logs / "torchrun.log").open("wb") as out:
            subprocess.run(
                [*command, case.fault],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=env,
                timeout=150,
                check=False,
            )
        for file in logs.rglob("*.log"):
            text = file.read_text("utf-8").replace(str(logs), "/scratch")
            file.write_text(text.replace(VENV, "/opt/venv"), "utf-8")
        evidence = JOBS / case.slug / "evidence"
        shutil.rmtree(evidence, ignore_errors=True)
        shutil.copytree(logs, evidence)
    told = {
        "title": case.title,
        "what_happened": case.happened,
        "made_by": f"tests/lab/lightning_run.py {case.slug}",
        "how": "real",
        "with": "lightning 2.6.6, torch 2.13.0+cpu, Gloo, torchrun, 4 processes on 1 "
        "host",
        "outcome": "failure",
        "class": case.failure,
        "also_acceptable": case.also,
        "ranks": case.ranks,
        # torchrun --standalone calls its host so, where it tells of an error
        "hosts": ["localhost"] if case.ranks and "slow" not in case.fault else [],
    }
    truth = "".join(f"{key} = {json.dumps(value)}\n" for key, value in told.items())
    (JOBS / case.slug / "truth.toml").write_text(truth, "utf-8")


def main() -> None:
    """Run the cases that are named, or all."""
    for case in CASES:
        if {case.slug, "all"} & set(sys.argv[1:]):
            run(case)
            print(case.slug)


if __name__ == "__main__":
    main()
