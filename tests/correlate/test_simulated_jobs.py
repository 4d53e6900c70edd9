"""Over many simulated jobs: the right ranks, and never an innocent one."""

import random

import pytest

import judging
from ncclforensics.theory import standstill, weights

pytestmark = pytest.mark.usefixtures("trusted")

SURE = [
    *("absent", "gil", "stall_timed", "mismatch", "shape", "order", "extra", "early"),
    *("unmatched", "late"),
]
STYLES = {
    "whole": {},
    "active": {"only_active": True, "frames": False},
    "ring": {"ring": 60},
    "json": {"json": True, "version": "2.9"},
    "clocks": {"skew_seconds": 2.0},
    "no status": {"version": "2.4"},
}


def wanted(case, ranks):
    """Whether these are the culprits: exactly, or a part of a circle with the one."""
    if "any_of" in case.told:
        return case.told["any_of"] <= set(ranks) <= set(case.ranks)
    return set(ranks) == set(case.ranks)


@pytest.mark.parametrize("seed", [11, 12])
@pytest.mark.parametrize("fault", SURE)
def test_class_and_culprits_of_a_whole_set_of_dumps(fault, seed, tmp_path):
    case, (slug, ranks) = judging.verdict(fault, tmp_path, seed)
    assert slug in case.classes
    assert wanted(case, ranks)


def test_who_came_to_no_collective_either_left_out_more_than_a_message(
    tmp_path, monkeypatch
):
    """Its dump is empty, and no history tells: the weights do not decide it alone."""
    monkeypatch.setitem(weights.WEIGHTS, "missing-rank", (4.0, "twice as rare"))
    case, (slug, ranks) = judging.verdict("gil", tmp_path, 0)
    assert (slug, set(ranks)) == ("gil-deadlock", set(case.ranks))


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
@pytest.mark.parametrize("fault", ["absent", "stall_timed", "mismatch", "early"])
def test_culprits_whatever_the_dumps_leave_out(fault, style, tmp_path):
    case, (slug, ranks) = judging.verdict(fault, tmp_path, 21, style)
    assert set(ranks) <= set(case.ranks)
    if style.get("ring") is None:  # what left the ring may have been the proof
        assert slug in case.classes
        assert set(ranks) == set(case.ranks)


@pytest.mark.parametrize("fault", ["absent", "mismatch", "early", "order"])
def test_64_ranks(fault, tmp_path):
    case, (slug, ranks) = judging.verdict(fault, tmp_path, 5, tp=4, pp=4, dp=4, ep=2)
    assert slug in case.classes
    assert wanted(case, ranks)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("fault", [*SURE, "stall", "stuck", "two_absent"])
def test_lost_dumps_weaken_a_verdict_and_never_move_it(fault, seed, tmp_path):
    dice = random.Random(seed)
    case = judging.played(fault, seed)
    lost = set(dice.sample(range(16), dice.choice([1, 2, 5, 10, 14])))
    if seed % 2 and case.ranks:
        lost |= set(case.ranks)
    style = dice.choice(list(STYLES.values()))
    found = judging.analysis(case, tmp_path, lost=frozenset(lost), **style)
    slug, ranks = judging.named(found)
    assert set(judging.sure(found)) <= set(case.ranks)
    # who left nothing and is waited for may be it, and no more than that
    assert set(ranks) <= {*case.ranks, *lost, *case.mute}
    assert found.ranked.outcome != "failure" or ranks or slug in case.classes


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("style", [{}, {"only_active": True}], ids=["whole", "active"])
@pytest.mark.parametrize("fault", ["healthy", "uneven"])
def test_nobody_is_accused_in_a_job_that_runs(fault, seed, style, tmp_path):
    _, (_, ranks) = judging.verdict(fault, tmp_path, seed, style)
    assert ranks == ()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("fault", ["healthy", "uneven"])
def test_where_times_of_files_are_lost_a_job_that_runs_is_no_more_than_possible(
    fault, seed, tmp_path
):
    case = judging.played(fault, seed)
    assert judging.sure(judging.analysis(case, tmp_path, lost_times=True)) == ()


def test_a_dump_is_as_old_as_the_timeout_that_it_was_written_behind(tmp_path):
    case = judging.played("absent", 1)
    found = judging.analysis(case, tmp_path)
    assert standstill.standing(found.frames).name == "written"


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
def test_nothing_failed_in_a_job_that_ended(style, tmp_path):
    case = judging.played("finished")
    assert judging.analysis(case, tmp_path, **style).ranked.outcome == "no-failure"
