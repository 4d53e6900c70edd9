"""Two ranks of one communicator use the same GPU.

What it means
    Each rank needs a GPU of its own. Here a rank uses a GPU that belongs to another
    rank: it did not call `torch.cuda.set_device(local_rank)`, it used its global rank
    as its local rank, or CUDA_VISIBLE_DEVICES or the launcher gave two ranks the same
    device.

How we know
    `Duplicate GPU detected : rank A and rank B both on CUDA device …` names the ranks.
    NCCL 2.30 says only that some ranks share a GPU; then the ranks of that communicator
    whose `Init START` lines show the same host and bus id are named. If a communicator
    does not span the job, its ranks are named only where its members are known. If
    NCCL's line is lost, two ranks with one bus id on one host that aborted their
    communicator before it was complete are enough.

What to do
    Call `torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))` before the first CUDA
    call and before init_process_group. Check `echo $CUDA_VISIBLE_DEVICES $LOCAL_RANK`
    on each rank. Start as many ranks per host as it has GPUs (`--nproc-per-node`,
    `--ntasks-per-node`).

Looks like
    Deliberate sharing (NCCL_MULTI_RANK_GPU_ENABLE=1, MIG) prints no such warning.
    Ranks of two communicators, or on two hosts, may show the same bus id.

References
    NCCL, using multiple ranks per GPU; torchrun, LOCAL_RANK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import common
from ncclforensics.model import wanted
from ncclforensics.model.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAMILY = "platform"
NEEDS = ("nccl.", "c10d.nccl_error")
MISSING, NEXT_TIME = wanted.NCCL
EXPLAINS = (
    *("crashed-rank", "missing-rank", "timeout-masking", "socket-error"),
    *("wrong-nic", "unreachable-peer"),
)
SPREADS = True

NAMED = ("nccl.duplicate_gpu",)
UNNAMED = ("nccl.duplicate_gpu.unnamed", "nccl.duplicate_gpu.partition")
STARTED = ("nccl.init.start",)

REMEDY = (
    'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))   # before any CUDA call',
    "echo rank=$RANK local=$LOCAL_RANK visible=$CUDA_VISIBLE_DEVICES   # each rank",
    "nvidia-smi -L   # on {}: --nproc-per-node as it lists, or fewer",
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the ranks that share a GPU."""
    named = frames.message(*NAMED)
    lines = named if named.height else frames.message(*UNNAMED)
    shared = _sharing(frames, lines) if lines.height else _aborted(frames)
    if lines.is_empty():
        lines = shared
    if lines.is_empty():
        return
    ranks = common.numbers(shared["rank"])
    if named.height:
        ranks = _named(frames, named) or ranks
    hosts = common.hosts(shared["host"]) or common.hosts_of(frames, ranks)
    printed = common.hosts(lines["host"])
    hosts = hosts or (printed if len(printed) == 1 else ())
    who = common.ranks(ranks) if ranks else "ranks that the lines do not name"
    where = common.on(hosts)
    who += f"{where} share " + _gpus(named if named.height else shared)
    yield Finding(
        slug="duplicate-gpu",
        confidence="certain" if lines is not shared else "likely",
        headline=who,
        evidence=(*common.cites(lines, 4), *common.cites(shared, 4)),
        explanation=f"{who[:1].upper()}{who[1:]}. Of those on one GPU all but one are "
        "there by mistake; NCCL refuses such a communicator on every rank.",
        remedy=tuple(
            step.replace("{}", common.some(hosts) or "each host") for step in REMEDY
        ),
        ranks=ranks,
        hosts=hosts,
        devices=common.devices_of(frames, ranks),
        first_seen=common.first_seen(lines),
    )


def _gpus(lines: pl.DataFrame) -> str:
    """Return `GPU 1b000`; for several GPUs, also the ranks on each."""
    buses = common.strings(lines["bus_id"])
    if len(buses) < 2 or "peer_rank" not in lines.columns:
        return f"GPU {common.some(buses)}" if buses else "a GPU"
    told = []
    for bus in buses:
        mine = lines.filter(pl.col("bus_id") == bus)
        ranks = common.numbers(pl.concat([mine["comm_rank"], mine["peer_rank"]]))
        told.append(f"GPU {bus} ({common.some(ranks)})")
    return common.some(told)


def _named(frames: Frames, named: pl.DataFrame) -> tuple[int, ...]:
    """Return the global ranks that the lines name, as far as they are known.

    The lines number ranks within their communicator, first the one that prints it; its
    `Init START` lines give the global ranks. If no communicator is known, the one that
    fails is taken to span the job, unless a rank that prints has another number there.
    """
    other = (pl.col("rank") != pl.col("comm_rank")).fill_null(False)
    of_group, of_job = named.filter(other), named.filter(~other)
    told = {
        *common.numbers(of_group["rank"]),
        *common.numbers(of_job["comm_rank"]),
        *common.numbers(of_job["peer_rank"]),
    }
    started = frames.message(*STARTED)
    if "comm_rank" not in started.columns:
        return tuple(sorted(told))
    key = ["host", "pid"]
    inside = started.join(named.select(key).unique(), on=key, nulls_equal=True)
    comms = inside.sort("source", "line").unique(key, keep="last")["comm_id"].unique()
    members = started.filter(pl.col("comm_id").is_in(comms.drop_nulls().implode()))
    known = members.filter(pl.col("comm_rank").is_in(told))
    if known.is_empty() and members.is_empty():
        return tuple(sorted(told))
    return common.numbers(known["rank"])


def _aborted(frames: Frames) -> pl.DataFrame:
    """Return the `Abort` lines of ranks that share a GPU and were never connected.

    The lines do not say which communicator it was: lines of one size, with each rank
    once, are one's. Where no other is known, it is taken to span the job.
    """
    aborts = frames.message("nccl.comm.abort")
    if "bus_id" not in aborts.columns or frames.message("nccl.init.complete").height:
        return aborts.with_columns(pl.lit(None, pl.String).alias("bus_id")).clear()
    if frames.message(*STARTED).is_empty():
        aborts = aborts.with_columns(pl.coalesce("rank", "comm_rank").alias("rank"))
    one = aborts.unique(["source", "host", "pid", "comm"], keep="last").sort("line")
    comm, gpu = ["source", "nranks"], ["source", "nranks", "host", "bus_id"]
    alone = pl.len().over(*comm, "comm_rank") == 1
    return one.drop_nulls([*gpu, "pid"]).filter(
        alone.all().over(comm)
        & (pl.col("pid").n_unique().over(gpu) > 1)
        & (pl.col("comm_rank").n_unique().over(gpu) > 1)
    )


def _sharing(frames: Frames, lines: pl.DataFrame) -> pl.DataFrame:
    """Return the `Init START` lines of the refused communicator that share a GPU."""
    started = frames.message(*STARTED)
    if "bus_id" not in started.columns:
        return started.with_columns(pl.lit(None, pl.String).alias("bus_id"))
    key = ["host", "pid"]
    refused = started.join(lines.select(key).unique(), on=key, nulls_equal=True)
    comms = refused.sort("source", "line").unique(key, keep="last")["comm_id"].unique()
    started = started.filter(pl.col("comm_id").is_in(comms.drop_nulls().implode()))
    gpu = ["comm_id", "host", "bus_id"]
    return started.drop_nulls(gpu).filter(pl.col("comm_rank").n_unique().over(gpu) > 1)
