"""A delay that lasts through a row of calls is told from work that is slow in each."""

import random

import polars as pl
import pytest

from ncclforensics.correlate.timing import own_time

WORK = (0.08, 0.05, 0.06)  # seconds before each call of a step
READ = 0.02  # seconds after its last one, whose result the host reads


def job(holds, backend="nccl"):
    """Four ranks in 40 steps; rank 3 is late by as much as changes from step to step.

    Either each call holds its ranks until all have come, and rank 3 works longer before
    each; or the last call of a step alone, and rank 3 is late to the first.
    """
    chance, rows = random.Random(1), []
    free = [0.0] * 4
    for step in range(40):
        for place, work in enumerate(WORK):
            slow = work * chance.uniform(0.1, 0.5)
            if not holds:
                slow = chance.uniform(0.002, 0.02) if place == 0 else 0.0
            took = [work * chance.uniform(1, 1.02) + slow * (r == 3) for r in range(4)]
            made = [at + more for at, more in zip(free, took, strict=True)]
            waits = holds or place == len(WORK) - 1
            free = [max(made) + READ * (place == 2) if waits else at for at in made]
            rows += [
                {"rank": rank, "made": at, "meets": 3 * step + place, "turn": place}
                for rank, at in enumerate(made)
            ]
    told = {"group": "0", "backend": backend, "op": "all_reduce", "is_p2p": False}
    return pl.DataFrame([row | told for row in rows]).sort("rank", "meets")


@pytest.mark.parametrize(
    ("holds", "backend", "blocking"),
    [
        (True, "nccl", {0, 1, 2}),
        (False, "nccl", {2}),  # the others hand over one call after the other
        (True, "gloo", {0, 1, 2}),
    ],
)
def test_calls_hold_who_is_not_late_again_at_the_next_one(holds, backend, blocking):
    told = own_time._untimed(job(holds, backend))
    assert {*told.filter("blocks")["turn"]} == blocking


def test_a_kind_that_seems_to_hold_its_ranks_follows_its_group():
    told = pl.DataFrame(
        {"kind": [0, 1, 2], "group": "0", "backend": "nccl", "many": [40, 160, 40]}
        | {"own": [0.001, 0.0002, 0.001], "carried": [1.0, 0.1, 1.0]}
    )
    assert own_time._staying(told)["stays"].all()
    assert not own_time._staying(told.with_columns(carried=0.1))["stays"].any()


def pairs(label):
    """Four ranks in 40 steps of two equal calls and another one, with GPU times.

    Rank 3 comes late to the first of the pair; the second begins at once.
    """
    chance, rows = random.Random(1), []
    for step in range(40):
        first, second = chance.uniform(0.02, 0.1), chance.uniform(0.0, 0.02)
        for rank in range(4):
            waits = (rank < 3) * first, (rank < 3) * second, 0.002 * rank
            for place, wait in enumerate(waits):
                call = 3 * step + place
                rows.append(
                    {"rank": rank, "meets": call, "place": call, "group": "0"}
                    | {"turn": label + (place == 2), "took": 0.01 + wait}
                    | {"made": step + place / 100}
                )
    return pl.DataFrame(rows).sort("rank", "place")


@pytest.mark.parametrize("label", range(0, 160, 10))
def test_a_pair_of_equal_calls_is_a_row_whichever_is_read_first(label):
    told = own_time._timed(pairs(label))
    ends = told.filter(pl.col("turn") == label)["blocks"]
    assert not ends.any()
