"""Headings between the files in one text: what their names tell holds below them."""

import pytest

from log_lines import found, timeout, traceback, verdict

RAISED = traceback(None, "ValueError: bad batch")
BARE = timeout(0).split("[rank0]:", 1)[1]  # a line whose own words tell the rank
SPY = """Process 7{rank}: python train.py
Python v3.11.6 (/usr/bin/python3.11)

Thread 7{rank} (idle): "MainThread"
    {where}
    <module> (train.py:140)
"""
COLLECTIVE = "all_reduce (torch/distributed/distributed_c10d.py:2810)"


def joined(heading, files):
    return "\n".join(f"{heading.format(name)}\n{text}" for name, text in files)


TAIL = "==> {} <=="


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        (TAIL, ("logs/rank_0/stderr.log", "logs/rank_1/stderr.log")),
        (TAIL, ("rank0.log", "rank1.log")),
        ("=== {} ===", ("rank 0", "rank 1")),
        ("--- {}", ("rank0", "rank1")),
    ],
)
def test_the_name_of_a_file_tells_the_rank_of_its_lines(analyzed, heading, names):
    text = joined(heading, zip(names, (BARE, RAISED), strict=True))
    assert verdict(analyzed({"out.txt": text})) == ("crashed-rank", (1,), ())


def test_the_name_of_a_host_holds_up_to_the_next_heading(analyzed):
    text = joined(TAIL, [("gpu0001.log", BARE), ("gpu0002.log", RAISED), ("x", BARE)])
    analysis = analyzed({"out.txt": text})
    assert verdict(analysis) == ("crashed-rank", (), ("gpu0002",))


def test_stacks_below_headings_tell_who_is_missing(analyzed):
    files = [
        (
            rank,
            SPY.format(
                rank=rank, where="save (train.py:61)" if rank == 2 else COLLECTIVE
            ),
        )
        for rank in range(4)
    ]
    [(_, finding)] = found(
        analyzed({"out.txt": joined("=== rank {} ===", files)}), "missing-rank"
    )
    assert finding.ranks == (2,)


def test_what_a_file_prints_between_rules_is_no_name_of_a_file(analyzed):
    own = f"=== rank0 ===\n{RAISED}"
    text = joined(TAIL, [("rank_0.log", BARE), ("rank_1.log", own)])
    assert verdict(analyzed({"out.txt": text})) == ("crashed-rank", (1,), ())


@pytest.mark.parametrize(
    "heading", ["--- epoch 3", "=== results ===", "### Environment"]
)
def test_other_rules_change_nothing(analyzed, heading):
    text = f"{heading}\n{timeout(0)}{traceback(1, 'ValueError: bad batch')}"
    assert verdict(analyzed({"out.txt": text})) == ("crashed-rank", (1,), ())
