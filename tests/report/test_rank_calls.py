"""The chart of the page: who is told apart, what folds, what is left out."""

from __future__ import annotations

import pytest
from msgspec.structs import replace as with_

import simulate_timeline
from known_jobs import known
from ncclforensics.report import rank_calls as chart
from ncclforensics.report.contract import Suspect
from ncclforensics.report.rank_calls import rank_calls
from ncclforensics.report.timeline.states import text


def drawn(name):
    found = known(name)
    return rank_calls(found.report, found.frames)


def looks(told):
    return {(row.ranks, row.who): text(bytes(row.cells)) for row in told.rows}


def thousand(calls=200):
    job = simulate_timeline.Job(ranks=1024, calls=calls, culprit=617)
    made = simulate_timeline.collectives(job, 0, job.ranks)
    return simulate_timeline.report(job), simulate_timeline.frames(
        job, collectives=made
    )


def test_the_culprit_comes_first_and_the_others_fold():
    told = drawn("torch-missing-rank-two-hosts")
    assert looks(told) == {("6", "culprit"): "····XE", ("0-5,7", ""): "····wE"}
    assert told.columns == ("1", "2", "3", "4", "5", "exit")
    assert (told.columns[told.at], told.kinds) == ("5", (("", "default_pg"),))
    assert [row.stand for row in told.rows] == ["never made 5", "waits in 5"]


def test_groups_of_several_kinds_have_letters():
    told = drawn("torch-chain")
    assert told.kinds == (("a", "default_pg"), ("b", "TP"), ("c", "DP"), ("d", "PP"))
    assert told.columns[told.at] == "b3"


def test_a_possible_culprit_is_called_so():
    told = drawn("torch-call-order-deadlock")
    assert {row.who for row in told.rows if row.ranks in "01"} == {"possible culprit"}


@pytest.mark.parametrize(
    "name",
    [
        "torch-healthy",
        "nccl-docker0",  # it made no calls
        "torch-missing-rank-logs-only",  # the log gives its call no number
    ],
)
def test_a_chart_that_would_tell_nothing_is_left_out(name):
    assert drawn(name) is None


def test_a_thousand_ranks_are_a_few_rows_around_the_call():
    told = rank_calls(*thousand())
    assert told.rows[0].ranks == "617"
    assert sum(row.many for row in told.rows) == 1024
    assert len(told.rows) <= 8
    assert len(told.columns) == chart.MOST_COLUMNS
    # nobody comes to the last of the 200
    assert told.earlier + told.later + len(told.columns) == 199


def test_rows_beyond_the_most_are_counted_and_the_culprit_stays(monkeypatch):
    monkeypatch.setattr(chart, "MOST_ROWS", 2)
    whole = rank_calls(*thousand())
    assert [whole.rows[0].who, whole.rows[1].who] == ["culprit", ""]
    assert whole.more_rows > 0
    assert sum(row.many for row in whole.rows) + whole.more_ranks == 1024
    # of the others, the largest row is kept
    assert whole.rows[1].many > 500


def test_who_is_only_suspected_is_no_culprit():
    report, frames = thousand(40)
    suspects = (Suspect(617, None, 0.6, "1,023 ranks wait for it", ()),)
    unsure = {"outcome": "inconclusive", "verdict": None, "findings": ()}
    told = rank_calls(with_(report, **unsure, suspects=suspects), frames)
    assert [row.who for row in told.rows if row.who] == ["suspected"]
