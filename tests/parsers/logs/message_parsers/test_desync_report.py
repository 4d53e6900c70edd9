"""The sections of torch's desync report, rendered from TraceUtils.h."""

import pytest

from ncclforensics.parsers.logs.message_parsers import desync_report

REPORT = """\t - [3] Timeout at collective: ALLREDUCE, #5
\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync \
are:
\t   - [0] joined but didn't finish collective #4 (count from 1)
\t     [1] finished collective #4, but didn't join collective #5 (count from 1)
\t - Snapshot of ranks' latest states:
\t   #5 started ranks:
\t     [2, 3] started ALLREDUCE
\t   #4 finished ranks:
\t     [1] finished BROADCAST"""


def told(text):
    return [(r["group_rank"], r["kind"], r["seq"]) for r in desync_report.parse(text)]


def test_every_section_gives_its_ranks():
    assert told(REPORT) == [
        (3, "timed_out", 5),
        (0, "joined_not_finished", 4),
        (1, "finished_not_joined", 5),
        (2, "started", 5),
        (3, "started", 5),
        (1, "finished", 4),
    ]


def test_a_laggard_is_told_by_the_call_it_did_not_join_and_the_one_it_finished():
    lagging = desync_report.parse(REPORT)[2]
    assert (lagging["seq"], lagging["last_finished"]) == (5, 4)


def test_the_snapshot_tells_who_is_in_which_operation():
    ops = {(r["kind"], r["op"]) for r in desync_report.parse(REPORT) if r["op"]}
    assert ("started", "ALLREDUCE") in ops
    assert ("finished", "BROADCAST") in ops


def test_ranks_that_never_joined_have_no_number():
    text = (
        "- [0] Timeout at collective: BARRIER, #1\n"
        "- To our best knowledge, ranks [1, 2] are the lagging ranks that caused this "
        "timeout. They never joined any collectives"
    )
    assert told(text)[1:] == [(1, "never_joined", None), (2, "never_joined", None)]


def test_a_report_with_escaped_line_breaks_reads_the_same():
    escaped = REPORT.replace("\n", "\\n").replace("\t", "\\t")
    assert told(escaped) == told(REPORT)


@pytest.mark.parametrize("cut", [30, 150, 220, 300, 380])
def test_a_report_that_breaks_off_gives_a_beginning_of_the_rows(cut):
    rows = told(REPORT[:cut])
    assert rows == told(REPORT)[: len(rows)]


def test_other_text_about_ranks_is_no_report():
    assert desync_report.parse("ranks [1, 2] finished epoch #4 and started eval") == []
