"""Makes the NCCL fixtures and samples by running the real library.

    python tests/lab/nccl_run.py all            every job, then every sample
    python tests/lab/nccl_run.py nccl-docker0   one job
    python tests/lab/nccl_run.py samples        tests/fixtures/samples/nccl-*.log

Needs root (namespaces), gcc, iproute2, and PyPI for the wheels; no GPU. With a stub
CUDA driver NCCL goes as far as "Init COMPLETE" and counts collectives; kernels do
nothing, so what only a GPU could say (a hang in a kernel, NVLink, IB) is not here.
"""

import argparse
import json
import re
import socket
from pathlib import Path

import nccl_wheels
from nccl_cases_calls import CALL_JOBS
from nccl_cases_cuda import CUDA_JOBS
from nccl_cases_network import NETWORK_JOBS
from nccl_job import Job, run
from nccl_samples import make_samples

FIXTURES = Path(__file__).parents[1] / "fixtures"
JOBS = {job.slug: job for job in (*NETWORK_JOBS, *CUDA_JOBS, *CALL_JOBS)}
THIS_HOST = re.escape(socket.gethostname())
NEVER_IN_EVIDENCE = re.compile(rf"/work|/root|/tmp/|\b{THIS_HOST}\b")


def made_with(job: Job) -> str:
    """How the evidence came about, in one line."""
    told = f"NCCL {' and '.join(job.versions())} loaded with ctypes, no GPU; "
    if any(rank.driver for rank in job.ranks):
        told += "CUDA answered by tests/lab/nccl_stub_cuda.c; "
    count = len(job.hosts)
    return told + f"{count} host namespace{'s' if count > 1 else ''}"


def truth_toml(job: Job) -> str:
    """The text of truth.toml."""
    truth = job.truth
    told: dict[str, object] = {
        "title": job.title,
        "what_happened": job.what_happened,
        "made_by": f"tests/lab/nccl_run.py {job.slug}",
        "how": "real",
        "with": made_with(job),
        "outcome": truth.outcome,
    }
    if truth.failure:
        told["class"] = truth.failure
    told["also_acceptable"] = truth.also_acceptable
    told["ranks"] = truth.ranks
    told["hosts"] = truth.hosts
    # What JSON writes of strings and lists is TOML as well.
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in told.items())


def refuse_traces_of_this_machine(directory: Path) -> None:
    """No path or host name of the machine that made it may stand in a fixture."""
    for file in directory.rglob("*.*"):
        for line in file.read_text(errors="replace").splitlines():
            if NEVER_IN_EVIDENCE.search(line):
                raise SystemExit(f"{file}: {line}")


def main() -> None:
    """Make what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="+", choices=["all", "samples", *JOBS])
    asked = parser.parse_args().what
    nccl_wheels.stub()
    for job in JOBS.values():
        if job.slug in asked or "all" in asked:
            directory = FIXTURES / "jobs" / job.slug
            run(job, directory / "evidence")
            (directory / "truth.toml").write_text(truth_toml(job))
            refuse_traces_of_this_machine(directory)
            print(job.slug)
    if "samples" in asked or "all" in asked:
        make_samples(FIXTURES / "samples")


if __name__ == "__main__":
    main()
