"""Ranks make the same call with tensors that do not fit each other.

What it means
    The operation needs equal sizes and dtypes on all members (all_reduce, broadcast,
    all_gather into one tensor, reduce_scatter), and some rank passes others: a smaller
    last batch, a padded sequence, a parameter that exists on one rank only. NCCL does
    not check this: it hangs, or sums elements that do not belong together.

How we know
    Flight Recorder dumps show the same operation under one SeqNum with different
    element counts or dtypes; or torch's DETAIL check prints `Tensor shapes` or
    `dtypes` that differ; or watchdogs report different NumelIn for one SeqNum. The side
    with fewer ranks is named, or the side whose calls left the usual order; if neither
    stands out, both are. In an all_to_all, sizes may differ between ranks: there, all
    members together send a different number of elements than they expect, and nobody
    is named.

What to do
    Print shape and dtype at the call site on the named ranks. Pad to a common size, or
    use an operation that takes uneven input (all_to_all with split sizes).

Looks like
    Sizes of all_to_all, gather and scatter differ in healthy jobs, and so do those of
    an all_gather into a list of uneven tensors, which torch records as broadcasts.
    Different operations at one SeqNum are `collective-mismatch`. A rank that passes
    another size at a place in the code where nobody else is has left the others'
    program: it is in another call, as in the barrier behind a loop (`uneven-inputs`).

References
    torch ProcessGroupWrapper.cpp; NCCL user guide, collective operations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ncclforensics.evidence import (
    analyzer_reports,
    common,
    ddp_params,
    detail_fingerprints,
)
from ncclforensics.model.actions import Action
from ncclforensics.model.findings import Collective, Finding
from ncclforensics.theory import mismatches, wording
from ncclforensics.theory.weigh import case_of, weighed

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames
    from ncclforensics.theory.weigh import Told

FAMILY = "desync"
NEEDS = (
    *("collectives", "positions", "c10d.fingerprint", "condensed.fingerprint"),
    *(
        "c10d.shape_check",
        "c10d.gloo.size_mismatch",
        "c10d.analyzer.mismatch",
        ddp_params.SIZES,
        ddp_params.COUNTS,
    ),
    *("nccl.net.message_truncated", "nccl.ib.size_mismatch", "nccl.ib.bad_receive"),
    *("launchers.horovod.shape_mismatch", "python.tf_shape"),
    "launchers.mpi.truncated",
)
MISSING = "no dump, and no TORCH_DISTRIBUTED_DEBUG=DETAIL"
NEXT_TIME = "TORCH_FR_BUFFER_SIZE=2000, or TORCH_DISTRIBUTED_DEBUG=DETAIL for a rerun"
EXPLAINS = ("missing-rank", "timeout-masking", "crashed-rank")
SPREADS = True

REMEDY = (
    Action(
        "print shape and dtype at {site} on {who}",
        "print shape and dtype of that call on the ranks that differ",
    ),
    "pad to a common size, or use an operation that takes uneven input",
)
WORDS = mismatches.Words(
    "shape-mismatch",
    "with",
    "pass tensors that do not match",
    lambda who, mine, theirs: f"{who} passed {mine}, others {theirs}",
    lambda one, other: f"{one[0]} against {other[0]} in one call",
    REMEDY,
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the ranks with the odd tensors, at the first such call."""
    if (told := weighed(frames).joined("shape-mismatch")) is not None:
        unbalanced = told.story.what == "unbalanced"
        yield (
            _unbalanced(frames, told)
            if unbalanced
            else mismatches.shown(frames, told, WORDS)
        )
        return
    if sides := detail_fingerprints.sides(frames, "shape"):
        yield mismatches.printed(frames, sides, WORDS)
        return
    report = analyzer_reports.differing(frames, *analyzer_reports.SIZE)
    if report is not None:
        yield analyzer_reports.mismatch(frames, report, "shape-mismatch", REMEDY)
        return
    if (found := ddp_params.differing(frames)) is not None:
        yield _of_models(frames, found)
        return
    yield from _one_sided(frames)


def _unbalanced(frames: Frames, told: Told) -> Finding:
    call = told.story.call
    assert call is not None
    found = case_of(frames).unbalanced[call["call"]]
    failing = common.collective(frames, call)
    return wording.finding(
        frames,
        told,
        f"split sizes do not add up in {common.call_words(failing)}",
        f"All members of {common.call_words(failing)} together send {found.sent:,} "
        f"elements and expect {found.expected:,}. Whose split sizes are wrong is not "
        "in these dumps.",
        REMEDY,
        common.cites(found.entries),
        first_seen=common.first_seen(found.entries),
    )


ALIKE = 2  # members with the same tensors that make a third one the odd one
SIZES = (
    "NCCL got more data from a peer than this rank expects in that call: their tensors "
    "differ, or their NCCL_PROTO or NCCL_ALGO. It does not say which end is wrong."
)

# messages that show that sizes differ, but not which rank is odd
ONE_SIDED = {
    "c10d.shape_check": "torch's check of shapes failed. The text of this version "
    "shows only the printing rank's own shapes, so it does not say which rank differs.",
    "c10d.gloo.size_mismatch": "Gloo received more bytes than the rank expected, "
    "and aborted. That rank or the sender is wrong; the line does not say which.",
    "launchers.mpi.truncated": "MPI received more bytes than the rank's call can take, "
    "so its members pass different sizes, or make other calls. The line does not say "
    "which of them is wrong.",
    "launchers.horovod.shape_mismatch": "Horovod's coordinator compares what ranks "
    "submit under one name, and answers all of them when it differs. It does not say "
    "which rank sent what.",
    "python.tf_shape": "TensorFlow compares the shapes that members of a collective "
    "expect. The task that says so is not always the one that differs.",
    "nccl.net.message_truncated": SIZES,
    "nccl.ib.size_mismatch": SIZES,
    "nccl.ib.bad_receive": SIZES,
}


def _one_sided(frames: Frames) -> Iterator[Finding]:
    """Report a difference in sizes if only one side is printed."""
    for message, explanation in ONE_SIDED.items():
        lines = frames.message(message)
        if lines.height:
            found = _unnamed(lines, explanation)
            yield _left_over(frames, found) or found
            return


def _left_over(frames: Frames, found: Finding) -> Finding | None:
    """Return a finding with the one member of unknown tensors; None if several.

    All others wait in the call with the same tensors: it is the one that differs.
    """
    case = case_of(frames)
    calls = [c for c in case.calls.values() if not c["is_p2p"] and c["unseen"]]
    if len(calls) != 1 or case.signatures.get(calls[0]["call"]):
        return None
    (call,) = calls
    rank, waiting = call["unseen"], call["waiting"]
    everyone = {*rank, *waiting} == {*(call["members"] or ())}
    if len(rank) != 1 or len(waiting) < ALIKE or not everyone:
        return None
    failing = common.collective(frames, call)
    who = common.ranks(rank)
    return replace(
        found,
        confidence="likely",
        headline=f"{who} passed tensors unlike those of all others",
        explanation=f"A line shows that tensors differ in size. All others, "
        f"{common.ranks(waiting)}, wait in {common.call_words(failing)} with the same "
        f"ones, and nothing shows those of {who}.",
        ranks=tuple(rank),
        hosts=common.hosts_of(frames, rank),
        devices=common.devices_of(frames, rank),
        collective=failing,
    )


def _of_models(frames: Frames, found: ddp_params.Models) -> Finding:
    who = common.ranks(found.odd) if found.odd else "ranks"
    unsaid = (
        " This evidence does not show which side is wrong."
        if found.sure
        else " DDP refuses a model with 0 parameters, so no data arrived: either "
        "that rank's model differs, or the GPUs do not reach each other, and a small "
        "all_reduce alone would fail as well."
    )
    return Finding(
        slug="shape-mismatch",
        confidence="certain" if found.sure else "likely",
        headline=f"{who} wrapped a model with other parameters: {found.differ}"[:200],
        evidence=common.cites(found.lines),
        explanation="DDP compares the parameters of all ranks when it wraps a model. "
        f"They differ: {found.differ}." + ("" if found.odd else unsaid),
        remedy=(
            "print the names and shapes of model.named_parameters() on each rank",
            "build the model from the same config, vocabulary and data on all ranks",
        ),
        ranks=found.odd,
        hosts=common.hosts_of(frames, found.odd),
        devices=common.devices_of(frames, found.odd),
        first_seen=common.first_seen(found.lines),
    )


def _unnamed(lines: pl.DataFrame, explanation: str) -> Finding:
    ops = common.strings(lines["op"]) if "op" in lines.columns else ()
    op = ops[0] if ops else None
    return Finding(
        slug="shape-mismatch",
        confidence="likely" if explanation == SIZES else "certain",
        headline=f"{op or 'a call'} with tensors that differ between ranks",
        evidence=common.cites(lines),
        explanation=explanation,
        remedy=REMEDY,
        collective=Collective(op=op),
        first_seen=common.first_seen(lines),
    )
