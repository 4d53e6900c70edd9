"""A program's own number in front of its lines is a local rank where all are there."""

import polars as pl
import pytest

from ncclforensics.parsers.logs import framing


def framed(*lines):
    told = framing.frame(pl.DataFrame({"line": range(len(lines)), "raw": lines}))
    return told.select("local_rank", "text").rows()


def steps(form, ranks, times=3):
    return [form.format(rank, n) for n in range(times) for rank in ranks]


@pytest.mark.parametrize("form", ["[{}] step {} loss 2", "15:16:2{1} [{0}] step {1}"])
def test_numbers_from_0_on_that_begin_several_lines_are_of_processes(form):
    told = framed(*steps(form, range(3)), "a line of its own")
    assert [rank for rank, _ in told] == [0, 1, 2] * 3 + [None]
    assert all("[" not in text for _, text in told)


@pytest.mark.parametrize(
    "lines",
    [
        steps("[{}] step {}", [1, 2]),  # the first one is not there
        steps("[{}] step {}", [0]),  # of one process
        steps("[{}] step {}", range(3), times=1),  # a list
        steps("[{}] NCCL INFO Channel 0{} : 0 1", range(3)),  # the number of a GPU
        ["[1] 4711", "[0]:", "  exitcode : 1"],  # a shell's jobs, an agent's table
    ],
)
def test_other_numbers_in_brackets_are_of_no_process(lines):
    assert {rank for rank, _ in framed(*lines)} == {None}


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("2026-11-28 15:06:06 rank 2 step 50 loss 1.1", 2),
        ("rank 3 epoch=1 loss=0.5", 3),
        ("rank 5 failed 3 times", None),  # which another one may say
        ("rank 5 lost 2 heartbeats", None),
    ],
)
def test_a_rank_in_front_of_its_step_is_of_the_rank_that_prints(line, rank):
    told = framing.frame(pl.DataFrame({"line": [0], "raw": [line]}))
    assert told["rank"].to_list() == [rank]
