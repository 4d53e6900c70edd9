"""Who still waits when a story lets some ranks go on, or a call end."""

import pytest

from ncclforensics.correlate.waits import wait_graph
from ncclforensics.model import tables
from ncclforensics.theory.replay import still_waiting

STATES = ("behind", "done", "absent", "unseen", "unstarted")


def graph(*calls):
    """Lay out calls given as (waiting, {state: ranks}), numbered in order."""
    return wait_graph.graph(
        tables.rows(
            "calls",
            [
                {"call": number, "is_p2p": False, "waiting": waiting}
                | {state: told.get(state, []) for state in STATES}
                for number, (waiting, told) in enumerate(calls)
            ],
        )
    )


CHAIN = graph(([0], {"absent": [1]}), ([1], {"absent": [2]}), ([2, 3], {"absent": [4]}))
CIRCLE = graph(([0], {"absent": [1]}), ([1], {"absent": [0]}), ([2], {"absent": [0]}))


def test_who_hangs_on_a_chain_goes_on_with_its_end():
    assert still_waiting(CHAIN, []) == {0, 1, 2, 3}
    assert still_waiting(CHAIN, [4]) == set()


@pytest.mark.parametrize(("freed", "left"), [(1, {1, 2, 3}), (2, {2, 3}), (9, None)])
def test_who_is_freed_in_the_middle_frees_only_those_behind(freed, left):
    found = still_waiting(CHAIN, [freed])
    assert found == ({0, 1, 2, 3} if left is None else left - {freed})


@pytest.mark.parametrize("freed", [0, 1])
def test_a_circle_comes_apart_at_any_of_its_ranks(freed):
    assert still_waiting(CIRCLE, [freed]) == set()
    assert still_waiting(CIRCLE, [2]) == {0, 1}


def test_a_call_that_is_let_end_frees_who_waits_in_it():
    assert still_waiting(CIRCLE, [], ends=[0]) == set()
    full = graph(([0, 1], {}), ([2], {"behind": [0]}))
    assert still_waiting(full, [], ends=[0]) == set()


def test_unseen_ranks_are_held_against_no_story():
    told = graph(([0, 1], {"absent": [2], "unseen": [3]}))
    assert still_waiting(told, [2]) == set()
    assert still_waiting(told, [3]) == {0, 1}


def test_who_waits_in_two_calls_needs_both():
    told = graph(([0], {"absent": [1]}), ([0], {"absent": [2]}))
    assert still_waiting(told, [1]) == {0}
    assert still_waiting(told, [1, 2]) == set()
