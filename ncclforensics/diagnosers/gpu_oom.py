"""A rank ran out of GPU memory, and its peers waited for it.

What it means
    An allocation on one rank's GPU failed, and the rank raised an exception. Its peers
    stayed in their collective until they lost the rank or timed out: their errors are
    echoes.

How we know
    torch's `CUDA out of memory. Tried to allocate …` or the like of another framework
    or library, NCCL's `Cuda failure … 'out of memory'`, or NCCL's `Failed to CUDA
    calloc … bytes` on its own, before any rank's timeout. If timestamps show who was
    first, the first rank to run out is named; otherwise all that ran out.

What to do
    Check how much of the memory belongs to the process. If most of it does not, another
    process uses that GPU (nvidia-smi). Otherwise lower the batch size or the sequence
    length, shard more, or set PYTORCH_ALLOC_CONF=expandable_segments:True against
    fragmentation.

Looks like
    The kernel's OOM killer is `host-oom`: that is the host's memory.
    An `out of memory` from a broken GPU comes with an Xid: `gpu-fault`.

References
    torch CUDA semantics, memory management.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.identity import host_blocks
from ncclforensics.evidence import common, cuda_errors, primary_exits
from ncclforensics.model import wanted
from ncclforensics.model.actions import CITED
from ncclforensics.model.findings import Finding
from ncclforensics.model.words import said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAMILY = "dead-rank"
NEEDS = ("events",)
MISSING, NEXT_TIME = wanted.LOGS
EXPLAINS = (
    *("crashed-rank", "missing-rank", "timeout-masking"),
    *("socket-error", "ib-error", "unreachable-peer"),
)
SPREADS = True

MESSAGES = (
    *("python.cuda_oom", "python.jax_oom", "python.tf_oom", "python.gpu_oom"),
    "python.gpu_memory_short",
)
OUT_OF_MEMORY = r"(?i)out of memory"
# how much NCCL wanted; the line above gives the reason, if it was kept
REFUSED = "nccl.alloc_failed"
RAISED = "python.traceback"
EXCEPTION = r"(?:^|^torch\.(?:cuda\.)?)OutOfMemoryError$"
APART_NS = 2_000_000_000  # timestamps of different ranks agree to about a second

REMEDY = (
    CITED,
    "lower the micro batch or sequence length, or shard more",
    "export PYTORCH_ALLOC_CONF=expandable_segments:True",
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the first rank that ran out of GPU memory."""
    if not frames.tells((*cuda_errors.ERRORS, *MESSAGES, REFUSED, RAISED)):
        return
    told = frames.message(*cuda_errors.ERRORS).filter(
        pl.col("level").ne_missing("INFO")
    )
    errors = told.filter(pl.col("text").str.contains(OUT_OF_MEMORY))
    sure = True
    if told.is_empty() and frames.message(*MESSAGES).is_empty():
        refused = frames.message(REFUSED)
        refused = refused.filter(pl.col("text").str.contains("CUDA"))
        errors = refused if refused.height else _cut_off(frames)
        sure = False
    common_columns = ["text", "t", "rank", "host", "device", "source", "line"]
    lines = pl.concat(
        [
            frames.message(*MESSAGES).select(common_columns),
            errors.select(common_columns),
        ]
    )
    if lines.is_empty():
        return
    first = _first(_placed(frames, primary_exits.with_only_exit(frames, lines)))
    ranks = common.numbers(first["rank"])
    hosts = common.hosts(first["host"]) or common.hosts_of(frames, ranks)
    who = common.speakers(frames, first)
    where = common.on(hosts)
    yield Finding(
        slug="gpu-oom",
        confidence="certain" if sure else "likely",
        headline=f"{who} ran out of GPU memory{where}",
        evidence=common.cites(first),
        explanation=f"{who.capitalize()}{where} could not allocate GPU memory: "
        f"{said(first['text'][0])}",
        remedy=REMEDY,
        ranks=ranks,
        hosts=hosts,
        devices=common.devices_of(frames, ranks),
        first_seen=common.first_seen(first),
    )


def _cut_off(frames: Frames) -> pl.DataFrame:
    """Return the tracebacks of torch's exception whose own line is cut off.

    Of tasks of Ray that wait for each other's results the last one told is the cause.
    """
    raised = frames.message(RAISED)
    if "exception" not in raised.columns:
        return raised.clear()
    short = raised.filter(
        pl.col("exception").str.contains(EXCEPTION).fill_null(value=False)
        & pl.col("message_text").is_null()
    )
    return short.unique("source", keep="last", maintain_order=True)


def _placed(frames: Frames, lines: pl.DataFrame) -> pl.DataFrame:
    """Fill `rank` of `lines` from the number of a GPU on a host, other than 0.

    Processes that see one GPU each call it 0; those that see all take the GPU of their
    local rank.
    """
    nameless = lines.filter(pl.col("rank").is_null() & (pl.col("device") > 0))
    places = nameless.select("host", "device").drop_nulls().unique(maintain_order=True)
    told = [
        {"host": host, "device": device, "_rank": ranks[device]}
        for host, device in places.iter_rows()
        if device < len(ranks := host_blocks.whole(frames, host))
    ]
    if not told:
        return lines
    found = pl.DataFrame(told, schema_overrides={"device": lines.schema["device"]})
    joined = lines.join(found, on=["host", "device"], how="left", maintain_order="left")
    rank = pl.coalesce("rank", "_rank").alias("rank")
    return joined.with_columns(rank).drop("_rank")


def _first(lines: pl.DataFrame) -> pl.DataFrame:
    """Keep the rows of the first ranks to run out, if every row has a time."""
    if lines["t"].null_count():
        return lines
    since = (lines["t"] - lines["t"].min()).dt.total_nanoseconds()
    return lines.filter(since < APART_NS)
