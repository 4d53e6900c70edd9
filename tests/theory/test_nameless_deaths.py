"""A death of an unknown rank is that of the only rank without a dump that is awaited."""

import pytest
from standstills import STEP, all_but, frames

from ncclforensics.analysis import conclude
from ncclforensics.model import tables
from ncclforensics.theory.weigh import weighed

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


def test_a_fault_of_a_rank_that_others_miss_explains_their_wait():
    """Its agent ended the others of its node, and lists it alone."""
    told = died([WAITS, WAITS, WAITS, HISTORY], unseen=(3,), code=FAULT)
    assert told.story.what == "died"
    assert (told.story.ranks, told.confidence) == ((3,), "likely")


@pytest.mark.parametrize("code", [-15, 1])
def test_an_end_that_its_launcher_or_its_watchdog_caused_does_not(code):
    """The look-alike."""
    assert died([WAITS, WAITS, WAITS, HISTORY], unseen=(3,), code=code) is None


def died(programs, unseen, code):
    """The result of a case in which the last rank is known to have ended with a code."""
    found = frames(programs, unseen=unseen, stands=False)
    rank = len(programs) - 1
    end = {"rank": rank, "code": code, "reported_by": "torchelastic"}
    ends = tables.rows("exits", [end | {"source": "agent.log", "line": 1}])
    told = weighed(found.adding(exits=ends)).ends
    return next((one for one in told if one.story.what == "died"), None)
