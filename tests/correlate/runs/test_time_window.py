"""A span of time: failures outside of it are left out, and nothing else is."""

import pytest

from ncclforensics.analysis import analyze
from ncclforensics.model.span import Span

DAY = 86_400 * 1_000_000_000
SECOND_OF_MARCH = 1_772_409_600_000_000_000
KERNEL = (
    "2026-03-0{day}T04:00:00.000000+00:00 {host} kernel: [ 12.5] NVRM: Xid "
    "(PCI:0000:1b:00): 79, pid=1234, name=python, GPU has fallen off the bus.\n"
)


@pytest.fixture
def weeks(tmp_path):
    """Two kernel logs in one file: gpu0001 lost a GPU a day before gpu0002 did."""
    told = KERNEL.format(day=1, host="gpu0001") + KERNEL.format(day=2, host="gpu0002")
    (tmp_path / "kern.log").write_text(told)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("span", "host"),
    [
        (Span(since=SECOND_OF_MARCH), "gpu0002"),
        (Span(until=SECOND_OF_MARCH), "gpu0001"),
        (Span(SECOND_OF_MARCH - DAY, SECOND_OF_MARCH), "gpu0001"),
    ],
)
def test_the_failure_of_the_time_asked_for_is_named(weeks, span, host):
    report = analyze([weeks], span=span).report
    assert report.verdict.culprits.hosts == (host,)
    notes = [note.text for note in report.notes]
    assert "left out as asked: lines on failures at other times (1)" in notes


def test_nothing_failed_at_another_time(weeks):
    report = analyze([weeks], span=Span(since=SECOND_OF_MARCH + DAY)).report
    assert report.outcome != "failure"


def test_dumps_of_another_time_are_left_out_and_those_of_this_time_stay(jobs):
    evidence = str(jobs / "torch-chain" / "evidence")
    whole = analyze([evidence])
    late = analyze([evidence], span=Span(since=SECOND_OF_MARCH + 365 * DAY))
    assert late.report.outcome != "failure"
    assert late.frames["calls"].is_empty()
    assert any("dumps of other times" in note.text for note in late.report.notes)
    during = whole.frames["calls"]["t"].dt.epoch("ns").max()
    same = analyze([evidence], span=Span(during - DAY, during + DAY)).report
    assert same.verdict == whole.report.verdict


def test_a_rank_that_is_behind_is_not_parted_from_the_others(jobs):
    evidence = str(jobs / "torch-missing-rank" / "evidence")
    whole = analyze([evidence])
    last = whole.frames["calls"]["t"].dt.epoch("ns").max()
    asked = analyze([evidence], span=Span(since=last - 10**9)).report
    assert asked.verdict.culprits == whole.report.verdict.culprits
