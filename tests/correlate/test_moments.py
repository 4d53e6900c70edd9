"""Times in dumps show a GPU that stands still, where a host went on without it."""

import datetime

import polars as pl
import pytest

from ncclforensics import tables
from ncclforensics.correlate import moments

EPOCH = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


def at(seconds):
    return EPOCH + datetime.timedelta(seconds=seconds)


def entry(rank, seq, made, completed=None, **more):
    return {
        "source": str(rank),
        "rank": rank,
        "pg": "0",
        "pg_desc": "default_pg",
        "seq": seq,
        "op": "all_reduce",
        "is_p2p": False,
        "t": at(made),
        "t_completed": None if completed is None else at(completed),
        **more,
    }


def stall(last_made, clock=0.0, jitter=0.0):
    """Rank 1 has not finished call 4, which rank 0 has at 4 s; its host goes on."""
    made = [
        entry(rank, seq, seq + clock * rank, seq + 0.1 + rank * (clock + jitter * seq))
        for seq in range(4)
        for rank in (0, 1)
    ]
    made += [entry(0, 4, 4, 4.1), entry(0, 5, 5), entry(1, 4, 4 + clock)]
    made += [entry(1, 5, last_made + clock)]
    return tables.rows("collectives", made).lazy()


CALLS = tables.rows(
    "calls",
    [
        {
            "call": 0,
            "pg": "0",
            "pg_desc": "default_pg",
            "seq": 4,
            "is_p2p": False,
            "waiting": [1],
            "done": [0],
            "unstarted": [],
        }
    ],
)
SLOW = tables.rows("roots", [{"rank": 1, "why": "stalled", "call": 0}])


@pytest.mark.parametrize("clock", [0.0, 3_600.0, -3_600.0])
def test_a_host_that_goes_on_when_its_peers_were_done(clock):
    assert moments.outlived(CALLS, SLOW, stall(6.0, clock).lazy())


@pytest.mark.parametrize("clock", [0.0, 3_600.0, -3_600.0])
def test_a_dump_that_ends_before_they_were_done_may_only_be_older(clock):
    assert not moments.outlived(CALLS, SLOW, stall(4.05, clock).lazy())


def test_what_is_no_longer_than_usual_proves_nothing():
    assert not moments.outlived(CALLS, SLOW, stall(4.6, jitter=0.5).lazy())


def test_without_a_time_of_completion_nothing_is_proved():
    bare = stall(6.0).with_columns(pl.lit(None, tables.TIME).alias("t_completed"))
    assert not moments.outlived(CALLS, SLOW, bare.lazy())


WANTED = {"call": 0, "pg": "0", "pg_desc": "default_pg", "waiting": [0], "absent": [1]}


def may_come(*made, **call):
    told = tables.rows("collectives", [{"state": "completed", **m} for m in made])
    return moments.may_come(tables.rows("calls", [{**WANTED, **call}]), told.lazy())


def test_who_made_such_a_call_before_may_come_to_this_one():
    """It is known by the stack, or by the operation and its sizes."""
    now = entry(0, 4, 4, in_sizes=[[8]])
    step = [entry(1, seq, seq, in_sizes=[[9]]) for seq in (2, 3)]
    assert may_come(entry(1, 1, 1, in_sizes=[[8]]), *step, now, seq=4)
    assert not may_come(*step, now, seq=4)


def test_to_ranks_in_their_first_step_every_call_is_new():
    now = entry(0, 4, 4, in_sizes=[[8]])
    first = [entry(1, seq, seq, in_sizes=[[90 + seq]]) for seq in (2, 3)]
    assert may_come(*first, now, seq=4)


def test_a_group_without_a_name_has_calls_as_well():
    """Dumps up to schema 1.4 name no group."""
    bare = {"pg": None, "pg_desc": None}
    made = [entry(1, seq, seq, in_sizes=[[8]], **bare) for seq in (2, 3)]
    now = entry(0, 4, 4, in_sizes=[[8]], **bare)
    assert may_come(*made, now, seq=4, **bare)


def test_who_may_come_is_not_known_of_messages_nor_without_any_history():
    now = entry(0, 4, 4, in_sizes=[[8]])
    assert may_come(entry(1, 3, 3, in_sizes=[[9]]), now, seq=4, is_p2p=True)
    assert may_come(now, seq=4)


def outline(*told, op="all_reduce", backend="nccl"):
    """Rows of (rank, record, retired) that have completed."""
    rows = [
        {
            **entry(rank, record, record),
            "record_id": record,
            "op": op,
            "backend": backend,
            "state": "completed",
            "retired": retired,
        }
        for rank, record, retired in told
    ]
    return tables.rows("outline", rows)


def fresh(told, accused=()):
    return moments.are_fresh(told, pl.Series("rank", list(accused), pl.Int64))


def test_a_call_that_the_watchdog_has_not_put_away_yet_ended_just_now():
    assert fresh(outline((0, 1, True), (0, 2, False), (1, 2, True)))
    assert not fresh(outline((0, 1, True), (0, 2, True), (1, 2, True)))
    assert not fresh(tables.empty("outline"))


def test_what_is_never_retired_tells_of_no_moment():
    assert not fresh(outline((0, 1, False), (0, 2, False)))
    assert not fresh(outline((0, 1, True), (0, 2, False), op="coalesced"))
    assert not fresh(outline((0, 1, True), (0, 2, False), backend="gloo"))
    assert not fresh(outline((0, 1, True), (0, 2, False)), accused=[0])


def late_there(before, step=0.001, clock=0.0):
    """Whether rank 0 used to be late at the call that rank 1 waits in.

    It came `before` seconds late to the one of the last epoch, `step` late to others.
    """
    made = []
    for seq in range(8):
        stack = 2 if seq in (3, 7) else 1
        late = before if stack == 2 else step * (seq % 3)
        made.append(entry(1, seq, 10 * seq, stack=stack))
        if seq < 7:
            made.append(entry(0, seq, 10 * seq + late + clock, stack=stack))
    call = {**CALLS.row(0, named=True), "seq": 7, "absent": [0], "done": []}
    wanted = tables.rows("calls", [call])
    gone = pl.Series("rank", [0])
    return moments.are_late_there(wanted, gone, tables.rows("collectives", made).lazy())


@pytest.mark.parametrize("clock", [0.0, 3_600.0, -3_600.0])
def test_a_rank_that_saves_while_others_wait_may_save_again(clock):
    assert late_there(5.0, clock=clock)
    assert not late_there(0.002, clock=clock)


def may_be_alone(program, gone=0, op="all_reduce", function="step"):
    """Whether a rank may be alone while its peer waits in the last call of a program.

    Calls of one letter are made at one place.
    """
    peer = 1 - gone
    made = [
        entry(peer, seq, seq, record_id=seq, stack=ord(letter), op=op)
        for seq, letter in enumerate(program)
    ]
    call = {"seq": len(program) - 1, "op": op, "waiting": [peer], "absent": [gone]}
    more = {"members": [0, 1], "stack": ord(program[-1])}
    wanted = tables.rows("calls", [{**CALLS.row(0, named=True), **call, **more}])
    way = tables.rows("stacks", [{"stack": ord(program[-1]), "function": function}])
    told = tables.rows("collectives", made).lazy()
    return moments.may_be_alone(wanted, pl.Series("rank", [gone]), told, way)


def test_a_first_rank_may_be_at_work_where_nobody_was_in_the_step_before():
    assert may_be_alone("iababs")
    assert may_be_alone("iababes")
    assert not may_be_alone("iababs", gone=1)


def test_a_first_rank_that_is_late_for_a_call_of_every_step_is_not_at_work_alone():
    assert not may_be_alone("iababa")
    assert not may_be_alone("iab")  # no step is known yet


def test_barriers_and_functions_that_save_need_no_history():
    assert may_be_alone("b", op="barrier")
    assert may_be_alone("s", function="save_checkpoint")
    assert not may_be_alone("s")
