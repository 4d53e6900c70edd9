"""The jobs of the Slurm lab: what ends each, and which tables are then saved."""

from __future__ import annotations

from dataclasses import dataclass, field

LISTED = {
    "sacct.txt": "sacct -j {job} -o JobID,JobName,State%30,ExitCode,Start,End,NodeList%20",
    "scontrol-show-job.txt": "scontrol show job {job}",
    "sinfo-R.txt": "sinfo -R",
}
HANG = ("missing-rank", "--who", "2", "--timeout", "1800")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One job, and the truth about it."""

    slug: str
    title: str
    happened: str
    train: tuple[str, ...] = ("at-work", "--timeout", "1800")
    sbatch: str = ""
    runs_s: float = 5  # after its ranks have met
    then: str = ""  # what ends it: scancel, preempt, lose-node
    ends_s: float = 8
    tables: dict[str, str] = field(default_factory=lambda: dict(LISTED))
    failure: str
    also: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()


CASES = (
    Case(
        slug="cancelled",
        title="the user cancels a job that trains",
        happened="All four ranks train; its user calls scancel.",
        then="scancel",
        failure="cancelled",
        tables={"sacct.json": "sacct -j {job} --json", **LISTED},
    ),
    Case(
        slug="cancelled-after-hang",
        title="the user cancels a job that hangs",
        happened="After step 3 rank 2 hangs in save_checkpoint; its peers wait in the "
        "all_reduce of step 4. All dump. A minute and a half later its user calls scancel.",
        train=(*HANG, "--dump", "fr/nccl_trace_rank_{rank}", "--dump-after", "20"),
        runs_s=100,
        then="scancel",
        failure="missing-rank",
        ranks=(2,),
        hosts=("gpu0002",),
    ),
    Case(
        slug="node-lost",
        title="one of two nodes dies",
        happened="All four ranks train; gpu0002 dies with all processes on it.",
        then="lose-node",
        ends_s=45,
        failure="node-lost",
        ranks=(2, 3),
        hosts=("gpu0002",),
        tables={"scontrol-show-job.txt": LISTED["scontrol-show-job.txt"]}
        | {"sinfo-R.txt": "sinfo -R"},
    ),
    Case(
        slug="preempted",
        title="a job of higher priority takes the nodes",
        happened="All four ranks train; a job of a partition with a higher tier needs "
        "both nodes, and Slurm cancels this one.",
        sbatch="--exclusive",
        then="preempt",
        failure="preempted",
        hosts=("gpu0001", "gpu0002"),
    ),
)
