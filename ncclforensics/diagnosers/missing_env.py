"""A variable that torch.distributed needs, such as RANK, is not set or is wrong.

What it means
    The program was started without a launcher, or the launcher's variables did not
    reach it (ssh, sudo, a container, `srun` without a wrapper). It cannot join, or
    every process believes that it is rank 0 of 1.

How we know
    `environment variable RANK expected, but not set` and its variants; a `KeyError` on
    such a variable; a rank that NCCL refuses because it lies outside the world, or
    because it has already checked in, with no restart in the evidence; or, in a job
    that failed, several processes whose largest communicator has one rank.

What to do
    Start the program with torchrun, or set RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR
    and MASTER_PORT. Under Slurm, take them from SLURM_PROCID, SLURM_NTASKS and
    SLURM_LOCALID.

Looks like
    A job that has one process on purpose. Variables that differ between ranks are
    `inconsistent-env`.

References
    torch.distributed initialization by environment variables; torchrun.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs.job import signs_of_failure
from ncclforensics.evidence import common
from ncclforensics.model import wanted
from ncclforensics.model.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Confidence, Statement
    from ncclforensics.model.frames import Frames

FAMILY = "launch"
NEEDS = ("events",)
MISSING, NEXT_TIME = wanted.LOGS
EXPLAINS = ("crashed-rank", "rendezvous-failed", "missing-rank", "duplicate-gpu")
SPREADS = True

UNSET = (
    *("c10d.env_missing", "c10d.env_missing.early", "c10d.env_missing.raised"),
    "c10d.env_missing.told",
    "python.env_missing",
)
RESTARTS = ("torchelastic.restart",)
VARIABLES = (
    r"^'(?:RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_RANK|MASTER_ADDR"
    r"|MASTER_PORT|SLURM_PROCID|SLURM_LOCALID|SLURM_NTASKS|OMPI_COMM_WORLD_\w+"
    r"|PMI_RANK|PMI_SIZE)'$"
)
REMEDY = (
    "torchrun --nnodes=${SLURM_NNODES:-1} --nproc-per-node=gpu --rdzv-backend=c10d "
    "--rdzv-endpoint=$MASTER_ADDR:29500   # it sets them all; then your script",
    "export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID"
    "   # inside srun",
    "export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -1) "
    "MASTER_PORT=29500",
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Report which variable a process lacked, or which rank it wrongly got."""
    for look in (_unset, _refused, _claimed, _alone):
        if (found := look(frames)) is not None:
            yield found
            return


def _unset(frames: Frames) -> Finding | None:
    lines = frames.message(*UNSET)
    raised = frames.message("torchelastic.error_file")
    if "exception" in raised.columns:
        named = raised.filter(
            (pl.col("exception") == "KeyError")
            & pl.col("message_text").str.contains(VARIABLES)
        ).with_columns(pl.col("message_text").str.strip_chars("'").alias("variable"))
        lines = pl.concat([lines, named], how="diagonal_relaxed")
    if lines.is_empty():
        return None
    variables = [
        name
        for column in ("variable", "parameter")
        if column in lines.columns
        for name in common.strings(lines[column])
    ]
    what = common.some(variables)
    return _finding(
        lines,
        f"{what} is not set: the program was started without its launcher",
        f"A process needs {what}, which a launcher sets, and did not find it.",
    )


def _refused(frames: Frames) -> Finding | None:
    """Find a rank outside the world, which NCCL refuses: `Invalid rank … : 7/2`."""
    lines = frames.message("nccl.usage")
    if lines.is_empty():
        return None
    lines = lines.filter(pl.col("problem").str.contains(r"^Invalid rank requested"))
    if lines.is_empty():
        return None
    rank, _, size = str(lines["problem"][0]).rpartition(" ")[2].partition("/")
    hosts = common.hosts(lines["host"])
    return _finding(
        lines,
        f"a process on {common.named(hosts) or 'a host'} was told that it is rank "
        f"{rank} of {size}",
        "Ranks count from 0, so there is no such rank: RANK and WORLD_SIZE do not fit.",
        hosts,
    )


def _claimed(frames: Frames) -> Finding | None:
    """Find a rank that two processes claim, if nothing was restarted."""
    lines = frames.message("nccl.bootstrap.duplicate_rank")
    if lines.is_empty() or frames.message(*RESTARTS).height:
        return None
    rank, size = lines["comm_rank"][0], lines["nranks"][0]
    return _finding(
        lines,
        f"two processes were told that they are rank {rank} of {size}",
        "Each rank may come once. The launcher gave two processes the same rank, or an "
        "earlier job still runs and meets this one.",
        confidence="likely",
    )


def _alone(frames: Frames) -> Finding | None:
    """Find several processes of a failed job that are each rank 0 of 1."""
    inits = frames.message("nccl.init.start", "nccl.init.complete")
    if inits.is_empty() or inits["nranks"].max() != 1 or not signs_of_failure(frames):
        return None
    processes = inits.select("host", "pid").drop_nulls().unique()
    if processes.height < 2 or inits["source"].n_unique() > 1:
        return None
    return _finding(
        inits,
        f"{processes.height:,} processes each run as rank 0 of 1",
        "Every process built a communicator of its own: WORLD_SIZE did not reach them.",
    )


def _finding(
    lines: pl.DataFrame,
    headline: str,
    why: str,
    hosts: tuple[str, ...] = (),
    confidence: Confidence = "certain",
) -> Finding:
    return Finding(
        slug="missing-env",
        confidence=confidence,
        headline=headline[:200],
        evidence=common.cites(lines),
        explanation=why,
        remedy=REMEDY,
        hosts=hosts,
        first_seen=common.first_seen(lines),
    )
