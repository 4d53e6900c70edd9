"""An all_to_all whose two sides do not add up, by all tensors of all members."""

import pytest

from ncclforensics.diagnosers import shape_mismatch, stuck_in_collective
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames


def frames(sizes, op="all_to_all", members=2, absent=(), before=None, lost=0):
    """Return a call that all members but `absent` wait in; (in, out) sizes by rank.

    `before` are those of a call that all members have finished, and `lost` is how many
    calls had left the ring.
    """
    came = [rank for rank in range(members) if rank not in absent]
    where = {"pg": "4", "pg_desc": "EP", "seq": 7, "op": op, "is_p2p": False}
    call = {"call": 0, "group": "4|EP|", "members": list(range(members)), **where}
    states = {"waiting": came, "absent": list(absent)}
    empty = {name: [] for name in ("behind", "done", "unseen", "unstarted")}
    made = [
        {
            "rank": rank,
            "source": f"dump_{rank}",
            "line": 1,
            "record_id": lost + (seq - 6 if before else 0),
            "in_sizes": told[rank][0],
            "out_sizes": told[rank][1],
            "in_dtypes": ["Float"],
            "out_dtypes": ["Float"],
            "state": "scheduled" if seq == 7 else "completed",
            "retired": seq < 7,
            **where,
            "seq": seq,
        }
        for seq, told in ((7, sizes), (6, before or {}))
        for rank in came
        if rank in told
    ]
    named = [{"rank": rank, "pg": "4", "pg_desc": "EP"} for rank in came]
    return Frames(
        {
            "calls": tables.rows("calls", [{**call, **states, **empty}]),
            "collectives": tables.rows("collectives", made),
            "group_names": tables.rows(
                "group_names", [{**name, "group": call["group"]} for name in named]
            ),
        }
    )


def slugs(told):
    return [finding.slug for finding in told]


UNEVEN = {0: ([[3, 2]], [[5, 2]]), 1: ([[9, 2]], [[7, 2]])}
WRONG = {0: ([[3, 2]], [[5, 2]]), 1: ([[9, 2]], [[8, 2]])}
LISTS = {0: ([[3], [4]], [[3], [1]]), 1: ([[1], [2]], [[4], [2]])}


@pytest.mark.parametrize("op", ["all_to_all", "all_to_all_single", "ALLTOALL_BASE"])
def test_elements_that_are_sent_and_not_expected(op):
    (found,) = shape_mismatch.diagnose(frames(WRONG, op))
    assert found.slug == "shape-mismatch"
    assert found.ranks == ()
    assert "24 elements and expect 26" in found.explanation
    assert not slugs(stuck_in_collective.diagnose(frames(WRONG, op)))


@pytest.mark.parametrize("sizes", [UNEVEN, LISTS], ids=["tensor", "list"])
def test_uneven_in_health(sizes):
    assert not slugs(shape_mismatch.diagnose(frames(sizes)))
    assert slugs(stuck_in_collective.diagnose(frames(sizes))) == ["stuck-in-collective"]


@pytest.mark.parametrize(
    ("before", "named"),
    [(UNEVEN, True), (WRONG, False), ({0: WRONG[0]}, False)],
    ids=["added up", "did not", "of one member alone"],
)
def test_sums_tell_nothing_where_they_differed_in_a_call_that_ended(before, named):
    found = list(shape_mismatch.diagnose(frames(WRONG, before=before)))
    assert bool(found) == named


def test_sums_tell_nothing_where_earlier_calls_are_lost():
    assert not slugs(shape_mismatch.diagnose(frames(WRONG, lost=1)))
    assert slugs(shape_mismatch.diagnose(frames(WRONG, before=UNEVEN, lost=1)))


def test_a_member_that_did_not_come_leaves_the_sum_open():
    assert not slugs(shape_mismatch.diagnose(frames(WRONG, absent=(1,))))


def test_other_operations_need_not_add_up():
    same = {0: ([[2]], [[4]]), 1: ([[2]], [[4]])}
    assert not slugs(shape_mismatch.diagnose(frames(same, "_all_gather_base")))


def test_who_expects_more_than_all_others():
    three = {rank: ([[2]], [[6]]) for rank in range(3)} | {1: ([[2]], [[8]])}
    (found,) = shape_mismatch.diagnose(frames(three, "_all_gather_base", 3))
    assert found.ranks == (1,)


@pytest.mark.parametrize(("op", "odd"), [("all_gather", [(1,)]), ("all_to_all", [])])
def test_of_the_operations_that_gather_all_gather_is_even_in_one_call(op, odd):
    three = {rank: ([[2]], [[2]]) for rank in range(3)} | {1: ([[4]], [[4]])}
    found = shape_mismatch.diagnose(frames(three, op, 3))
    assert [told.ranks for told in found] == odd
