"""A program's own number in front of its lines is a local rank where all are there."""

import polars as pl
import pytest

from log_lines import timeout, xid
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
        ("17:33:53 gpu-a102/r2: waiting for the store", 2),
        ("17:33:53 data/r2: waiting for the store", None),  # a folder
        ("rank 3: 812 ms", None),  # a row of a table
        ("rank 5 failed 3 times", None),  # which another one may say
        ("rank 5 lost 2 heartbeats", None),
    ],
)
def test_a_rank_in_front_of_its_step_is_of_the_rank_that_prints(line, rank):
    told = framing.frame(pl.DataFrame({"line": [0], "raw": [line]}))
    assert told["rank"].to_list() == [rank]


def ranks(lines):
    told = framing.frame(pl.DataFrame({"line": range(len(lines)), "raw": lines}))
    return told["rank"].to_list()


TURNS = [(2, 1, 0), (1, 2, 0), (0, 2, 1), (2, 0, 1)]  # in which ranks print
TORCH = [f"[rank{rank}]: RuntimeError: lost" for rank in (0, 1)]


def taken(form, turns=TURNS):
    return [form.format(rank, n) for n, turn in enumerate(turns) for rank in turn]


def test_a_number_behind_the_time_in_one_bracket_is_of_a_process():
    told = framed(*taken("[2026-11-28 15:16:2{1},559,{0}] step {1} loss 2"))
    assert [rank for rank, _ in told] == [rank for turn in TURNS for rank in turn]


@pytest.mark.parametrize(
    ("form", "more"),
    [
        ("[stage {}] step {} ok", TORCH),
        ("15:16:2{1} (stage {0}) step {1} ok", TORCH),
        ("Nov 28 15:16:2{1} [{0}/3] step {1}", []),
    ],
)
def test_a_tag_with_a_word_or_a_total_is_of_a_rank(form, more):
    told = ranks([*taken(form), *more])
    assert told[: -len(more) or None] == [rank for turn in TURNS for rank in turn]


IN_TURN = [(0, 1, 2)] * 4
GROWING = [(n,) * 4 for n in range(3)]


@pytest.mark.parametrize(
    "lines",
    [
        taken("[stage {}] step {} ok"),  # of how many ranks is not known
        [*taken("[stage {}] step {} ok"), "[rank7]: RuntimeError: lost", *TORCH],
        taken("[{}/8] step {}"),  # not all of them
        taken("[{}/3] epoch {}", IN_TURN),  # a counter of one process
        [*taken("[step {}] loss 2.{}", GROWING), *TORCH],  # of several, growing
        [
            f"[{n}/3] epoch {e}" for e in range(4) for n in (0, 1, 0, 2, 1, 2)
        ],  # and anew
    ],
)
def test_other_tags_are_of_no_rank(lines):
    of = dict(zip(lines, ranks(lines), strict=True))
    told = [rank for line, rank in of.items() if "rank" not in line]
    assert {*told} == {None}


@pytest.mark.parametrize(("hosts", "known"), [(1, {0, 1, 2}), (2, {0})])
def test_on_several_hosts_a_bare_number_is_no_rank_of_all(analyzed, hosts, known):
    own = "\n".join(taken("[{}] step {} loss 2"))
    files = {f"gpu000{n}.log": f"{own}\n{timeout(0)}" for n in range(1, hosts + 1)}
    kernel = "".join(xid(31, host=f"gpu000{n}") for n in range(1, hosts + 1))
    frames = analyzed({**files, "kern.log": kernel}).frames
    assert {*frames["ranks"]["rank"]} == known
