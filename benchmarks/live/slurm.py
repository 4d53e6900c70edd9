"""A real Slurm on the nodes: slurmctld on the first, slurmd on each, one munged."""

from __future__ import annotations

import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from live.nodes import Node

CONFIG = """ClusterName=live
SlurmctldHost={first}({address})
SlurmUser=root
StateSaveLocation={state}/ctld
SlurmdSpoolDir={state}/%n
SlurmctldPidFile={state}/ctld.pid
SlurmdPidFile={state}/%n.pid
SlurmctldLogFile={state}/ctld.log
SlurmdLogFile={state}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
{nodes}
PartitionName=main Nodes=ALL Default=YES
"""
SOCKET = Path("/run/munge/munge.socket.2")
STARTS_S = 30


@contextmanager
def cluster(nodes: Sequence[Node], folder: Path) -> Iterator[None]:
    """Run Slurm's daemons on the nodes, until all nodes end."""
    state = folder / "slurm"
    for name in ("ctld", *(node.name for node in nodes)):
        (state / name).mkdir(parents=True)
    lines = [f"NodeName={n.name} NodeAddr={n.address} CPUs=4" for n in nodes]
    text = CONFIG.format(
        first=nodes[0].name,
        address=nodes[0].address,
        state=state,
        nodes="\n".join(lines),
    )
    (state / "slurm.conf").write_text(text)
    munged = None
    answers = subprocess.run(["munge", "-n"], capture_output=True, check=False)
    if answers.returncode:
        SOCKET.parent.mkdir(exist_ok=True)
        shutil.chown(SOCKET.parent, "munge", "munge")
        SOCKET.unlink(missing_ok=True)
        munged = subprocess.Popen(
            ["munged", "-F"], user="munge", group="munge", stderr=subprocess.DEVNULL
        )
        time.sleep(1)
    for node in nodes:
        node.run(f"mount --bind {state} /etc/slurm")
    quiet = {"stderr": subprocess.DEVNULL}  # they log to files
    started = [nodes[0].start("slurmctld", "-D", **quiet)]
    started += [node.start("slurmd", "-D", "-N", node.name, **quiet) for node in nodes]
    try:
        until = time.monotonic() + STARTS_S
        while time.monotonic() < until:
            asked = nodes[0].command("sinfo", "-h", "-o", "%t %D")
            told = subprocess.run(asked, capture_output=True, text=True, check=False)
            if told.stdout.strip() == f"idle {len(nodes)}":
                break
            time.sleep(0.5)
        yield
    finally:
        for process in [*started, *([munged] if munged else [])]:
            process.kill()
            process.wait()
