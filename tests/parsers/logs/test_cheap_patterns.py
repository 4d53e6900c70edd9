"""What each analysis prepares anew is cheap to prepare, and misses nothing for that."""

import re

import polars as pl
import pytest

from ncclforensics.parsers.logs import (
    decorations,
    framing,
    headers,
    prefix_habits,
    record_starts,
)
from ncclforensics.parsers.logs.pastes import headings, running_on

# a class of all of Unicode that may be repeated a hundred times: each is a copy of it
COPIES = re.compile(r"(?:\[\^(?:\\.|[^\]\\])*\]|(?<!\\)\.|\\[SDW])\{\d*,?\d{3,}\}")
PATTERNS = {
    "decorations": decorations.IS_DECORATED,
    "listed": decorations.IS_LISTED,
    "tags": framing._TAGGED,
    "headers": headers.ANY,
    "habits": prefix_habits._MAY_BE,
    "headings": headings._MAY_BE,
    "run on": running_on._HOLDS,
    "records": record_starts.BEGINS,
}


@pytest.mark.parametrize("name", PATTERNS)
def test_no_class_of_all_of_unicode_is_copied_a_hundred_times(name):
    assert COPIES.findall(PATTERNS[name]) == []


@pytest.mark.parametrize(
    "pattern", [r"[^\n]{0,200}x", r".{0,120}?x", r"\S{100}", r"[^\]\n]{1,300}\]"]
)
def test_such_a_copy_is_found(pattern):
    assert COPIES.search(pattern)


@pytest.mark.parametrize(
    "pattern", [r"[a-z]{0,250}", r"[^\n]*?x", r"\S{1,40}", "a{300}"]
)
def test_other_repetitions_are_none(pattern):
    assert not COPIES.search(pattern)


BEGINNINGS = (
    "gpu0001:41:42 [0] NCCL INFO Bootstrap",
    "[rank3]: step",
    "[default3]: step",
    "[1,3]<stdout>: step",
    "[pod/train-0/main] step",
    "(train pid=41, ip=10.0.0.1) step",
    "slurmstepd: error",
    "srun: error",
    "Traceback (most recent call last):",
    "2026-11-20 10:30:26 step",
    "[E1120 10:30:26.123456789 ProcessGroupNCCL.cpp:632] step",
    "W0801 13:23:17.366000 32974 torch/distributed/run.py:900] step",
    "torch.distributed.run: [WARNING] step",
    "WARNING:torch.distributed.run: step",
    "During handling of the above exception",
    "The above exception was the direct cause",
    "Exception raised from checkTimeout",
    "frame #3: c10",
    "========",
    "--------",
    "terminate called after throwing",
    "what(): broken",
    "Last error: none",
)


@pytest.mark.parametrize("begins", BEGINNINGS)
def test_a_line_that_runs_on_is_likely_whatever_begins_in_it(begins):
    # times count in a line that itself begins with one: a table's rows have some, too
    head = "2026-11-20 10:30:25 words of "
    line = f"{head}{'x' * running_on.LONG} " + f" {begins}" * running_on.SEVERAL
    lines = pl.DataFrame({"line": [1], "raw": [line]})
    assert running_on.found(lines)
    assert lines.select(running_on.may_be()).item()


@pytest.mark.parametrize(
    "heading",
    [
        "==> logs/rank_3.log <==",
        "=== gpu0007 ===",
        "--- rank 3",
        "$ kubectl exec train-1 -- py-spy dump",
        "me@login:~$ ssh gpu0007 dmesg",
        "+ sudo oc logs pod/train-1",
        "Process 41: python train.py",
        "Current thread 0x00007f (most recent call first):",
    ],
)
def test_whatever_may_be_a_heading_is_likely(heading):
    lines = pl.DataFrame({"line": [1], "raw": [heading]})
    assert lines.select(headings.may_be()).item()


def test_a_line_of_a_program_is_no_heading():
    lines = pl.DataFrame({"raw": ["step 3: loss 2.0 (rank 3) -- 812 ms", "[rank3]: x"]})
    assert not lines.select(headings.may_be()).item()
