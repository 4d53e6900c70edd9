"""Runs the Horovod lab: its real elastic driver, over workers that stand in for it.

The driver, the rendezvous and the shell that starts workers are those of the sources
of Horovod 0.28.1, unpacked in LAB_HOROVOD; no compiled part is needed. A worker
(`horovod_train.py`) trains nothing; it asks the rendezvous for its rank after a peer
is gone, as Horovod's own does. Both hosts are names of one namespace, so no ssh is.

    LAB_HOROVOD=horovod-0.28.1 python tests/lab/horovod_run.py all | SLUG…
"""

from __future__ import annotations

import logging
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
SOURCES = os.environ.get("LAB_HOROVOD", "horovod-0.28.1")
HOSTS = {"gpu0001": "10.0.0.1", "gpu0002": "10.0.0.2"}
SLOTS = 2
SET_UP = """
mount --bind {folder}/hosts /etc/hosts
ip link set lo up
ip link add eth0 type veth peer name uplink
ip addr add 10.0.0.1/24 dev eth0; ip addr add 10.0.0.2/24 dev eth0
ip link set eth0 up; ip link set uplink up
hostname gpu0001
mount -t tmpfs tmpfs /job && cp {folder}/train.py /job && cd /job
exec "$@"
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A job: who dies, at which step, and how long the driver waits for slots."""

    slug: str
    title: str
    happened: str
    fault: str
    timeout_s: int
    stop_after_s: int
    level: str = "WARNING"
    min_np: int = 4
    truth: str = (
        'outcome = "failure"\nclass = "elastic-below-min"\nalso_acceptable = []'
    )
    hosts: str = '["gpu0002"]'
    ranks: str = "[]"


CASES = (
    Case(
        "horovod-below-min",
        "elastic Horovod gives up, as a lost host leaves fewer slots than it needs",
        "Both workers on gpu0002 were killed at step 4; no other host came within 20 s.",
        fault="lost:gpu0002",
        timeout_s=20,
        stop_after_s=60,
    ),
    Case(
        "horovod-below-min-waiting",
        "elastic Horovod waits for slots; the log was copied meanwhile",
        "Both workers on gpu0002 were killed at step 4; the driver still waits.",
        fault="lost:gpu0002",
        timeout_s=600,
        stop_after_s=15,
        level="INFO",
    ),
    Case(
        "horovod-goes-on-smaller",
        "elastic Horovod goes on with the host that is left",
        "Both workers on gpu0002 were killed at step 4; two are enough, and they end.",
        fault="lost:gpu0002",
        timeout_s=60,
        stop_after_s=60,
        level="INFO",
        min_np=2,
        truth='outcome = "inconclusive"\nalso_acceptable = []',
        hosts="[]",
    ),
)


def drive(case: Case) -> None:
    """Start the job as `horovod.run` does; inside the namespace."""
    sys.path.insert(0, SOURCES)
    from horovod.runner.elastic.discovery import FixedHosts
    from horovod.runner.elastic.settings import ElasticSettings
    from horovod.runner.gloo_run import (
        RendezvousServer,
        _exec_command_fn,
        launch_gloo_elastic,
    )

    logging.basicConfig(level=case.level)
    settings = ElasticSettings(
        discovery=FixedHosts(dict.fromkeys(HOSTS, SLOTS)),
        min_num_proc=case.min_np,
        max_num_proc=4,
        elastic_timeout=case.timeout_s,
        reset_limit=None,
        num_proc=4,
        verbose=0,
        nics={"eth0"},
    )
    launch_gloo_elastic(
        [sys.executable, "train.py", case.fault],
        _exec_command_fn(settings),
        settings,
        {"PATH": "/usr/bin:/bin"},
        lambda _driver: {"eth0"},
        RendezvousServer(0),
        sys.executable,
    )


def run(case: Case) -> None:
    """Run one case in namespaces of its own and keep what it printed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        told = "".join(f"{address} {host}\n" for host, address in HOSTS.items())
        (folder / "hosts").write_text("127.0.0.1 localhost\n" + told)
        shutil.copy(LAB / "horovod_train.py", folder / "train.py")
        Path("/job").mkdir(exist_ok=True)
        script = SET_UP.format(folder=folder)
        command = ["unshare", "--uts", "--net", "--mount", "--pid", "--fork"]
        command += ["--mount-proc", "--kill-child", "sh", "-ec", script, "lab"]
        command += [sys.executable, str(Path(__file__).resolve()), "drive", case.slug]
        log = folder / "job.log"
        with log.open("wb") as out:
            job = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
            end = time.monotonic() + case.stop_after_s
            while job.poll() is None and time.monotonic() < end:
                time.sleep(0.2)
            kept = log.read_bytes()
            job.kill()
            job.wait()
        target = JOBS / case.slug
        shutil.rmtree(target / "evidence", ignore_errors=True)
        (target / "evidence").mkdir(parents=True)
        text = kept.decode().replace(SOURCES, "/opt/horovod")
        for path in (sys.prefix, sys.base_prefix):
            text = text.replace(path, "/opt/venv")
        text = text.replace(str(LAB), "/job")
        (target / "evidence" / "horovodrun.log").write_text(text)
        (target / "truth.toml").write_text(
            f'title = "{case.title}"\nwhat_happened = "{case.happened}"\n'
            f'made_by = "tests/lab/horovod_run.py {case.slug}"\nhow = "real"\n'
            'with = "the elastic driver of Horovod 0.28.1, whose workers are a stand-in '
            'that asks its rendezvous for a rank; 2 names of 1 host"\n'
            f"{case.truth}\nranks = {case.ranks}\nhosts = {case.hosts}\n"
        )


def main() -> None:
    """Run the cases that are named, or all."""
    if sys.argv[1:2] == ["drive"]:
        drive(next(case for case in CASES if case.slug == sys.argv[2]))
        return
    for case in CASES:
        if {case.slug, "all"} & set(sys.argv[1:]):
            run(case)
            print(case.slug)


if __name__ == "__main__":
    main()
