"""Members of groups that no line lists, told by the numbers that ranks have in them."""

import polars as pl
import pytest

from ncclforensics.correlate.identity import group_members
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames


def seated(said, desc="TP", **call):
    """Return the members of each group; `said` has (group, seat, rank).

    `call` are columns of the call that all of them gave up.
    """
    rows = [
        {"rank": rank, "pg": pg, "pg_desc": desc, "pg_id": pg, "group_rank": seat}
        | call
        for pg, seat, rank in said
    ]
    ranks = [{"rank": rank} for rank in range(16)]
    frames = Frames({"ranks": tables.rows("ranks", ranks)})
    positions = tables.rows("positions", rows).with_columns(
        group=pl.col("pg") + f"|{desc}||?"
    )
    seen = positions.group_by("group", maintain_order=True).agg(members="rank")
    return dict(group_members.seated(frames, positions, seen).iter_rows())


WHOLE = [("1", seat, seat) for seat in range(4)]


def test_the_seat_between_two_others_is_whose_number_lies_between_theirs():
    told = seated([*WHOLE, ("2", 0, 4), ("2", 1, 5), ("2", 3, 7)])
    assert told["2|TP||?"] == [4, 5, 6, 7]


def test_a_group_is_as_large_as_its_sisters_and_steps_as_they_do():
    told = seated([("1", 0, 0), ("1", 1, 4), ("1", 2, 8), ("2", 1, 5)])
    assert told["2|TP||?"] == [1, 5, 9]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param([("2", 0, 4), ("2", 1, 6)], id="another step"),
        pytest.param([("2", 0, 4), ("2", 0, 5)], id="two in one seat"),
        pytest.param([("2", 1, 3)], id="a rank of a sister"),
        pytest.param([("2", 0, 14), ("2", 1, 15)], id="ranks that the job lacks"),
    ],
)
def test_seats_that_do_not_fit_tell_nothing(more):
    seen = sorted(rank for pg, _, rank in more if pg == "2")
    assert sorted(seated([*WHOLE, *more])["2|TP||?"]) == seen


def test_blocks_of_ranks_are_laid_over_those_of_a_sister():
    sister = [("1", seat, seat + 4 * (seat // 4)) for seat in range(8)]
    told = seated([*sister, ("2", 1, 5), ("2", 4, 12), ("2", 7, 15)])
    assert told["2|TP||?"] == [4, 5, 6, 7, 12, 13, 14, 15]


def test_a_gap_of_one_in_a_block_is_the_rank_between():
    alone = [("1", seat, 2 + seat + 4 * (seat // 4)) for seat in range(8) if seat != 6]
    assert seated(alone, None)["1|None||?"] == [2, 3, 4, 5, 10, 11, 12, 13]


def test_whose_number_is_its_seat_has_all_below_it_in_its_group():
    assert seated([("1", 2, 2)])["1|TP||?"] == [0, 1, 2]


def test_one_seat_of_each_sister_leaves_one_stride():
    told = seated([(str(n), 1, 8 + n) for n in range(8)])
    assert told["3|TP||?"] == [3, 11]


HALVES = [("1", 0, 0), ("1", 1, 2), ("2", 0, 1), ("2", 1, 3)]


@pytest.mark.parametrize(
    ("sizes", "members"),
    [
        ({"op": "_REDUCE_SCATTER_BASE", "numel_in": 64, "numel_out": 16}, [0, 2, 4, 6]),
        ({"op": "_ALLGATHER_BASE", "numel_in": 16, "numel_out": 64}, [0, 2, 4, 6]),
        ({"op": "_ALLGATHER_BASE", "numel_in": 48, "numel_out": 64}, [0, 2]),
        ({"op": "ALLREDUCE", "numel_in": 64, "numel_out": 64}, [0, 2]),
    ],
    ids=["scatter", "gather", "uneven", "no gather"],
)
def test_the_sizes_of_a_gather_tell_how_many_members_there_are(sizes, members):
    assert seated(HALVES, **sizes)["1|TP||?"] == members


@pytest.mark.parametrize(
    "said",
    [
        pytest.param([("1", 0, 2), ("1", 1, 3), ("1", 3, 9)], id="the gap is wider"),
        pytest.param([("1", 1, 5), ("2", 1, 9)], id="several strides fit"),
        pytest.param([("1", 0, 5), ("1", 2, 6)], id="no room between"),
    ],
)
def test_what_fits_in_several_ways_tells_nothing(said):
    seen = sorted(rank for pg, _, rank in said if pg == "1")
    assert sorted(seated(said)["1|TP||?"]) == seen
