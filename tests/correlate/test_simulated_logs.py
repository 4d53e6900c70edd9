"""Over simulated jobs of which only the lines of watchdogs are left."""

import pytest

import judging
import simulate_logs
from ncclforensics.analysis import analyze

pytestmark = pytest.mark.usefixtures("trusted")

STYLES = {
    "named": {},
    "sites": {"stacks": True, "steps": "all"},
    "torch 2.4": {"version": "2.4"},
    "one console": {"one_stream": True},
}


def told(fault, folder, seed, **style):
    case = judging.played(fault, seed)
    simulate_logs.write(case, folder, simulate_logs.LogStyle(**style), seed)
    return case, analyze([str(folder)])


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
@pytest.mark.parametrize("fault", ["absent", "mismatch", "early"])
def test_class_and_culprits_that_lines_show(fault, style, tmp_path):
    case, found = told(fault, tmp_path, 31, **style)
    slug, ranks = judging.named(found)
    assert slug in case.classes
    assert set(ranks) == set(case.ranks)


@pytest.mark.parametrize("seed", [31, 32])
def test_a_place_that_a_watchdog_prints_shows_who_evaluates_alone(seed, tmp_path):
    case, found = told("extra", tmp_path, seed, stacks=True, steps="all")
    assert judging.named(found)[0] in case.classes


@pytest.mark.parametrize("fault", ["absent", "stall", "unmatched", "early", "order"])
def test_numbers_without_a_group_never_name_an_innocent(fault, tmp_path):
    case, found = told(fault, tmp_path, 33, version="2.1", steps="all")
    assert set(judging.sure(found)) <= set(case.ranks)


def test_the_job_stopped_when_the_first_call_began_to_wait(tmp_path):
    _, found = told("absent", tmp_path, 34)
    onset = found.report.onset
    assert 590 < onset.hidden_seconds < 610


def test_steps_of_a_job_at_work_are_well(tmp_path):
    _, found = told("healthy", tmp_path, 35, steps="all")
    assert found.ranked.outcome == "no-failure"
