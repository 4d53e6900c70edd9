"""A death of an unknown rank is that of the only rank without a dump that is awaited."""

import pytest
from standstills import STEP, all_but, frames

from ncclforensics.analysis import conclude

HISTORY = STEP * 16
WAITS = f"{HISTORY}abcdp|W"
FAULT = -11


def verdict(programs, **more):
    found = conclude(frames(programs, code=FAULT, **more))[0].verdict
    return found and (found.slug, found.ranks, found.confidence)


def test_the_rank_without_a_dump_that_all_wait_for_is_the_one_that_died():
    told = verdict([WAITS] * 4, unseen=(2,))
    assert told == ("crashed-rank", (2,), "likely")


def test_where_two_left_nothing_either_may_have_died():
    slug, ranks, _ = verdict([WAITS] * 4, unseen=(1, 2))
    assert (slug, ranks) == ("crashed-rank", ())


def test_a_rank_that_wrote_its_dump_is_not_taken_for_the_dead_one():
    """The look-alike: they wait for rank 2, which was alive when the others were."""
    slug, ranks, _ = verdict(all_but(HISTORY, WAITS))
    assert (slug, ranks) == ("crashed-rank", ())


LOST = {"unseen": (4, 5, 6, 7), "hosts": [*"aaaabbbb"]}


def test_of_a_host_that_its_agent_ended_the_local_rank_tells_which_failed():
    told = verdict([WAITS] * 8, **LOST, local_rank=2)
    assert told == ("crashed-rank", (6,), "likely")


@pytest.mark.parametrize("local", [None, 5])
def test_without_one_that_the_host_has_no_rank_of_it_is_named_for_the_death(local):
    assert verdict([WAITS] * 8, **LOST, local_rank=local)[0] != "crashed-rank"
