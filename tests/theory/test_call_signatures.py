"""On what the members of a call differ: its sides, fewest ranks first."""

import math

import polars as pl
import pytest
from standstills import STEP, all_but, case

import judging
from ncclforensics.analysis import analyze

HISTORY = STEP * 4
WAITS = f"{HISTORY}abcdp|W"
LAST = len(WAITS) - 2


def sides(programs, **more):
    """Return of the call of all what each side is and who takes it."""
    made = case(programs, **more)
    return [
        (side.aspect, side.ranks)
        for number, told in made.signatures.items()
        for side in told
        if made.calls[number]["pg_desc"] == "default_pg"
    ]


def test_members_that_agree_take_no_sides():
    assert sides([WAITS] * 4) == []


def test_an_operation_of_its_own_is_the_smaller_side():
    found = sides(all_but(f"{HISTORY}abcdp|Q", WAITS))
    assert found == [("op", (2,)), ("op", (0, 1, 3))]


def test_so_are_other_sizes_and_other_types_of_one_operation():
    assert sides([WAITS] * 4, sizes={(2, LAST): 9})[0] == ("shape", (2,))


def test_where_operations_differ_nobody_asks_for_sizes():
    found = sides(all_but(f"{HISTORY}abcdp|Q", WAITS), sizes={(0, LAST): 9})
    assert {aspect for aspect, _ in found} == {"op"}


def test_calls_of_two_groups_are_not_compared():
    """Both are their group's third: see the names of the groups."""
    assert sides([WAITS, WAITS, f"{HISTORY}abcd|p", f"{HISTORY}abcd|p"]) == []


def test_sizes_are_compared_where_dumps_hold_no_types():
    bare = {"in_dtypes": None, "out_dtypes": None}
    assert sides([WAITS] * 4, sizes={(2, LAST): 9}, **bare)[0] == ("shape", (2,))


def test_who_enqueued_the_call_behind_another_one_takes_a_side_as_well():
    programs = [WAITS, WAITS, f"{HISTORY}abcdp|Q", f"{HISTORY}abcd|pW"]
    assert ("op", (0, 1, 3)) in sides(programs)


@pytest.mark.parametrize("op", ["alltoall_base", "gather", "scatter", "all_to_all"])
def test_what_may_be_uneven_in_health_has_no_sides_by_size(op):
    assert sides([WAITS] * 4, sizes={(2, LAST): 9}, op=op) == []


def test_an_entry_without_an_operation_is_on_no_side():
    assert sides([WAITS] * 4, op=None) == []


# how watchdogs spell what dumps call so
WATCHDOGS = {
    "broadcast": "BROADCAST",
    "all_reduce": "ALLREDUCE",
}
GAVE_UP = (
    "[rank{rank}]:[E820 10:10:00.596967190 ProcessGroupNCCL.cpp:688] [Rank {rank}] "
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, "
    "NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000) ran for 600009 milliseconds "
    "before timing out.\n"
    "[rank{rank}]:[E820 10:10:00.596967190 ProcessGroupNCCL.cpp:1709] [PG ID 0 PG GUID "
    "0(default_pg) Rank {rank}] Exception (either an error or timeout) detected by "
    "watchdog at work: {seq}, last enqueued NCCL work: {seq}, last completed NCCL work: "
    "{before}.\n"
)


@pytest.mark.parametrize("fault", ["mismatch", "shape", "stuck"])
def test_a_member_without_a_dump_is_compared_by_its_watchdogs_line(tmp_path, fault):
    """The line spells the operation in its own way, and tells elements alone."""
    played = judging.played(fault, seed=1, tp=1, pp=1, dp=4, ep=1)
    whole = judging.analysis(played, tmp_path)
    slug, odd = judging.named(whole)
    call = whole.ranked.verdict.collective
    entry = whole.frames["collectives"].filter(
        (pl.col("rank") == 1)
        & (pl.col("seq") == call.seq)
        & (pl.col("pg") == call.process_group)
    )
    op = WATCHDOGS[entry["op"][0]]
    numel = math.prod(entry["in_sizes"][0][0])
    line = GAVE_UP.format(rank=1, seq=call.seq, before=call.seq - 1, op=op, numel=numel)
    (tmp_path / "rank_1.log").write_text(line)
    (tmp_path / "nccl_trace_rank_1").unlink()
    assert judging.named(analyze([str(tmp_path)])) == (slug, odd)
    assert odd == (() if fault == "stuck" else (1,))
