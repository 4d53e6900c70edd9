"""torchelastic's table as torch 2.13 prints it, and as torn logs keep it."""

from datetime import UTC, datetime

from ncclforensics.parsers.logs.message_parsers import child_failed

OTHERS = """Failures:
[1]:
  time      : 2026-11-20_11:24:09
  host      : gpu0001
  rank      : 9 (local_rank: 1)
  exitcode  : -15 (pid: 41011)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 41011
[2]:
  time      : 2026-11-20_11:24:10
  host      : gpu0001
  rank      : 10 (local_rank: 2)
  exitcode  : 1 (pid: 41012)\x20
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
------------------------------------------------------------
"""
ROOT = """Root Cause (first observed failure):
[0]:
  time      : 2026-11-20_11:24:08
  host      : gpu0001
  rank      : 8 (local_rank: 0)
  exitcode  : 1 (pid: 41010)\x20
  error_file: /tmp/torchelastic_a1/none_b2/attempt_0/0/error.json
  traceback : Traceback (most recent call last):
    File "/job/train.py", line 4, in load
      raise ValueError("bad shard 7")
  ValueError: bad shard 7
  rank      : 99 (local_rank: 9)
\x20\x20
============================================================
"""


def test_the_others_are_read_up_to_the_root_cause():
    rows = child_failed.parse(OTHERS + ROOT)
    assert [(r["rank"], r["code"], r["pid"]) for r in rows] == [
        (9, -15, 41011),
        (10, 1, 41012),
    ]
    assert not any(row["called_root_cause"] for row in rows)


def test_every_field_of_an_entry():
    (row,) = child_failed.parse(ROOT)
    assert row == {
        "entry": 0,
        "rank": 8,
        "local_rank": 0,
        "host": "gpu0001",
        "pid": 41010,
        "code": 1,
        "signal": None,
        "reason": "ValueError: bad shard 7",
        "t": datetime(2026, 11, 20, 11, 24, 8, tzinfo=UTC),
        "error_file": "/tmp/torchelastic_a1/none_b2/attempt_0/0/error.json",
        "called_root_cause": True,
        "said_at": 5,
    }


def test_what_a_traceback_says_is_no_field_of_its_entry():
    (row,) = child_failed.parse(ROOT)
    assert row["rank"] == 8


def test_a_signal_is_told_by_newer_and_older_templates():
    newer = child_failed.parse(OTHERS)[0]
    older = child_failed.parse(OTHERS.replace("  (SIGTERM)\n", "\n"))[0]
    assert (newer["signal"], older["signal"]) == ("SIGTERM", None)
    assert newer["reason"] == older["reason"]


def test_no_other_failures_is_no_row():
    assert child_failed.parse("Failures:\n  <NO_OTHER_FAILURES>\n---------------") == []


def test_torch_1_9_put_the_root_cause_first():
    text = """Root Cause:
[0]:
  time: 2021-11-20_11:24:08
  rank: 3 (local_rank: 3)
  exitcode: 1 (pid: 41010)
  error_file: <N/A>
  msg: "Process failed with exitcode 1"
=======================================
Other Failures:
  <NO_OTHER_FAILURES>
"""
    (row,) = child_failed.parse(text)
    assert (row["rank"], row["code"], row["called_root_cause"]) == (3, 1, True)


def test_lines_that_a_torn_table_lost_are_null():
    (row,) = child_failed.parse(
        "  time      : 2026-11-20_11:24:08\n  exitcode  : -6 (pid: 7)"
    )
    assert (row["code"], row["pid"], row["rank"], row["host"]) == (-6, 7, None, None)


def test_a_table_that_breaks_off_in_a_line_keeps_the_lines_before():
    cut = ROOT[: ROOT.index("(pid")]
    (row,) = child_failed.parse(cut)
    assert (row["rank"], row["code"], row["pid"]) == (8, 1, None)
