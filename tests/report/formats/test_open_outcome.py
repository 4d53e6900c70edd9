"""An open outcome never stands beside a word of certainty, and its clue leads."""

import pickle

import pytest

from known_jobs import known
from ncclforensics.analysis import analyze
from ncclforensics.diagnosers import CLASSES
from ncclforensics.report.bundle import paper
from ncclforensics.report.formats.annotations import render_github
from ncclforensics.report.formats.html import render_html
from ncclforensics.report.formats.jira_markup import render_wiki
from ncclforensics.report.formats.markdown import render_markdown
from ncclforensics.report.formats.text import render_text
from ncclforensics.report.opening_lines import opening
from ncclforensics.tickets.plans import as_json, plan
from ncclforensics.tickets.post import Post
from ncclforensics.tui.model.entries import entries

RENDERERS = [
    render_text,
    render_github,
    render_markdown,
    lambda report: render_html(report).partition("What else was looked for")[0],
    lambda report: render_wiki(report, paper(report, None, (), CLASSES).details),
    lambda report: str([e.whole for e in entries(report) if e.label != "unknown"]),
    lambda report: str(
        as_json(
            plan("slack:C0123456789", Post(paper(report, None, (), CLASSES)), {}),
            {},
            "",
        )
    ),
]


def of(name):
    return known(name).report


@pytest.mark.parametrize("render", RENDERERS)
def test_no_format_calls_a_sign_certain_and_all_tell_who_was_heard(render):
    report = of("torch-monitored-barrier-unheard")
    assert report.findings[0].confidence == "certain"  # that the timeout passed
    text = render(report)
    assert "certain" not in text
    assert "inconclusive" in text or "not accused" in text
    assert "only ranks 2-3 timed out" in text
    assert text.index("2 ranks wait for") < text.index("waited for")


@pytest.mark.parametrize("render", RENDERERS[:5])
def test_a_failure_still_tells_how_sure_it_is(render):
    text = render(of("torch-missing-rank-two-hosts"))
    assert render is render_wiki or "certain" in text


def test_the_clue_tells_of_how_many_who_was_silent_and_each_ranks_call():
    clue = of("torch-missing-rank-dump-lost").clue
    assert clue.text == "3 ranks wait for rank 2; nothing of it was collected"
    assert (clue.ranks, clue.heard, clue.silent) == (4, "0-1,3", "2")
    (stood,) = clue.stood
    assert (stood.ranks_folded, stood.op, stood.seq) == ("0-1,3", "all_reduce", 5)
    assert clue.needed == (
        "the stderr of rank 2",
        "the Flight Recorder dump of rank 2",
    )


def test_a_lone_timeout_is_told_and_nobody_is_suspected_for_it():
    report = of("torch-first-timeout-only")
    first, second = opening(report)
    assert first.startswith("inconclusive: rank 0 timed out")
    assert report.suspects == ()
    assert "dump" in second  # every rank's stderr is there already
    assert max(len(first), len(second)) <= 80


def test_dumps_without_a_call_do_not_show_that_anything_stopped(tmp_path):
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    for rank in range(2):
        told = {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": []}
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(told, 2))
    first, _ = opening(analyze([str(tmp_path)]).report)
    assert first.startswith("inconclusive: the dumps hold no call")
    assert "something stopped" not in first


def test_where_a_class_explains_the_failure_there_is_no_clue():
    assert of("torch-missing-rank-two-hosts").clue is None
    assert of("torch-healthy-detail").clue is None
