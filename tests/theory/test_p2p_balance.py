"""Whose half of a message is missing: both post as many between common collectives."""

import pytest
from standstills import case

from ncclforensics.theory.p2p_balance import shortages


def short(mine, theirs, rank=0):
    """Whether rank 0 is short of the first message that holds rank 1 up."""
    made = case([mine, theirs])
    (end, *_) = made.ends
    return shortages(made, end, (rank,))


BEFORE = "><a><p" * 4, "<>a<>p" * 4


def halves(mine, theirs):
    return short(BEFORE[0] + mine, BEFORE[1] + theirs)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [("|p", "|<p"), (">|p", "<|>p"), ("|<p", "|<>p"), ("|pa", "|<pa")],
)
def test_who_made_the_collective_behind_it_with_a_half_less_left_it_out(mine, theirs):
    assert True in halves(mine, theirs)


def test_who_has_made_no_collective_behind_it_may_still_come():
    assert True not in halves("a|", "|<p")


def test_who_alone_made_the_next_collective_of_both_left_its_half_out():
    assert halves("|p", "|<") == [True]


def test_another_call_of_that_group_may_come_before_it():
    assert halves("|X", "|<") == [None]


def test_where_halves_stand_on_both_sides_of_a_collective_it_may_still_come():
    """One side posts its half before the collective, the other one behind it."""
    assert True not in short("p>" * 4 + "|p", "<p" * 4 + "|<")


def test_of_an_order_that_both_sides_keep_nobody_is_short():
    """Each sends before it receives."""
    assert True not in short("><" * 4 + "|>", "<>" * 4 + "|>")
