"""One small log for each NCCL version, as that version prints it.

Rank 0 of two on two hosts: bootstrap, network, connections, two collectives, a
broadcast with a root that does not exist (a WARN with its blank line before), end.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import nccl_wheels
from nccl_job import Job, Rank, Truth, eth0, run

# Without topology, tuning, proxies and allocations, which are long. A name that a
# version does not know it ignores.
SUBSYSTEMS = "INIT,BOOTSTRAP,ENV,NET,COLL,P2P,SHM,RAS,CALL,DESTROY"
STEPS = "init all-reduce=2 stay=1"


def sample_job(version: str) -> Job:
    """Two ranks that show most of what that version prints."""
    return Job(
        slug=f"sample-{version}",
        title="",
        what_happened="",
        version=version,
        hosts=eth0("gpu0001", "gpu0002"),
        ranks=(
            Rank("gpu0001", 0, f"{STEPS} bad-root"),
            Rank("gpu0002", 1, f"{STEPS} stay=1 destroy"),
        ),
        truth=Truth("failure"),
        environment={
            "NCCL_DEBUG": "TRACE",
            "NCCL_DEBUG_SUBSYS": SUBSYSTEMS,
            "NCCL_SOCKET_IFNAME": "eth0",
        },
        log="{rank}",
        seconds=20,
    )


def make_samples(directory: Path) -> None:
    """Write nccl-<version>.log for every version of the lab."""
    for version in nccl_wheels.VERSIONS:
        with TemporaryDirectory(dir=nccl_wheels.LAB) as evidence:
            run(sample_job(version), Path(evidence))
            lines = (Path(evidence) / "0").read_bytes()
        (directory / f"nccl-{version}.log").write_bytes(lines)
        print(f"nccl-{version}.log", len(lines))
