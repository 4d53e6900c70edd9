"""Ranks of one communicator run different releases of NCCL.

What it means
    The ranks load different libraries: one host has another image or environment, or an
    LD_LIBRARY_PATH or LD_PRELOAD that finds another libnccl.so.2 there. Their messages
    differ in size and meaning, so they cannot set up a communicator together.

How we know
    `Mismatched NCCL version detected : rank A version … rank B version …`, the RAS
    thread's `NCCL version mismatch with remote peer`, or `Message truncated` in the
    bootstrap while processes of one communicator (one commId) print different `NCCL
    version` lines. The ranks of the rarer version are named; in a tie, both sides are.
    Or a program says itself that it was built for another release than it loaded.

What to do
    Run `python -c "import torch; print(torch.cuda.nccl.version())"` and
    `ldd $(python -c "import torch; print(torch._C.__file__)") | grep nccl` on the
    named host and on another one. Compare LD_LIBRARY_PATH and LD_PRELOAD.

Looks like
    Two jobs with different versions whose logs are in one directory are healthy.
    `Message truncated` with one version everywhere is cross-talk between two jobs.

References
    NCCL release notes; NCCL environment variable NCCL_DEBUG=VERSION.
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
NEEDS = ("nccl.",)
MISSING, NEXT_TIME = wanted.NCCL
EXPLAINS = (
    *("crashed-rank", "missing-rank", "timeout-masking", "socket-error"),
    *("unreachable-peer", "wrong-nic", "shape-mismatch"),
)
SPREADS = True

TOLD = ("nccl.version.mismatch",)
BUILT = "nccl.version.built_for"
TRUNCATED = ("nccl.bootstrap.truncated",)
VERSION = ("nccl.version",)
STARTED = ("nccl.init.start", "nccl.init.complete")
WHO = ("host", "pid")
SCHEMA = {
    "rank": pl.Int64(),
    "host": pl.String(),
    "version": pl.String(),
    "text": pl.String(),
    "source": pl.String(),
    "line": pl.Int64(),
}

REMEDY = (
    'python -c "import torch; print(torch.cuda.nccl.version())"   # on every host',
    'ldd $(python -c "import torch; print(torch._C.__file__)") | grep nccl',
    "echo $LD_LIBRARY_PATH; echo $LD_PRELOAD",
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the ranks that run another release than most ranks."""
    told = frames.message(*TOLD)
    truncated = frames.message(*TRUNCATED)
    if told.is_empty() and truncated.is_empty():
        yield from _built_for_another(frames)
        return
    printed = _printed(frames, told if told.height else truncated)
    named = _named(told)
    versions = printed if printed["version"].n_unique() > 1 else named
    if versions["version"].n_unique() < 2:
        return
    size = _size(frames)
    odd = _rarer(versions, size)
    theirs = versions.join(odd.select("version").unique(), on="version", how="anti")
    ranks, hosts = common.numbers(odd["rank"]), _hosts(frames, odd)
    mine = common.some(common.strings(odd["version"]))
    rest = common.some(common.strings(theirs["version"]))
    who = common.ranks(ranks) if ranks else common.named(hosts)
    where = f" on {common.named(hosts)}" if ranks and hosts else ""
    against = f"NCCL {mine}" + (f", the others {rest}" if rest else "")
    what = f"{who}{where}: {against}" if who else f"ranks run different NCCL: {rest}"
    yield Finding(
        slug="nccl-version-mismatch",
        confidence="certain" if told.height else "likely",
        headline=what,
        evidence=(
            *common.cites(told, 2),
            *common.cites(truncated, 2),
            *common.cites(odd, 2),
            *common.cites(theirs, 2),
        ),
        explanation=f"Processes of one communicator run different releases of NCCL "
        f"({what}). They cannot set it up together.",
        remedy=REMEDY,
        ranks=ranks,
        hosts=hosts,
        first_seen=common.first_seen(told if told.height else truncated),
    )


def _built_for_another(frames: Frames) -> Iterator[Finding]:
    """Find programs that loaded another release than the one they were built for."""
    lines = frames.message(BUILT)
    if lines.is_empty():
        return
    ranks = common.numbers(lines["rank"])
    hosts = common.hosts(lines["host"]) or common.hosts_of(frames, ranks)
    who = common.ranks(ranks) if ranks else common.named(hosts) or "a program"
    built, version = lines.select("built", "version").row(0)
    what = f"{who} was built for NCCL {built} and loaded {version}"
    yield Finding(
        slug="nccl-version-mismatch",
        confidence="certain",
        headline=what,
        evidence=common.cites(lines),
        explanation="Another libnccl.so.2 is found there first.",
        remedy=REMEDY,
        ranks=ranks,
        hosts=hosts,
        first_seen=common.first_seen(lines),
    )


def _printed(frames: Frames, complaints: pl.DataFrame) -> pl.DataFrame:
    """Return the version lines of the communicators that complain, in `SCHEMA`."""
    lines, started = frames.message(*VERSION), frames.message(*STARTED)
    if "version" not in lines.columns or "comm_id" not in started.columns:
        return pl.DataFrame(schema=SCHEMA)
    who = [*WHO, "source"]
    comms = started.drop_nulls("comm_id").select(*who, "comm_id").unique()
    torn = comms.join(
        complaints.select(who).unique(), on=who, how="semi", nulls_equal=True
    )
    members = comms.filter(pl.col("comm_id").is_in(torn["comm_id"].implode()))
    # before 2.26 the line has no prefix; then a file with one writer shows whose it is
    own = lines.join(members, on=who, how="semi", nulls_equal=True)
    bare = lines.filter(pl.col("pid").is_null())
    nccl = frames["events"].filter(pl.col("message").str.starts_with("nccl."))
    writers = nccl.drop_nulls("pid").group_by("source")
    alone = writers.agg(pl.struct(WHO).n_unique().alias("writers")).join(
        members.select("source").unique(), on="source", how="semi"
    )
    alone = alone.filter(pl.col("writers") == 1)
    bare = bare.join(alone.select("source"), on="source", how="semi")
    return pl.concat([own, bare]).select(SCHEMA.keys())


def _named(told: pl.DataFrame) -> pl.DataFrame:
    """Return the ranks and versions that the lines themselves name, in `SCHEMA`."""
    if "peer_version" not in told.columns:
        return pl.DataFrame(schema=SCHEMA)
    ends = [("comm_rank", "version"), ("peer_rank", "peer_version")]
    both = [
        told.select(
            pl.col(rank).alias("rank"),
            pl.lit(None, pl.String).alias("host"),
            _spelled(pl.col(version)).alias("version"),
            *("text", "source", "line"),
        )
        for rank, version in ends
    ]
    return pl.concat(both).drop_nulls("version").select(SCHEMA.keys())


def _spelled(version: pl.Expr) -> pl.Expr:
    """Convert NCCL's version number to text: 22705 is `2.27.5`."""
    parts = (version // 10000, version // 100 % 100, version % 100)
    major, minor, patch = (part.cast(pl.String) for part in parts)
    return common.sentence(major, ".", minor, ".", patch)


def _size(frames: Frames) -> int:
    """Return the least number of ranks of the job, by communicators and by hosts."""
    started, events = frames.message(*STARTED), frames["events"]
    largest = started["nranks"].max() if "nranks" in started.columns else 0
    nccl = events.filter(pl.col("message").str.starts_with("nccl."))
    return max(int(str(largest or 0)), nccl["host"].drop_nulls().n_unique())


def _rarer(versions: pl.DataFrame, size: int) -> pl.DataFrame:
    """Return the rows of all versions but the one that most of `size` ranks run.

    In a tie, all rows; no rows if ranks without evidence could change the majority.
    """
    who = pl.coalesce(pl.col("rank").cast(pl.String), "host", "source")
    counts = versions.group_by("version").agg(who.n_unique().alias("ranks"))
    most = counts.filter(pl.col("ranks") == pl.col("ranks").max())
    largest = int(most["ranks"][0])
    if int(counts["ranks"].sum()) < size and 2 * largest <= size:
        return versions.clear()
    if most.height > 1:
        return versions
    return versions.filter(pl.col("version") != most["version"][0])


def _hosts(frames: Frames, odd: pl.DataFrame) -> tuple[str, ...]:
    ranks = common.numbers(odd["rank"])
    return common.hosts(odd["host"]) or common.hosts_of(frames, ranks)
