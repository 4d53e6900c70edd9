"""A rank without a line in a file of others is silent, unless lines are gone from it."""

import pytest

from log_lines import timeout, verdict

STATUS = (
    "[rank{0}]:[E820 10:10:00.600000000 ProcessGroupNCCL.cpp:1664] [PG 0 Rank {0}] "
    "Exception (either an error or timeout) detected by watchdog at work: 7, last "
    "enqueued NCCL work: 9, last completed NCCL work: 6.\n"
)


def told(caught, status):
    lines = [timeout(rank) for rank in caught] + [STATUS.format(r) for r in status]
    return {"job.log": "".join(lines)}


@pytest.mark.parametrize("status", [(0, 2, 3, 4), (0, 2), ()])
def test_a_rank_without_a_line_is_missing(analyzed, status):
    analysis = analyzed(told((0, 2, 3, 4), status))
    assert verdict(analysis)[:2] == ("missing-rank", (1,))
    assert analysis.ranked.verdict.confidence == "likely"


def test_a_file_that_lost_a_line_of_one_rank_may_have_lost_those_of_another(analyzed):
    top = analyzed(told((0, 2, 4), (0, 3))).ranked.verdict
    assert top is None or not top.ranks or top.confidence == "possible"


def test_a_file_in_which_no_rank_prints_both_lines_lost_none(analyzed):
    analysis = analyzed(
        told((), (0, 2, 3, 4)) | {"more.log": "".join(map(timeout, (0, 2)))}
    )
    assert "missing-rank" in [f.slug for _, f in analysis.ranked.findings]


def test_after_a_text_that_ends_within_a_report_others_may_have_followed(analyzed):
    whole = "".join(map(timeout, (1, 4, 5, 7)))
    cut = timeout(2).partition("NumelIn")[0]
    assert "[Rank 2]" in cut
    top = analyzed({"paste.txt": whole + cut}).ranked.verdict
    assert top is None or not top.ranks or top.confidence == "possible"


def test_a_report_that_is_cut_within_a_file_shows_who_printed_nothing(analyzed):
    cut = timeout(2).partition("NumelIn")[0] + "\n"
    whole = "".join(map(timeout, (0, 4, 5)))
    top = analyzed(
        {"job.log": whole[: len(timeout(0))] + cut + whole[len(timeout(0)) :]}
    )
    assert verdict(top)[:2] == ("missing-rank", (1, 3))
