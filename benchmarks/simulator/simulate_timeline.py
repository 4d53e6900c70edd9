"""Frames of a large job that hung, made without dumps: to draw, not to diagnose.

Tensor groups of 8, data groups across them, one group of all. One rank never makes a
late tensor call; its peers wait in it, their data groups wait in a later call, and all
others wait in one of the whole job: the chain has three steps.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.report import contract
from ncclforensics.report.formats.as_json import render_json

TP, EPOCH, STEP = 8, 1_767_323_045_000_000_000, 10_000_000
WORLD, TENSOR, DATA = "default_pg", "TENSOR_MODEL_PARALLEL_GROUP", "DATA_PARALLEL_GROUP"


@dataclass(frozen=True)
class Job:
    """A job of `ranks` ranks that make `calls` calls; `culprit` misses one."""

    ranks: int
    calls: int
    culprit: int

    @property
    def kinds(self) -> list[str]:
        """Return the group's description of each call; the last four are the hang."""
        cycle = [TENSOR] * 8 + [DATA, WORLD]
        fill = [cycle[i % 10] for i in range(self.calls - 4)]
        return [*fill, TENSOR, TENSOR, DATA, WORLD]

    @property
    def peers(self) -> list[int]:
        """Return the ranks of the culprit's tensor group."""
        first = self.culprit // TP * TP
        return list(range(first, first + TP))

    def data_peers(self, rank: int) -> list[int]:
        """Return the ranks of a rank's data group."""
        return list(range(rank % TP, self.ranks, TP))


def collectives(job: Job, first: int, end: int) -> pl.DataFrame:
    """Return the calls of ranks `first` to before `end`, in schema `collectives`."""
    made = job.calls
    program = pl.DataFrame(
        {
            "i": range(made),
            "pg_desc": job.kinds,
            "seq": _numbers(job.kinds),
        }
    )
    ranks = pl.DataFrame({"rank": range(first, end)})
    tensor_wait, data_wait, world_wait = made - 4, made - 2, made - 1
    stuck = (
        pl.when(pl.col("rank") == job.culprit)
        .then(tensor_wait - 1)
        .when(pl.col("rank").is_in(job.peers))
        .then(tensor_wait)
        # every data group has a member that waits in the culprit's tensor group
        .otherwise(data_wait if job.ranks > TP else world_wait)
    )
    t = (
        EPOCH
        + pl.col("i") * STEP
        + (pl.col("rank") * 7919 + pl.col("i") * 31) % 100_000
    )
    done = (pl.col("i") < pl.col("stuck")) | (
        (pl.col("rank") == job.culprit) & (pl.col("i") == pl.col("stuck"))
    )
    group = (
        pl.when(pl.col("pg_desc") == WORLD)
        .then(pl.lit("0"))
        .when(pl.col("pg_desc") == TENSOR)
        .then(pl.concat_str(pl.lit("t"), pl.col("rank") // TP))
        .otherwise(pl.concat_str(pl.lit("d"), pl.col("rank") % TP))
    )
    rows = (
        ranks.join(program, how="cross")
        .with_columns(stuck.alias("stuck"))
        .filter(pl.col("i") <= pl.col("stuck"))
        .select(
            "rank",
            group.alias("pg"),
            "pg_desc",
            "seq",
            pl.lit(0, pl.Int64).alias("p2p_seq"),
            pl.col("i").alias("record_id"),
            pl.lit("all_reduce").alias("op"),
            pl.lit("nccl").alias("backend"),
            pl.lit(False).alias("is_p2p"),
            pl.when(done)
            .then(pl.lit("completed"))
            .otherwise(pl.lit("started"))
            .alias("state"),
            done.alias("retired"),
            pl.from_epoch(t, "ns").dt.replace_time_zone("UTC").alias("t"),
            pl.when(done)
            .then(pl.from_epoch(t + 300_000, "ns").dt.replace_time_zone("UTC"))
            .alias("t_completed"),
            pl.concat_str(pl.lit("fr/nccl_trace_rank_"), "rank").alias("source"),
            (pl.col("i") + 1).alias("line"),
        )
    )
    return tables.conform("collectives", rows)


def _numbers(kinds: list[str]) -> list[int]:
    counts: dict[str, int] = {}
    found = []
    for kind in kinds:
        counts[kind] = counts.get(kind, 0) + 1
        found.append(counts[kind])
    return found


def frames(job: Job, **more: pl.DataFrame) -> Frames:
    """Return the correlated frames of a job, without its collectives."""
    ranks = pl.DataFrame(
        {
            "rank": range(job.ranks),
            "host": [f"gpu{rank // TP:04}" for rank in range(job.ranks)],
            "device": [rank % TP for rank in range(job.ranks)],
        }
    )
    at = partial(_call, job)
    others = [rank for rank in job.peers if rank != job.culprit]
    calls = [at(0, job.calls - 4, job.peers, others, [job.culprit], [])]
    for number, peer in enumerate(job.peers, 1):
        members = job.data_peers(peer)
        waiting = [rank for rank in members if rank != peer]
        calls.append(at(number, job.calls - 2, members, waiting, [peer], []))
    root = {"rank": job.culprit, "why": "absent", "call": 0, "blocked": job.ranks - 1}
    found = {
        "ranks": tables.conform("ranks", ranks),
        "calls": tables.rows("calls", calls),
        "roots": tables.rows("roots", [root]),
    }
    return Frames({**found, **more})


def _call(
    job: Job,
    number: int,
    index: int,
    members: list[int],
    waiting: list[int],
    absent: list[int],
    behind: list[int],
) -> dict[str, object]:
    kind = job.kinds[index]
    rank = members[0]
    pg = f"t{rank // TP}" if kind == TENSOR else f"d{rank % TP}"
    return {
        "call": number,
        "group": pg,
        "pg": pg,
        "pg_desc": kind,
        "seq": _numbers(job.kinds)[index],
        "op": "all_reduce",
        "is_p2p": False,
        "members": members,
        "waiting": waiting,
        "absent": absent,
        "behind": behind,
        "done": [],
        "unseen": [],
    }


def report(job: Job) -> contract.Report:
    """Return the report that names the culprit."""
    seq = _numbers(job.kinds)[job.calls - 4]
    pg = f"t{job.culprit // TP}"
    verdict = {
        "slug": "missing-rank",
        "family": "desync",
        "confidence": "certain",
        "headline": f"rank {job.culprit} never joined all_reduce SeqNum={seq}",
        "culprits": contract.Culprits(
            (job.culprit,), str(job.culprit), (f"gpu{job.culprit // TP:04}",), ()
        ),
        "collective": contract.Collective(pg, TENSOR, seq, "all_reduce", None),
        "first_seen": None,
        "evidence": (),
        "explanation": "The others hang on it.",
        "remedy": ("read that rank's own log",),
        "references": (),
    }
    return contract.Report(
        schema_version=1,
        tool=contract.Tool("ncclforensics", "0"),
        outcome="failure",
        verdict=contract.Verdict(**verdict),
        findings=(contract.Finding(**verdict, role="root"),),
        ruled_out=(contract.RuledOut("gpu-stall", "no GPU lags behind", ()),),
        not_checked=(contract.NotChecked("gpu-oom", "no kernel log", "keep dmesg"),),
        job=contract.Job(world_size=job.ranks, ranks_seen=job.ranks),
        sources=(),
        notes=(),
    )


def export(folder: str, ranks: str, calls: str) -> None:
    """Write a job as an export: report.json, and a parquet file per frame."""
    job = Job(int(ranks), int(calls), culprit=int(ranks) * 3 // 5)
    place = Path(folder)
    place.joinpath("report.json").write_text(render_json(report(job)), "utf-8")
    for name, frame in frames(job).tables.items():
        frame.write_parquet(place / f"{name}.parquet")
    (place / "collectives").mkdir()
    for at in range(0, job.ranks, 1024):
        rows = collectives(job, at, min(at + 1024, job.ranks))
        rows.write_parquet(
            place / "collectives" / f"{at:06}.parquet", compression="zstd"
        )
    pl.scan_parquet(place / "collectives" / "*.parquet").sink_parquet(
        place / "collectives.parquet", compression="zstd"
    )
    shutil.rmtree(place / "collectives")
