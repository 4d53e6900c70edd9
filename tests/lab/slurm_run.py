"""Runs jobs under a real Slurm on this machine and keeps what it left.

A cluster of two nodes is one slurmctld and two slurmd in UTS, pid and mount namespaces
named login01, gpu0001 and gpu0002; all share the network. A job is torch_train.py with
four ranks under `srun -l`, submitted by a user `alice`. Needs root, Debian's slurm-wlm,
slurmdbd, munge and mariadb-server (munged and mariadbd running, a database
`slurm_acct_db` that user `slurm`, password `slurm`, may fill), and torch for
/usr/bin/python3 in LAB_VENV, whose path shows in tracebacks.

    python tests/lab/slurm_run.py all | SLUG…      # five minutes
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_cases import CASES
from torch_run import JOBS, PROGRAM, VENV, toml

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_cases import Case

LAB = Path(__file__).parent
ETC, JOB, STATE = Path("/etc/slurm"), Path("/job"), Path("/var/lib/slurm-lab")
NODES = ("gpu0001", "gpu0002")
USER = "alice"
RANKS, LONGEST_START_S = 4, 90
CLUSTER = f"""ClusterName=lab
SlurmctldHost=login01(127.0.0.1)
SlurmUser=root
StateSaveLocation={STATE}/ctld
SlurmdSpoolDir={STATE}/%n
SlurmctldPidFile={STATE}/ctld.pid
SlurmdPidFile={STATE}/%n.pid
SlurmctldLogFile={STATE}/slurmctld.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SlurmdTimeout=10
KillWait=5
ReturnToService=2
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
JobAcctGatherType=jobacct_gather/linux
NodeName=gpu0001 NodeAddr=127.0.0.1 Port=17001 CPUs=2
NodeName=gpu0002 NodeAddr=127.0.0.1 Port=17002 CPUs=2
PartitionName=main Nodes=gpu[0001-0002] Default=YES PriorityTier=1
PartitionName=urgent Nodes=gpu[0001-0002] PriorityTier=9
"""
ACCOUNTS = f"""DbdHost=localhost
SlurmUser=root
LogFile={STATE}/dbd.log
PidFile={STATE}/dbd.pid
StorageType=accounting_storage/mysql
StorageUser=slurm
StoragePass=slurm
"""
SCRIPT = """#!/bin/bash
#SBATCH --job-name=pretrain
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --output=%x-%j.out
export MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 GLOO_SOCKET_IFNAME=lo
export TORCH_FR_BUFFER_SIZE=2000 PYTHONPATH={venv}/lib/python3.11/site-packages
srun -l bash -c 'RANK=$SLURM_PROCID WORLD_SIZE=4 exec /usr/bin/python3 train.py {train}'
"""
HOST = "hostname {name}; exec {command}"


@contextmanager
def host(name: str, command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a daemon on a pretended host, which dies with all processes on it."""
    kinds = ["--uts", "--pid", "--fork", "--mount-proc", "--kill-child"]
    script = HOST.format(name=name, command=command)
    with (STATE / f"{name}.out").open("wb") as output:
        daemon = subprocess.Popen(
            ["unshare", *kinds, "sh", "-c", script], stdout=output, stderr=output
        )
    try:
        yield daemon
    finally:
        daemon.kill()
        daemon.wait()


def said(command: str) -> str:
    return subprocess.run(
        command.split(), capture_output=True, text=True, check=True
    ).stdout.strip()


def until_all_joined() -> None:
    """Wait until every rank has written that it is ready."""
    for _ in range(LONGEST_START_S):
        written = (log.read_text() for log in JOB.glob("*.out"))
        if "".join(written).count(" is ready") == RANKS:
            return
        time.sleep(1)
    raise RuntimeError("the ranks did not meet")


def run(case: Case) -> None:
    """Run one job on a fresh cluster; its evidence lies in /job afterwards."""
    shutil.rmtree(STATE, ignore_errors=True)
    for folder in ("ctld", *NODES):
        (STATE / folder).mkdir(parents=True)
    with ExitStack() as stack:
        daemons = {"login01": "slurmctld -D"} | {n: f"slurmd -D -N {n}" for n in NODES}
        stack.enter_context(host("dbd", "slurmdbd -D"))
        time.sleep(5)
        running = {n: stack.enter_context(host(n, c)) for n, c in daemons.items()}
        time.sleep(8)
        as_user = f"runuser -u {USER} -- "
        job = said(
            f"{as_user}sbatch --parsable --chdir=/job {case.sbatch} train.sbatch"
        )
        until_all_joined()
        time.sleep(case.runs_s)
        if case.then == "scancel":
            said(f"{as_user}scancel {job}")
        elif case.then == "preempt":
            said(f"{as_user}sbatch --exclusive -p urgent -o /dev/null --wrap=true")
        elif case.then == "lose-node":
            running[NODES[1]].send_signal(signal.SIGKILL)
        time.sleep(case.ends_s)
        for name, command in case.tables.items():
            (JOB / name).write_text(said(command.format(job=job)) + "\n")


def make(case: Case) -> None:
    """Run one case and write its fixture."""
    fixture = JOBS / f"slurm-{case.slug}"
    shutil.rmtree(JOB, ignore_errors=True)
    JOB.mkdir()
    for source, name in PROGRAM.items():
        shutil.copy(LAB / source, JOB / name)
    script = SCRIPT.format(venv=VENV, train=" ".join(case.train))
    (JOB / "train.sbatch").write_text(script)
    shutil.chown(JOB, USER)
    run(case)
    for name in (*PROGRAM.values(), "train.sbatch"):
        (JOB / name).unlink()
    shutil.rmtree(JOB / "__pycache__", ignore_errors=True)
    shutil.rmtree(fixture / "evidence", ignore_errors=True)
    shutil.copytree(JOB, fixture / "evidence")
    fields = {
        "title": case.title,
        "what_happened": case.happened,
        "made_by": f"tests/lab/slurm_run.py {case.slug}",
        "how": "real",
        "with": f"{said('slurmctld -V')}, torch under srun, Gloo, 4 ranks on 2 hosts",
        "outcome": "failure",
        "class": case.failure,
        "also_acceptable": list(case.also),
        "ranks": list(case.ranks),
        "hosts": list(case.hosts),
    }
    text = "".join(f"{key} = {toml(value)}\n" for key, value in fields.items())
    (fixture / "truth.toml").write_text(text)


def main() -> None:
    """Make the fixtures that are asked for."""
    parser = argparse.ArgumentParser(description="Make fixtures under a real Slurm.")
    parser.add_argument("slug", nargs="+", help="'all', or slugs")
    asked = set(parser.parse_args().slug)
    os.umask(0o022)
    ETC.mkdir(exist_ok=True)
    (ETC / "slurm.conf").write_text(CLUSTER)
    (ETC / "slurmdbd.conf").write_text(ACCOUNTS)
    (ETC / "slurmdbd.conf").chmod(0o600)
    for case in CASES:
        if {"all", case.slug} & asked:
            print(case.slug, flush=True)
            make(case)


if __name__ == "__main__":
    main()
