"""The ends of the wait-for graph, and what hangs on each."""

import pytest
from standstills import STEP, all_but, case

from ncclforensics.model import tables
from ncclforensics.theory import sides
from ncclforensics.theory.case import Case

HISTORY = STEP * 16
WAITS = f"{HISTORY}abcdp|W"


def ends(programs, **more):
    return [(end.kind, end.ranks) for end in case(programs, **more).ends]


def test_one_that_did_not_come_and_waits_for_nobody_is_absent():
    (end,) = case([WAITS, WAITS, f"{HISTORY}abc", f"{HISTORY}abcd|p"]).ends
    assert (end.kind, end.ranks, end.unseen) == ("absent", (2,), ())
    assert end.blocked == {0, 1, 3}


def test_one_of_whom_nothing_is_known_is_unseen():
    (end,) = case(all_but("", WAITS), unseen=[2]).ends
    assert (end.kind, end.ranks, end.blocked) == ("unseen", (2,), {0, 1, 3})


def test_a_call_that_all_came_to_is_full():
    assert ends([WAITS] * 4) == [("full", (0, 1, 2, 3))]


def test_whose_call_the_others_finished_is_stalled():
    found = case([f"{HISTORY}abcdpW|a"] * 2 + [f"{HISTORY}abcdp|Wab"]).ends
    assert ("stalled", (2,)) in [(end.kind, end.ranks) for end in found]


def test_who_has_not_begun_what_others_have_is_unstarted():
    begun = {0: "started", 1: "started", 3: "started"}
    assert ends([WAITS] * 4, states=begun) == [("unstarted", (2,))]


CIRCLE = [WAITS, WAITS, f"{HISTORY}abcd|W", f"{HISTORY}abcd|p"]


def test_ranks_that_wait_for_each_other_are_a_circle_and_the_rest_hangs_on_it():
    (end,) = case(CIRCLE).ends
    assert (end.kind, end.ranks, end.unseen) == ("circle", (2, 3), ())
    assert end.blocked == {0, 1, 2, 3}


def test_a_circle_that_also_waits_for_an_unseen_rank_is_an_end_that_tells_of_it():
    (end,) = case([*CIRCLE, WAITS, ""], unseen=[5]).ends
    assert (end.kind, end.ranks, end.unseen) == ("circle", (2, 3), (5,))


@pytest.mark.parametrize("seen", [True, False])
def test_what_the_most_ranks_hang_on_comes_first(seen):
    """Ranks 4 and 5 are a pair of their own, of which 4 does not come."""
    alone = [f"{HISTORY}abcdpW|", f"{HISTORY}abcdpWabcd|p"]
    others = [f"{HISTORY}abcdpWabcdp|W"] * 4
    found = case([*others, *alone], unseen=[] if seen else [4]).ends
    assert len(found[0].blocked) == max(len(end.blocked) for end in found)
    assert all(4 in end.ranks for end in found)


def test_a_host_or_a_pair_that_failed_as_a_whole_counts_as_one():
    found = case([WAITS] * 6, hosts=["x", "x", "x", "y", "y", "y"])
    assert found.units.of([0, 1, 2]) == (1, 2)
    assert found.units.of([2, 3]) == (1, 1)  # a pair
    assert found.units.of([0, 3]) == (2, 0)
    assert found.units.of([0]) == (1, 0)


def test_a_host_of_which_few_ranks_were_spared_failed_with_exceptions():
    found = case([WAITS] * 8, hosts=[*"xxxxyyyy"])
    assert found.units.of([4, 5, 7]) == (2, 2)
    assert found.units.of([4, 6]) == (2, 0)  # half of it: two ranks
    assert found.units.of([0, 4, 5, 6]) == (3, 2)


@pytest.mark.parametrize(
    ("hosts", "whole"), [("xxxyyyzz", True), ("xxyyyyzz", False), ("xxxyyyz.", True)]
)
def test_a_host_known_in_part_is_whole_where_the_others_are_equal_blocks(hosts, whole):
    """Nothing shows rank 8, and launchers number ranks host by host."""
    known = [None if host == "." else host for host in hosts]
    found = case([WAITS] * 8, unseen=[8], hosts=[*known, None])
    assert found.units.of([6, 7, 8]) == ((1, 2) if whole else (2, 1))


def test_the_only_known_host_is_whole_where_the_other_ranks_make_up_its_like():
    found = case([WAITS] * 8, hosts=[None] * 4 + ["y"] * 4)
    assert found.units.of([4, 5, 6, 7]) == found.units.of([0, 1, 2, 3]) == (1, 3)


@pytest.mark.parametrize(
    ("ranks", "first"),
    [
        *(((0,), True), ((0, 4), True), ((0, 2, 4, 6), True)),
        *(((4,), False), ((0, 1), False), ((1, 5), False), ((0, 3), False)),
    ],
)
def test_the_first_rank_of_all_or_of_each_team(ranks, first):
    found = case([WAITS] * 8)
    assert sides.are_first(found, found.ends[0], ranks) is first


def test_dumps_of_open_calls_alone_are_no_history():
    found = case(["|W"] * 4)
    assert found.shows_open_calls_only
    assert [found.deviation(rank) for rank in range(4)] == [None] * 4
    assert not case([WAITS] * 4).shows_open_calls_only


def test_where_no_host_is_known_a_block_of_ranks_may_be_one():
    found = case([WAITS] * 16, hosts=None)
    assert found.units.of([8, 9, 10, 11]) == (1, 3)
    assert found.units.of([8, 9, 10, 11], guess=False) == (2, 2)  # two pairs
    assert found.units.of([9, 10, 11, 12])[0] > 1
    assert found.units.of(range(8))[0] > 1  # half of the job
    assert case([WAITS] * 12, hosts=None).units.of([4, 5, 6, 7]) == (1, 3)


def test_ranks_with_one_place_in_each_group_of_a_kind_count_as_one():
    """As where only the first rank of each group does something."""
    found = case([WAITS] * 8)
    assert found.units.of([0, 2, 4, 6]) == (2, 3)
    assert found.units.of([1, 3, 5, 7]) == (2, 3)
    assert found.units.of([0, 2, 4, 7]) == (4, 0)
    assert found.units.of([0, 2, 4, 6], guess=False) == (4, 0)


def test_of_two_groups_any_two_ranks_would_be_such_a_place():
    assert case([WAITS] * 4).units.of([0, 2]) == (2, 0)


def test_a_rank_that_is_known_not_to_have_made_a_call_is_not_unseen():
    """Of one pair's message rank 2's ring shows nothing, but of the call of all it does."""
    found = case([WAITS, WAITS, f"{HISTORY}abc", f"{HISTORY}abcd|p"])
    call = next(c for c in found.calls.values() if c["waiting"] == [3])
    call["absent"], call["unseen"] = [], [2]
    rows = [{**c} for c in found.calls.values()]
    again = Case(found.frames.adding(calls=tables.rows("calls", rows)))
    (end,) = again.ends
    assert (end.kind, end.ranks) == ("absent", (2,))
