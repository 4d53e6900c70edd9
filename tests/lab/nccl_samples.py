"""Small logs: one for each NCCL version, and what the bootstrap root complains of.

``nccl-<version>.log``: rank 0 of two on two hosts: bootstrap, network, connections, an
all-reduce, a broadcast with a root that does not exist (a WARN with its blank line).
``nccl-root-<version>.log``: what rank 0 says of a rank number given twice, of ranks
that disagree on their number, and of a stranger that sends garbage.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import nccl_wheels
from nccl_job import Job, Rank, Truth, eth0, run

# A process that knows none of the names given does not even print its WARN lines, so
# COLL, which all versions know, stands beside BOOTSTRAP.
ROOT_SUBSYSTEMS = "BOOTSTRAP,COLL"
# Without topology, tuning, proxies and allocations, which are long. A name that a
# version does not know it ignores.
SUBSYSTEMS = "INIT,BOOTSTRAP,ENV,NET,COLL,P2P,SHM,RAS,CALL,DESTROY"
STEPS = "init all-reduce=1 stay=1"
ROOT_VERSIONS = ("2.18.3", "2.22.3", "2.24.3", "2.27.5", "2.30.7")


def first_rank_says(version: str, subsystems: str, ranks: tuple[Rank, ...]) -> bytes:
    """Run these ranks on two hosts; what the first one printed."""
    job = Job(
        slug="sample",
        title="",
        what_happened="",
        version=version,
        hosts=eth0("gpu0001", "gpu0002"),
        ranks=ranks,
        truth=Truth("inconclusive"),
        environment={
            "NCCL_DEBUG": "TRACE",
            "NCCL_DEBUG_SUBSYS": subsystems,
            "NCCL_SOCKET_IFNAME": "eth0",
        },
        log="{rank}",
        seconds=8,
    )
    with TemporaryDirectory(dir=nccl_wheels.LAB) as evidence:
        run(job, Path(evidence))
        return (Path(evidence) / "0").read_bytes()


def whole_way(version: str) -> bytes:
    """What rank 0 prints from its first call to a wrong one."""
    ranks = (
        Rank("gpu0001", 0, f"{STEPS} bad-root"),
        Rank("gpu0002", 1, f"{STEPS} stay=1 destroy"),
    )
    return first_rank_says(version, SUBSYSTEMS, ranks)


def root_complaints(version: str) -> bytes:
    """What the root says of three kinds of disorder."""
    given_twice = (
        Rank("gpu0001", 0, "init", nranks=3),
        Rank("gpu0002", 1, "init", nranks=3),
        Rank("gpu0002", 1, "stay=0.5 init", nranks=3),
    )
    disagreeing = (
        Rank("gpu0001", 0, "init", nranks=2),
        Rank("gpu0002", 1, "init", nranks=4),
    )
    stranger = (
        Rank("gpu0001", 0, "unique-id stay=2 init"),
        Rank("gpu0002", 1, "knock=128 stay=2 init"),
    )
    disorders = (given_twice, disagreeing, stranger)
    return b"".join(
        first_rank_says(version, ROOT_SUBSYSTEMS, ranks) for ranks in disorders
    )


def make_samples(directory: Path) -> None:
    """Write every sample."""
    for version in nccl_wheels.VERSIONS:
        (directory / f"nccl-{version}.log").write_bytes(whole_way(version))
        print(f"nccl-{version}.log")
    for version in ROOT_VERSIONS:
        (directory / f"nccl-root-{version}.log").write_bytes(root_complaints(version))
        print(f"nccl-root-{version}.log")
