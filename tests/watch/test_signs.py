"""What new lines show: patterns, numbers, failures, an end."""

import pytest

from ncclforensics.watch import signs
from new_lines import read

TIMEOUT = (
    "[E1120 11:31:53.000000 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective"
    " operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1,"
    " Timeout(ms)=600000) ran for 600069 milliseconds before timing out."
)


def test_lines_that_differ_in_numbers_and_times_are_one_pattern_of_each_speaker():
    found = read(
        "[rank0]: 2026-01-02 03:04:05,678 step 1 loss 0.5",
        "[rank0]: 2026-01-02 03:04:06,678 step 2 loss 0.7",
        "[rank1]: 2026-01-02 03:04:06,679 step 2 loss 0.6",
    ).seen
    assert [(s.rank, s.text) for s in found] == [
        (0, "step 2 loss 0.7"),
        (1, "step 2 loss 0.6"),
    ]
    assert len({s.pattern for s in found}) == 1
    assert [(n.first, n.last, n.rises) for n in found[0].numbers[1:]] == [
        (1.0, 2.0, 1),
        (0.5, 0.7, 1),
    ]


def test_a_progress_bar_is_one_pattern_however_far_it_is_drawn():
    found = read(
        " 10%|█         | 100/1000 [00:12<01:28, 10.00it/s]\r"
        " 90%|█████████ | 900/1000 [01:12<00:08, 11.00it/s]"
    ).seen
    assert len(found) == 1
    assert (found[0].numbers[2].first, found[0].numbers[2].last) == (100, 900)


def test_the_operation_count_of_nccl_is_hexadecimal():
    found = read(
        "gpu1:12:13 [0] NCCL INFO AllReduce: opCount f sendbuff 0x7f12 count 3",
        "gpu1:12:13 [0] NCCL INFO AllReduce: opCount 10 sendbuff 0x7f9 count 3",
    ).seen
    assert [(s.numbers[0].first, s.numbers[0].last) for s in found] == [(15, 16)]


def test_a_line_that_a_grammar_knows_as_a_failure_is_one():
    assert [f.message for f in read("step 1", TIMEOUT).failing] == [
        "c10d.watchdog.timeout"
    ]


@pytest.mark.parametrize(
    "line",
    [
        "step 5 loss 0.2",
        "[rank0]: no error was found",
        "gpu1:12:13 [0] NCCL INFO NET/IB : No device found.",
        # a machine's line is not the job's
        "[ 12.3] NVRM: Xid (PCI:0000:3b:00): 31, pid=12, name=python, Ch 00000008",
    ],
)
def test_a_healthy_line_is_no_failure(line):
    assert read(line).failing == []


@pytest.mark.parametrize(
    ("line", "ends"),
    [
        ("2026-01-02 03:04:05,678 Training finished.", True),
        ("Job completed", True),
        ("training step finished", True),
        ("evaluation done", False),
        ("training the model", False),
    ],
)
def test_a_line_that_says_that_the_job_has_ended(line, ends):
    assert bool(read(line).ended) is ends


def test_of_a_flood_the_last_lines_and_all_failures_are_read(monkeypatch):
    monkeypatch.setattr(signs, "MOST_LINES", 10)
    found = read(TIMEOUT, *(f"step {n}" for n in range(100)))
    steps = next(s for s in found.seen if s.text.startswith("step"))
    assert (steps.numbers[1].first, steps.numbers[1].last) == (90, 99)
    assert len(found.failing) == 1


def test_no_bytes_break_the_reading():
    assert read("\x00\xff", "", "\ud7ff", "\x1b[31m").failing == []
