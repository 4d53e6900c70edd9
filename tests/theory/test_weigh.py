"""What is told of a standstill: the cheapest story, and by how much it is cheaper."""

import pytest
from standstills import STEP, all_but, case, frames, named, told

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.theory import story, weights
from ncclforensics.theory.ends import End
from ncclforensics.theory.story import Story
from ncclforensics.theory.weigh import Told, Weighed, weighed

HISTORY = STEP * 16
WAITS = f"{HISTORY}abcdp|W"
ABSENT = [WAITS, WAITS, f"{HISTORY}abc", f"{HISTORY}abcd|p"]


def test_the_margin_is_to_the_cheapest_story_of_somebody_else():
    (end,) = weighed(frames(ABSENT)).ends
    others = [s for s in end.rivals if {*s.ranks} != {*end.story.ranks}]
    assert end.margin == min(s.cost for s in others) - end.story.cost
    assert end.story.cost == min(s.cost for s in (end.story, *end.rivals))


def test_stories_of_the_same_ranks_are_no_rivals_of_a_verdict():
    """Skipped it, or swapped it: it was rank 2 in any case, but the class is open."""
    programs = [WAITS, WAITS, f"{HISTORY}abcd|W", f"{HISTORY}abcd|p"]
    (end,) = weighed(frames(programs)).ends
    close = [s for s in end.rivals if s.cost - end.story.cost < weights.LIKELY]
    assert {s.ranks for s in close} == {(2,)}
    assert end.margin >= weights.CERTAIN
    assert end.confidence == "likely"


@pytest.mark.parametrize(("stands", "sure"), [(True, "certain"), (False, "possible")])
def test_without_proof_that_it_stands_nothing_is_more_than_possible(stands, sure):
    assert told(ABSENT, stands=stands) == [("missing-rank", (2,), sure)]


def test_several_gpus_that_have_not_begun_are_of_a_job_that_runs():
    """One may be held by what no dump shows; several would each be, at one moment."""

    def runs(*held, stands=False):
        begun = dict.fromkeys({*range(8)}.difference(held), "started")
        return weighed(frames([WAITS] * 8, states=begun, stands=stands)).runs

    assert runs(1, 2, 3, 4, 5, 6, 7)
    assert not runs(5)
    assert not runs(1, 2, 3, 4, 5, 6, 7, stands=True)


def test_a_job_whose_ranks_wait_for_each_other_in_collectives_does_not_run():
    """In one that runs, all enter their groups in one order."""
    crossed = [f"{HISTORY}abcd|W", f"{HISTORY}abcd|p", WAITS, WAITS]
    for programs, may_run in ((crossed, False), (ABSENT, True)):
        (end,) = weighed(frames(programs, stands=False)).ends
        stories = {s.what for s in (end.story, *end.rivals)}
        assert ("running" in stories) is may_run


@pytest.mark.parametrize(
    ("sure", "named"),
    [
        (("certain", "likely", "possible"), [(0, "likely"), (1, "likely")]),
        (("certain", "certain"), [(0, "certain"), (1, "certain")]),
        (("possible", "likely"), [(0, "possible")]),
        (("certain", None), [(0, "certain")]),
    ],
)
def test_several_ends_are_named_together_and_only_as_surely_as_the_least(sure, named):
    ends = [
        Told(End("absent", (rank,), ()), Story("missing-rank", (rank,)), 9.0, how)
        for rank, how in enumerate(sure)
    ]
    found = Weighed(tuple(ends)).together("missing-rank")
    assert [(t.story.ranks[0], t.confidence) for t in found] == named


@pytest.mark.parametrize(("rank", "blamed"), [(0, [("missing-rank", (1,))]), (1, [])])
def test_absent_ranks_that_timed_out_wait_for_what_is_not_recorded(rank, blamed):
    """As in a message that only its watchdog's line tells of."""
    found = frames([f"{HISTORY}abcd|p", f"{HISTORY}abc"])
    line = {"message": "c10d.watchdog.timeout", "rank": rank, "source": "x", "line": 1}
    lines = {"c10d.watchdog.timeout": tables.rows("events", [line])}
    ends = weighed(Frames(found.tables, lines)).ends
    assert [(e.story.slug, e.story.ranks) for e in ends if e.confidence] == blamed


def test_a_lost_rank_is_never_more_than_possible():
    found = told(all_but("", WAITS), unseen=[2])
    assert found == [("crashed-rank", (2,), "possible")]


def test_behind_a_rank_of_whom_nothing_is_known_nobody_else_is_certain():
    """Of 64 ranks 45 is unseen, and 63 wait for it, or for those who do."""
    for last in ("abcdp|W", "abcd|p"):
        programs = [WAITS] * 64
        programs[44] = HISTORY + last
        found = told(programs, unseen=[45])
        assert all(ranks == (45,) or sure != "certain" for _, ranks, sure in found)
        assert not [ranks for _, ranks, sure in found if sure and 45 not in ranks]


def test_nothing_is_told_of_a_job_that_is_proved_to_go_on():
    """A call had ended in the tenth of a second before, which nobody had retired."""
    running = [f"{HISTORY}abcdp|W"] * 3 + [f"{HISTORY}abc"]
    assert told(running, stands=False, fresh=[0])[:1] == []
    assert told(running, stands=True, fresh=[0]) != []


def test_many_ends_at_once_are_those_of_a_job_that_runs_or_of_one_failure():
    """One story explains a job in full run, and several failures are several."""
    late = [*["abc|p", "abc"] * 3, "abcp|W", "abcp|W"]
    one = ["abc|p", "abc", *["abcp|W"] * 6]
    assert named(late, stands=True) != []
    assert named(late, stands=False) == []
    assert named(one, stands=False) == [("missing-rank", (1,))]
    host = ["b" if rank in (1, 3, 5) else "a" for rank in range(8)]
    found = named(late, stands=False, hosts=host)
    assert sorted(r for _, ranks in found for r in ranks) == [1, 3, 5]


def test_ranks_that_nothing_holds_do_not_stay_between_two_calls():
    """Others would have run on until a call held them: so no failure lasts."""
    free = ["abc|p", "abc", *["abcp"] * 6]
    held = ["abc|p", "abc", *["abcp|W"] * 6]
    assert weighed(case(free, stands=False).frames).runs
    assert not weighed(case(held, stands=False).frames).runs
    assert not weighed(case(free, stands=True).frames).runs


def test_more_culprits_cost_more_and_those_of_one_host_hardly():
    hosts = ["x", "x", "y", "y", "z", "z"]
    made = case([WAITS] * 6, hosts=hosts)

    def cost(*ranks):
        return story.Story("", ranks, costs=story.culprits(made, ranks)).cost

    assert cost(0) == 0.0
    assert cost(0, 2) == weights.bits("culprit")
    assert cost(0, 2, 5) == weights.bits("culprit", 2)
    assert 0.0 < cost(2, 3) == weights.bits("kin") < cost(0, 2)
    assert cost(0, 2, 3) == weights.bits("culprit") + weights.bits("kin")


def test_two_sides_that_are_as_good_as_each_other_are_told_together_and_not_sure():
    found = told(["|W", "|W", "|Q", "|Q"])
    assert found == [("collective-mismatch", (0, 1, 2, 3), "possible")]


def test_each_weight_has_a_reason_and_no_cost_goes_by_another_name():
    assert all(bits > 0 and why for bits, why in weights.WEIGHTS.values())
    for programs in (ABSENT, [WAITS] * 4, ["|W", "|W", "|q", "|p"]):
        for end in weighed(frames(programs)).ends:
            for one in (end.story, *end.rivals):
                assert {name for name, _ in one.costs} <= weights.WEIGHTS.keys()


def test_the_order_of_ranks_changes_nothing():
    turned = [WAITS, WAITS, f"{HISTORY}abcd|p", f"{HISTORY}abc"]
    assert told(turned) == [("missing-rank", (3,), "certain")]


def test_an_unseen_rank_is_not_named_beside_a_cause_that_is_shown():
    """Rank 5 waits for rank 4, of which nothing is known, and all for rank 2."""
    alone = [f"{HISTORY}abcdpWabcdpW|"] * 4
    pair = ["", f"{HISTORY}abcd|p"]
    assert ("crashed-rank", (4,), "possible") in told([*alone, *pair], unseen=[4])
    found = told([*ABSENT, *pair], unseen=[4])
    assert ("missing-rank", (2,), "certain") in found
    assert not any(4 in ranks for _, ranks, sure in found if sure)


@pytest.mark.parametrize(
    ("more", "named"),
    [((2, 3), [("straggler", (2,), "likely")]), ((1, 3), [])],
)
def test_a_story_that_blames_more_ranks_contradicts_none_that_blames_fewer(
    monkeypatch, more, named
):
    """Rank 2 failed by both; of two that blame others, neither is told."""

    def propose(case, end):
        call = case.calls[end.calls[0]]
        yield Story("straggler", (2,), call, costs=(("straggler", 1.0),))
        yield Story("straggler", more, call, costs=(("straggler", 1.0), ("kin", 1.0)))
        yield Story("", (), what="elsewhere", costs=(("elsewhere", 1.0),))

    monkeypatch.setattr("ncclforensics.theory.explanations.propose", propose)
    assert [one for one in told([WAITS] * 4) if one[2]] == named


def test_most_ranks_of_a_role_are_not_blamed_for_what_their_group_does():
    """Five of six are in the group's call, and the sixth with all others of the job."""
    (end,) = weighed(frames(["|W"] * 5 + ["|Y"])).ends
    most = [s for s in (end.story, *end.rivals) if len(s.ranks) == 5]
    assert most
    assert all(("most", 1.0) in s.costs for s in most)
