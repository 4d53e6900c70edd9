"""A suspected rank is marked and reached, in other words than who is accused."""

import pytest
from msgspec.structs import replace as with_

from ncclforensics.report.contract import Suspect
from ncclforensics.report.timeline.build import build
from ncclforensics.report.timeline.start_position import opening_place, suspected_place
from ncclforensics.report.timeline.timeline import Shown
from ncclforensics.tui.model.details import place
from ncclforensics.tui.model.entries import entries
from ncclforensics.tui.model.scale import BySequence
from ncclforensics.tui.model.view import view
from ncclforensics.tui.rendering import SUSPECTED, SUSPECTED_PLAIN, line

FIRST = Suspect(6, "gpu0002", 0.62, "7 ranks wait for it", ())
SECOND = Suspect(2, "gpu0001", 0.2, "it came last", ())
ABSENT = Suspect(4096, None, 0.1, "unseen", ())


@pytest.fixture
def accusing(fixture_timeline):
    """A job that accuses rank 6, and suspects it and rank 2."""
    timeline, report = fixture_timeline("torch-missing-rank-two-hosts")
    report = with_(report, suspects=(FIRST, SECOND))
    return build(timeline.frames, report), report


@pytest.fixture
def suspecting(fixture_timeline):
    """The same job, which accuses nobody."""
    timeline, report = fixture_timeline("torch-missing-rank-two-hosts")
    report = with_(
        report,
        outcome="inconclusive",
        verdict=None,
        findings=(),
        suspects=(ABSENT, FIRST, SECOND),
    )
    return build(timeline.frames, report), report


def labels(timeline):
    shown = view(timeline, Shown(), BySequence(timeline.axis(None)))
    found = (shown.label(n) for n in range(shown.lines.height))
    return {label.before[0]: label for label in found}


def test_it_opens_on_the_first_suspect_where_others_wait_for_it(suspecting):
    timeline, report = suspecting
    row, col = opening_place(timeline, report)
    assert (timeline.ranks[row], timeline.columns.numbers[col]) == (6, 5)
    assert suspected_place(timeline, ABSENT) is None


def test_it_opens_on_who_is_accused_before_who_is_suspected(accusing):
    timeline, report = accusing
    other = with_(report, suspects=(SECOND,))
    assert timeline.ranks[opening_place(timeline, other)[0]] == 6


def test_suspects_have_lines_of_their_own_and_say_so(suspecting, accusing):
    found = labels(suspecting[0])
    assert [ranks for ranks, one in found.items() if one.is_suspected] == ["2", "6"]
    assert found["2"].stand == "suspected waits in default_pg 5"
    assert found["6"].stand == "suspected never made default_pg 5"
    found = labels(accusing[0])
    assert [ranks for ranks, one in found.items() if one.is_suspected] == ["2"]
    assert found["6"].stand == "never made default_pg 5"


@pytest.mark.parametrize(
    ("plain", "style"), [(False, SUSPECTED), (True, SUSPECTED_PLAIN)]
)
def test_a_suspected_line_looks_like_one(suspecting, plain, style):
    strip = line(
        labels(suspecting[0])["2"],
        b"\1",
        widths=(5, 14),
        wide=1,
        room=60,
        cursor=None,
        chosen=False,
        plain=plain,
    )
    (told,) = (s for s in strip if "suspected waits in" in s.text)
    assert told.style == style
    assert next(iter(strip)).style == style


def test_the_evidence_says_why(suspecting, accusing):
    timeline, _ = suspecting
    row, col = suspected_place(timeline, FIRST)
    told = [text for _, text in place(timeline, row, [6], col)]
    assert told[0].startswith("rank 6 on gpu0002")
    assert told[1] == "suspected, not accused, 62 %: 7 ranks wait for it"
    named = [text for _, text in place(accusing[0], row, [6], col)]
    assert not [text for text in named if "suspected" in text]


def test_entries_tell_suspects_first_where_nobody_is_accused(suspecting, accusing):
    found = entries(suspecting[1])
    assert [entry.label for entry in found[:3]] == ["suspect"] * 3
    assert found[1].text == "rank 6 on gpu0002, 62 %: 7 ranks wait for it"
    assert found[1].suspect == FIRST
    found = entries(accusing[1])
    assert found[0].label == "verdict"
    assert [entry.suspect for entry in found if entry.suspect] == [SECOND]
