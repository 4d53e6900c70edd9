"""Every cite of every golden resolves: the quoted text stands at that place.

Those of the other jobs are resolved where their reports are made: see `unresolved`.
"""

import re

import pytest

from cites import unresolved
from ncclforensics.report.contract import Evidence
from ncclforensics.report.formats.text_parts import quote

E1 = "[rank{rank}]: Traceback (most recent call last):\n"
CRASH = (
    "2026-11-20 14:00:00,000 INFO step 1 loss 2.0\n"
    + E1.format(rank=1)
    + '[rank1]:   File "/job/train.py", line 9, in step\n'
    + "[rank1]:     loss.backward()\n"
    + "[rank1]: ValueError: loss is nan\n"
)


def test_an_exception_is_cited_where_it_stands_not_where_its_traceback_begins(analyzed):
    analysis = analyzed({"rank_1.log": CRASH})
    (cite,) = [c for c in analysis.report.verdict.evidence if "nan" in c.text]
    assert (cite.place, cite.text) == ("rank_1.log:5", "ValueError: loss is nan")


def test_an_exit_of_a_table_is_cited_on_its_own_line(analyzed):
    entry = (
        "[{n}]:\n  time      : 2026-11-20_14:17:12\n  host      : gpu0003\n"
        "  rank      : {rank} (local_rank: {n})\n  exitcode  : {code} (pid: 1471{n})\n"
        "  error_file: <N/A>\n  traceback : none\n"
    )
    table = "".join(entry.format(n=n, rank=8 + n, code=-15) for n in (1, 2))
    rule = "-" * 60
    text = f"Failures:\n{table}{rule}\nRoot Cause (first observed failure):\n"
    text += entry.format(n=0, rank=8, code=3)
    frames = analyzed({"torchrun.log": text}).frames
    lines = text.splitlines()
    for row in frames["exits"].iter_rows(named=True):
        assert lines[row["line"] - 1].startswith(f"  exitcode  : {row['code']}")
    assert frames["exits"]["line"].n_unique() == 3


@pytest.mark.parametrize(
    ("cite", "place"),
    [
        (Evidence("fr/nccl_trace_rank_1", 9, "rank 1 waits", "entry"), r"rank_1#9 "),
        (Evidence("rank_1.log", 9, "boom"), r"rank_1\.log:9 "),
        (
            Evidence("dmesg.log", None, "4 lines, none of such a failure"),
            r"dmesg\.log ",
        ),
    ],
)
def test_a_place_says_whether_it_is_a_line_or_an_entry(cite, place):
    assert re.search(place, quote(cite, 80)[0])


def test_a_cite_that_points_elsewhere_is_found(tmp_path):
    (tmp_path / "a.log").write_text("one\ntwo\n")
    wrong = Evidence("a.log", 1, "two")
    assert unresolved([wrong, Evidence("a.log", 2, "two")], tmp_path) == [wrong]
