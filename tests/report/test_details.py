"""Details: how far ranks came, who waits, when it showed, and lines around a cite."""

from __future__ import annotations

from known_jobs import known
from ncclforensics.analysis import analyze
from ncclforensics.engine import excerpts
from ncclforensics.report.details import details
from ncclforensics.report.formats.markdown import render_markdown


def test_a_missing_rank_stands_out_in_its_group():
    found = known("torch-missing-rank-two-hosts")
    told = details(found.report, found.frames)
    (call,) = told.calls
    assert call.name == "all_reduce SeqNum=5 in process group 0 (default_pg)"
    assert (call.waiting, call.absent) == ("0-5,7", "6")


def test_a_call_without_a_number_is_told_without_one():
    found = known("torch-monitored-barrier")
    (call,) = details(found.report, found.frames).calls
    assert call.name == "monitored_barrier in an unnamed group"


def test_signs_come_in_order_of_time_and_name_signals():
    found = known("torch-sigkill-rank")
    signs = details(found.report, found.frames).signs
    assert [s.t for s in signs] == sorted(s.t for s in signs)
    (killed,) = [s for s in signs if s.text == "ended by SIGKILL"]
    assert (killed.ranks, killed.named) == ("0", True)


def test_a_sign_is_told_in_the_words_of_its_line():
    found = known("torch-missing-rank-logs-only")
    first, *_ = details(found.report, found.frames).signs
    assert first.text == "Rank 2 failed to pass monitoredBarrier in 7000 ms"


def test_the_table_of_a_ticket_folds_ranks_and_drops_empty_columns():
    found = known("torch-missing-rank-two-hosts")
    text = render_markdown(found.report, details(found.report, found.frames))
    assert "| call | waiting | not made by |\n| --- | --- | --- |\n" in text
    assert "in process group 0 (default\\_pg) | 0-5,7 | 6 |" in text


def test_excerpts_are_the_lines_of_the_file(jobs):
    folder = jobs / "torch-sigkill-rank" / "evidence"
    found = analyze([str(folder)], quote=True)
    assert found.excerpts
    for excerpt in found.excerpts:
        lines = (folder / excerpt.source).read_text().splitlines()
        first = excerpt.first - 1
        own = lines[first : first + len(excerpt.lines)]
        assert [line.rstrip() for line in own] == [x.rstrip() for x in excerpt.lines]
        assert all(0 <= n - excerpt.first < len(excerpt.lines) for n in excerpt.cited)


def test_near_cites_share_an_excerpt_and_long_lines_are_cut(analyzed, monkeypatch):
    log = "\n".join(f"line {i}" for i in range(1, 50)) + "\n" + "x" * 9000 + "\n"
    monkeypatch.setattr(
        excerpts,
        "cited",
        lambda *_: {"a.log": [(3, ""), (6, ""), (50, "")], "gone.log": [(1, "")]},
    )
    found = analyzed({"a.log": log}, quote=True)
    first, last = found.excerpts
    assert (first.first, first.cited, len(first.lines)) == (1, (3, 6), 9)
    assert first.lines[2] == "line 3"
    assert (last.first, last.cited) == (47, (50,))
    assert len(last.lines[-1]) == excerpts.WIDTH


def test_the_culprits_last_line_comes_first_and_those_who_waited_are_left_out(jobs):
    path = str(jobs / "torch-missing-rank-two-hosts" / "evidence")
    found = analyze([path], quote=True)
    last = found.report.last_line
    (excerpt,) = found.excerpts
    assert (excerpt.source, excerpt.cited) == (last.source, (last.line,))
    assert excerpt.lines[-1].endswith("saving checkpoint to /job/ckpt")
    assert len(excerpt.lines) <= 2 * excerpts.AROUND + 1


def test_where_nobody_is_accused_the_lines_of_all_are_shown(jobs):
    path = str(jobs / "torch-first-timeout-only" / "evidence")
    assert analyze([path], quote=True).excerpts


def test_an_exception_is_shown_with_the_end_of_its_traceback(jobs):
    path = str(jobs / "torch-crashed-rank" / "evidence")
    found = analyze([path], quote=True)
    cite, *_ = found.report.verdict.evidence
    excerpt = next(e for e in found.excerpts if e.source == cite.source)
    shown = dict(enumerate(excerpt.lines, excerpt.first))
    assert cite.line in excerpt.cited
    assert cite.text in shown[cite.line]
    assert any('File "' in text for text in excerpt.lines)
