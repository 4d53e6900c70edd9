"""Whom to look at first: in order, with a reason each."""

from standstills import STEP, all_but, frames

from ncclforensics.model.findings import MOST_SUSPECTS
from ncclforensics.theory.suspects import awaited, suspects

HISTORY = STEP * 16
WAITS = f"{HISTORY}abcdp|W"


def listed(programs, **more):
    return suspects(frames(programs, **more))


def test_who_is_blamed_comes_first_with_the_reason():
    programs = [WAITS, WAITS, f"{HISTORY}abc", f"{HISTORY}abcd|p"]
    first, *others = listed(programs, hosts=["a", "a", "b", "b"])
    assert (first.rank, first.host) == (2, "b")
    assert first.why == "3 ranks wait for it; it waits for nobody"
    assert 0.9 < first.weight <= 1.0
    assert all(other.weight < 0.1 for other in others)


def test_of_whom_nothing_was_collected_that_is_said():
    (first, *_) = listed(all_but("", WAITS), unseen=[2])
    assert first.rank == 2
    assert "nothing of it was collected" in first.why


def test_they_are_in_the_order_of_their_weights():
    found = listed(["|W", "|W", "|q", "|p"])
    assert [s.weight for s in found] == sorted((s.weight for s in found), reverse=True)


def test_at_most_eight_are_told():
    many = [f"{HISTORY}abc", f"{HISTORY}abcd|p"] * 12
    hosts = [*["gone", "waits"] * 12, "others", "others"]
    found = listed([*many, WAITS, WAITS], hosts=hosts)
    assert len(found) == MOST_SUSPECTS == 8
    assert {s.rank % 2 for s in found} == {0}


def test_nobody_is_suspect_where_all_wait_in_one_call_or_nobody_waits():
    assert listed([WAITS] * 4) == ()
    assert listed([HISTORY] * 4) == ()


def test_where_each_story_is_unlikely_those_that_are_waited_for_are_told():
    """Of two in one reduce, each may wait for the other; the rest is behind them."""
    before = HISTORY.replace("W", "Z")
    programs = [f"{before}abcdpZ|W"] * 6
    programs[2] = programs[5] = f"{before}abcdp|ZW"
    assert listed(programs) == ()
    found = awaited(frames(programs))
    assert [suspect.rank for suspect in found] == [2, 5]
    assert all("its GPU is stuck" in suspect.why for suspect in found)
