"""Roots, chains and components of the wait graph, on calls made by hand."""

from collections import defaultdict

import pytest

from ncclforensics.correlate.waits import wait_graph
from ncclforensics.model import tables


def calls(*rows):
    """The frame of calls given as (waiting, {state: ranks}), numbered in order."""
    states = ("behind", "done", "absent", "unseen", "unstarted")
    return tables.rows(
        "calls",
        [
            {
                "call": number,
                "is_p2p": told.get("p2p", False),
                "waiting": waiting,
                **{state: told.get(state, []) for state in states},
            }
            for number, (waiting, told) in enumerate(rows)
        ],
    )


def roots(*rows):
    found = wait_graph.roots(calls(*rows))
    return {row["rank"]: (row["why"], row["blocked"]) for row in found.to_dicts()}


def test_a_chain_over_groups_ends_at_the_one_who_waits_for_nobody():
    chain = [([0], {"absent": [1]}), ([2], {"behind": [0]}), ([3], {"behind": [2]})]
    assert roots(*chain) == {1: ("absent", 3)}


def test_a_rank_whose_peers_finished_its_call_is_stalled():
    assert roots(
        ([1, 2], {"behind": [0]}),
        ([0], {"done": [1, 2]}),
    ) == {0: ("stalled", 2)}


def test_a_rank_whose_gpu_has_not_begun_what_others_have():
    assert roots(([0, 1, 2], {"unstarted": [2]})) == {2: ("unstarted", 2)}


def test_one_that_has_not_begun_because_it_waits_elsewhere_is_no_root():
    found = roots(([0, 1], {"behind": [2]}), ([2], {"absent": [3]}))
    assert found == {3: ("absent", 3)}


def test_an_unseen_rank_is_never_a_root():
    assert roots(([0, 1, 2], {"unseen": [3]})) == {}


def circles(rows):
    """The ranks that share a component, as each waits for the others."""
    component = wait_graph.components(wait_graph.graph(calls(*rows)))
    together = defaultdict(list)
    for rank, number in component.items():
        if rank >= 0:
            together[number].append(rank)
    return sorted(tuple(sorted(t)) for t in together.values() if len(t) > 1)


def test_a_circle_has_no_root_and_all_its_ranks():
    circle = [([0], {"absent": [1]}), ([1], {"absent": [0]}), ([2, 3], {"absent": [0]})]
    assert roots(*circle) == {}
    assert circles(circle) == [(0, 1)]


def test_a_circle_that_waits_for_somebody_else_ends_there():
    led_out = [([0], {"absent": [1]}), ([1], {"absent": [0, 5]})]
    assert roots(*led_out) == {5: ("absent", 2)}


def test_a_circle_that_waits_for_an_unseen_rank_may_hang_on_that_one():
    """The theory takes it for an end that tells of it: see tests/theory/test_case.py."""
    blind = [([0], {"absent": [1]}), ([1], {"absent": [0], "unseen": [5]})]
    assert roots(*blind) == {}


def test_two_circles_are_two():
    rows = [([2 * n + i], {"absent": [2 * n + 1 - i]}) for n in (0, 1) for i in (0, 1)]
    assert circles(rows) == [(0, 1), (2, 3)]


@pytest.mark.parametrize("length", [3, 5_000])
def test_a_long_circle_needs_no_recursion(length):
    rows = [([rank], {"absent": [(rank + 1) % length]}) for rank in range(length)]
    assert circles(rows) == [tuple(range(length))]


def test_the_call_where_most_wait_is_told_and_messages_only_without_one():
    found = wait_graph.roots(
        calls(
            ([1, 2, 3], {"absent": [0], "p2p": True}),
            ([4], {"absent": [0]}),
            ([5, 6], {"absent": [0]}),
        )
    )
    assert found["call"].to_list() == [2]
    assert found["blocked"].to_list() == [6]


def test_nothing_waits_in_no_calls():
    assert wait_graph.roots(tables.empty("calls")).is_empty()
