"""Numbers that no column holds, and what a damaged line lacks, end no diagnoser."""

from __future__ import annotations

import pytest

NINES = "9" * 40
BARRIER = (
    "RuntimeError: Timed out waiting on barrier on rank {rank}, for key prefix: "
    "store_based_barrier_key:1 (world_size=4, missing_ranks=[{missing}], "
    "timeout=0:30:00)\n"
)
PARAMS = (
    "RuntimeError: DDP expects same model across all ranks, but Rank 0 has {mine} "
    "params, while rank 1 has inconsistent {theirs} params.\n"
)
LOST = (
    "[ 1843.305511] NVRM: The NVIDIA GPU 0000:9b:00.0\n"
    "slurmstepd: error: NVML: Failed to get usage(15): GPU is lost\n"
)


@pytest.mark.parametrize(
    "text",
    [
        BARRIER.format(rank=0, missing=NINES),
        BARRIER.format(rank=0, missing="\u0663"),
        PARAMS.format(mine=NINES, theirs=4),
        PARAMS.format(mine=4, theirs=NINES),
        LOST,
    ],
    ids=[
        "missing",
        "digits of Arabic",
        "parameters",
        "theirs",
        "a GPU two lines above",
    ],
)
def test_it_is_told_or_not_and_nothing_raises(analyzed, text):
    assert analyzed({"job.log": text}).report.outcome in ("failure", "inconclusive")
