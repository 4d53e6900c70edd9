"""Who is given more to do is not slow."""

import polars as pl
import pytest

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.theory import uneven_load


def frames(tokens, calls=8):
    """Return frames of ranks that each receive so many tokens in a call."""
    rows = [
        {"rank": rank, "op": "all_to_all", "out_sizes": [[many, 2048]]}
        for rank, many in enumerate(tokens)
        for _ in range(calls)
    ]
    rows += [
        {"rank": rank, "op": "all_reduce", "out_sizes": [[4096 * (1 + rank)]]}
        for rank in range(len(tokens))
    ]
    return Frames({"collectives": tables.conform("collectives", pl.DataFrame(rows))})


@pytest.mark.parametrize(("share", "explained"), [(0.3, True), (0.6, False)])
def test_a_rank_works_longer_by_what_it_receives_more(share, explained):
    told = frames([100, 100, 150, 100])
    assert uneven_load.explains(told, (2,), share) is explained
    assert not uneven_load.explains(told, (1,), share)
    assert not uneven_load.explains(told, (1, 2), share)


def test_calls_that_are_as_large_on_all_ranks_explain_nothing():
    assert not uneven_load.explains(frames([100] * 4), (2,), 0.1)
    assert not uneven_load.explains(frames([]), (2,), 0.1)
