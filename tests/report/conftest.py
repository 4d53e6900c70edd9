"""Ranked findings and frames made by hand: one job of 1,024 ranks that hangs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from ncclforensics.model import tables
from ncclforensics.model.findings import (
    Cite,
    Collective,
    Finding,
    NotChecked,
    Ranked,
    RuledOut,
)
from ncclforensics.model.frames import Frames
from ncclforensics.report.build import build

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncclforensics.diagnosers.domains import Lies
    from ncclforensics.report.contract import Report

DOC = """One rank of a group never joins a collective.

What it means

    A rank did not enqueue the call that its peers wait in, so that they wait until
    their watchdog gives up.

How we know

    - its position is behind
      that of its peers

What to do

    Look at what it does instead:

        py-spy dump --pid 1234 --native --subprocesses --nonblocking --locals --threads

Looks like

    straggler: there the rank arrives late.

References

    https://pytorch.org/docs/stable/distributed.html
    - ProcessGroupNCCL.cpp,
      function runLoop
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """Stands for a diagnoser."""

    slug: str
    family: str
    doc: str
    domain: str = "unknown"
    restart: str = "unknown"
    variants: Mapping[str, Lies] = field(default_factory=dict)


CLASSES = {
    "missing-rank": Entry("missing-rank", "desync", DOC),
    "timeout-masking": Entry("timeout-masking", "runtime", "A timeout hides a cause."),
    "gpu-oom": Entry("gpu-oom", "dead-rank", "A GPU ran out of memory."),
}

MISSING = Finding(
    slug="missing-rank",
    confidence="certain",
    headline=(
        "rank 617 never joined all_reduce SeqNum=84925 of 35"
        " (TENSOR_MODEL_PARALLEL_GROUP)"
    ),
    evidence=(
        Cite("fr/nccl_trace_rank_617", 84924, "all_reduce SeqNum=84924 completed"),
        Cite(
            "logs/attempt_0/3/stderr.log",
            48211,
            "[rank3]:[E102 03:04:05.678901 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog"
            " caught collective operation timeout: WorkNCCL(SeqNum=84925,"
            " OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for"
            " 600029 milliseconds before timing out.",
        ),
    ),
    explanation=(
        "1,023 of 1,024 members wait in it; rank 617 last finished 84924 at"
        " 12:07:31.204Z and enqueued nothing after it."
    ),
    remedy=("Look at what rank 617 does:", "ssh gpu0078 py-spy dump --pid 41234"),
    ranks=(617,),
    hosts=("gpu0078",),
    devices=("1",),
    collective=Collective(
        "35",
        "TENSOR_MODEL_PARALLEL_GROUP",
        84925,
        "all_reduce",
        "checkpoint.py:214 save_async",
    ),
    first_seen=1_767_323_045_678_901_234,
)
ECHO = Finding(
    slug="timeout-masking",
    confidence="certain",
    headline="1,023 watchdogs timed out after 10 minutes",
    evidence=(),
    explanation="They waited for rank 617.",
    remedy=(),
    ranks=tuple(r for r in range(1024) if r != 617),
)


@pytest.fixture
def classes() -> dict[str, Entry]:
    """The classes of this job."""
    return CLASSES


@pytest.fixture
def frames() -> Frames:
    """Two files that were read and one that was not, and notes on them."""
    return Frames(
        {
            "sources": tables.rows(
                "sources",
                [
                    {
                        "source": "logs/attempt_0/3/stderr.log",
                        "kind": "log",
                        "why": "text with a torchrun layout",
                        "rank": 3,
                        "bytes": 900,
                        "lines": 10,
                        "rows": 4,
                    },
                    {
                        "source": "fr/nccl_trace_rank_617",
                        "kind": "flight_recorder_pickle",
                        "why": "a pickled dict with entries",
                        "rank": 617,
                        "host": "gpu0078",
                        "rows": 2000,
                    },
                    {"source": "photo.jpg", "kind": "unknown", "why": "binary"},
                ],
            ),
            "notes": tables.rows(
                "notes",
                [
                    {
                        "stage": "parsers",
                        "text": f"cut in entry {i}",
                        "source": f"fr/nccl_trace_rank_{i}",
                        "line": i,
                    }
                    for i in (1, 2, 3)
                ],
            ),
        }
    )


@pytest.fixture
def ranked() -> Ranked:
    """A missing rank, its echo, a class ruled out, two that lack the same file."""
    return Ranked(
        outcome="failure",
        verdict=MISSING,
        findings=(("root", MISSING), ("echo", ECHO)),
        ruled_out=(RuledOut("gpu-oom", "no rank reports a failed allocation"),),
        not_checked=(
            NotChecked("host-oom", "no kernel log", "save dmesg -T of each host"),
            NotChecked("gpu-fault", "no kernel log", "save dmesg -T of each host"),
        ),
        job={
            "world_size": 1024,
            "ranks_seen": 1023,
            "hosts": [f"gpu{i:04}" for i in range(1, 129)],
            "nccl_version": "2.27.5",
            "torch_version": "2.9",
            "launcher": "torchrun",
        },
    )


@pytest.fixture
def report(ranked: Ranked, frames: Frames) -> Report:
    """The report of that job."""
    return build(ranked, frames, CLASSES)
