"""Ranks of one group are in different collectives at the same sequence number.

What it means
    The n-th call of a group has to be the same operation on every member. Here some
    ranks call one operation and some another, usually because a branch depends on the
    rank, on data, or on which of two code paths a rank took. Nothing can match these
    calls: the job hangs, corrupts data, or fails the check of TORCH_DISTRIBUTED_DEBUG.

How we know
    Flight Recorder dumps show different operations under one SeqNum of one group; or
    torch prints `Detected mismatch between collectives on ranks` with both sides; or
    watchdogs report different OpTypes for one SeqNum. From dumps, each side is weighed:
    the smaller side, and the side whose calls left the program's usual order, is the
    more likely culprit. If the evidence against both sides is equal, both are named.
    From torch's lines, and what its analyzer of dumps prints, the ranks are counted and
    the minority is named. In Horovod's list, two sides lack each other's tensors.

What to do
    Compare the call sites of both sides. With TORCH_DISTRIBUTED_DEBUG=DETAIL, torch
    checks each call before it starts, at the cost of speed.

Looks like
    A rank that is one call ahead because it skipped a call, or one behind because it
    made an extra call, is `missing-rank` or `rank-conditional-collective`: its next
    calls are the usual ones, shifted by one.
    If DETAIL reports `SequenceNumber=1` against 0 for a barrier, that is a flaw of the
    check itself. The operation that it prints for the other side is wrong where sizes
    differ.

References
    torch ProcessGroupWrapper.cpp; Flight Recorder tutorial.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import (
    analyzer_reports,
    common,
    detail_fingerprints,
    horovod_stalls,
)
from ncclforensics.model.findings import Finding
from ncclforensics.theory import mismatches
from ncclforensics.theory.weigh import weighed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Confidence, Statement
    from ncclforensics.model.frames import Frames

FAMILY = "desync"
NEEDS = (
    *("collectives", "positions", "c10d.fingerprint", "condensed.fingerprint"),
    *("nccl.collective_mismatch", "c10d.analyzer.mismatch", "launchers.horovod"),
)
MISSING = "no dump, and no TORCH_DISTRIBUTED_DEBUG=DETAIL"
NEXT_TIME = "TORCH_FR_BUFFER_SIZE=2000, or TORCH_DISTRIBUTED_DEBUG=DETAIL for a rerun"
EXPLAINS = ("missing-rank", "shape-mismatch", "timeout-masking", "crashed-rank")
SPREADS = True

NCCL_SAW = ("nccl.collective_mismatch.detected",)
# NCCL has waited for long, and suspects a mismatch as the likeliest reason
NCCL_FEARS = ("nccl.collective_mismatch",)
# headline and explanation for a library's own check
TORCH = (
    "torch detected different collectives at one SeqNum",
    "torch's check of each call failed. Only one side can be read in this evidence, as "
    "torch up to 1.12 prints it, so nobody is named.",
)
DECODED = (
    TORCH[0],
    "torch's check of each call failed. What the line says of the first rank is right; "
    "the other's operation is decoded from the length of its fingerprint, and "
    "may be wrong. The lines of the other ranks show which one differs.",
)
NCCL = (
    "NCCL saw ranks make different calls",
    "NCCL (up to 2.7) compared the calls of neighbours and found them to differ in "
    "operation or size. The rank it prints is where it noticed; that one or a "
    "neighbour differs.",
)
HOROVOD = (
    "Horovod's ranks asked for different operations under one name",
    "Horovod's coordinator compares what the ranks submit under one name, and answers "
    "all of them when it differs. It does not say which rank asked for what.",
)

REMEDY = (
    "compare the call sites of both sides: which condition makes them differ?",
    "export TORCH_DISTRIBUTED_DEBUG=DETAIL",
)
WORDS = mismatches.Words(
    "collective-mismatch",
    "in",
    "are in different operations",
    lambda who, mine, theirs: f"{who} called {mine} where others called {theirs}",
    lambda one, other: " against ".join(
        f"{what} on {common.ranks(ranks)}" for what, ranks in (one, other)
    ),
    REMEDY,
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the ranks with the odd operation, at the first such call."""
    if (told := weighed(frames).joined("collective-mismatch")) is not None:
        yield mismatches.shown(frames, told, WORDS)
        return
    if sides := detail_fingerprints.sides(frames, "op"):
        yield mismatches.printed(frames, sides, WORDS)
        return
    report = analyzer_reports.differing(frames, analyzer_reports.TYPE)
    if report is not None:
        yield analyzer_reports.mismatch(frames, report, "collective-mismatch", REMEDY)
        return
    if (found := _elsewhere(frames)) is not None:
        yield found
        return
    lines = _unlike(frames.message("c10d.fingerprint"))
    if lines.height and not detail_fingerprints.sides(frames, "shape"):
        peers = "is_peer" in lines.columns and lines["is_peer"].any()
        yield _one_sided(lines, *(DECODED if peers else TORCH))
        return
    seen, feared = frames.message(*NCCL_SAW), frames.message(*NCCL_FEARS)
    answered = frames.message("launchers.horovod.mismatch")
    if answered.height:
        yield _one_sided(answered, *HOROVOD)
    elif seen.height:
        yield _one_sided(seen, *NCCL)
    elif feared.height:
        yield _one_sided(feared, *NCCL, confidence="likely")


def _elsewhere(frames: Frames) -> Finding | None:
    """Return the finding for two sides whose tensors stall on each other in Horovod."""
    lines, ranks, tie = horovod_stalls.elsewhere(frames)
    if not ranks:
        return None
    did = "wait for each other" if tie else "submitted other tensors than the others"
    return Finding(
        slug="collective-mismatch",
        confidence="likely",
        headline=f"{common.ranks(ranks)} {did}"[:200],
        evidence=common.cites(lines),
        explanation="Horovod's list shows two sides: each submitted what the other "
        "lacks, so they make different calls and wait for each other."
        + (" Neither side is smaller." if tie else ""),
        remedy=REMEDY,
        ranks=ranks,
        hosts=common.hosts_of(frames, ranks),
        first_seen=common.first_seen(lines),
    )


def _unlike(lines: pl.DataFrame) -> pl.DataFrame:
    """Drop the lines whose two sides show the same operation, without a tensor.

    They differ only in the sequence number of the fingerprint, which is known to be
    wrong for torch's own barrier.
    """
    if "is_peer" not in lines.columns or "shape" not in lines.columns:
        return lines
    place = ["source", "line"]
    sides = pl.len().over(place)
    same = (pl.col("op").n_unique().over(place) == 1) & (sides > 1)
    bare = pl.col("shape").is_null().all().over(place)
    return lines.filter(~(same & bare & pl.col("op_reliable").fill_null(True)))


def _one_sided(
    lines: pl.DataFrame,
    headline: str,
    explanation: str,
    confidence: Confidence = "certain",
) -> Finding:
    """Report a library's own check that shows at most one side of the mismatch."""
    return Finding(
        slug="collective-mismatch",
        confidence=confidence,
        headline=headline,
        evidence=common.cites(lines),
        explanation=explanation,
        remedy=REMEDY,
        first_seen=common.first_seen(lines),
    )
