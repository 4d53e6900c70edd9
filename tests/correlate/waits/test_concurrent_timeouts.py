"""Jobs of which only lines are left: what each rank gave up, and how it ended."""

import json

import pytest

from log_lines import table, timeout, verdict
from ncclforensics.correlate.waits import concurrent_timeouts, roll_call
from ncclforensics.model import tables

STAMP = "[rank{rank}]:[E820 10:10:0{s}.596967190 ProcessGroupNCCL.cpp:"


def gave_up(rank, pg, desc, seq, op="ALLREDUCE", seat=None, second=0, named=True):
    """The two lines of a watchdog, of one call of one group; torch 2.6 and 2.4."""
    seat = rank if seat is None else seat
    head = STAMP.format(rank=rank, s=second)
    group = f"PG ID {pg} PG GUID {pg}({desc})" if named else f"PG {pg} ({desc})"
    status = (
        f"failure detected by watchdog at work sequence id: {seq} PG status: last "
        f"enqueued work: {seq}, last completed work: {seq - 1}"
        if named
        else "Exception (either an error or timeout) detected by watchdog at work: "
        f"{seq}, last enqueued NCCL work: {seq}, last completed NCCL work: {seq - 1}."
    )
    return (
        f"{head}632] [Rank {seat}] Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=64, NumelOut=64, "
        "Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n"
        f"{head}2271] [{group} Rank {seat}] {' ' if named else ''}{status}\n"
    )


def began(rank, world=4):
    return f"[rank{rank}] INFO start of rank {rank} of {world}\n"


def monitored(rank):
    """A rank that dumps and ends because another one asked for it."""
    head = STAMP.format(rank=rank, s=1)
    own = f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]"
    return (
        f"{head}1621] {own} Observed flight recorder dump signal from another rank via "
        "TCPStore.\n"
        + head.replace("[E", "[F")
        + f"1557] {own} {own} Terminating the process after attempting to dump debug "
        "info, due to collective timeout or exception.\n"
    )


def files(said):
    return {f"logs/rank_{rank}.log": text for rank, text in said.items()}


def row(analysis, group):
    """Who waits, who is behind, and who is not there, in the call of a group."""
    calls = analysis.frames["calls"].to_dicts()
    (call,) = [c for c in calls if c["group"].startswith(group)]
    return call["waiting"], call["behind"], [*call["absent"], *call["unseen"]]


@pytest.mark.parametrize("first", ["default_pg", "DP"])
def test_who_gave_up_two_calls_is_behind_in_the_one_that_lacks_nobody(analyzed, first):
    """Rank 3 evaluates: all others wait for it in one group, and with it in another.

    Which line comes first tells nothing.
    """
    said = {}
    for rank in range(3):
        two = {
            "default_pg": gave_up(rank, 0, "default_pg", 9, second=int(first == "DP")),
            "DP": gave_up(rank, 1, "DP", 5, second=int(first != "DP")),
        }
        said[rank] = two[first] + "".join(two[n] for n in two if n != first)
    said[3] = gave_up(3, 1, "DP", 5)
    found = analyzed(files(said))
    assert row(found, "1|DP") == ([3], [0, 1, 2], [])
    assert row(found, "0|") == ([0, 1, 2], [], [3])
    assert found.ranked.verdict.ranks == (3,)


def test_who_gave_up_two_calls_that_both_lack_somebody_waits_in_both(analyzed):
    said = {
        rank: gave_up(rank, 0, "default_pg", 9) + gave_up(rank, 1, "DP", 5)
        for rank in range(3)
    }
    said[3] = gave_up(3, 2, "TP", 7)
    found = analyzed(files(said))
    assert row(found, "0|") == ([0, 1, 2], [], [3])


def test_the_members_of_a_group_that_has_a_number_alone_are_told_by_seats(analyzed):
    said = {
        rank: gave_up(rank, 1, "EP", 5, op="_ALLGATHER_BASE", named=False)
        for rank in (1, 2, 3)
    }
    said[0] = gave_up(0, 0, "default_pg", 9, named=False)
    found = analyzed(files(said))
    (call,) = [c for c in found.frames["calls"].to_dicts() if "|EP|" in c["group"]]
    assert (call["members"], call["waiting"]) == ([0, 1, 2, 3], [1, 2, 3])
    assert 0 in (*call["absent"], *call["unseen"])


def test_numbers_of_batches_of_messages_are_no_calls_of_a_group(analyzed):
    """COALESCED ends a batch: each rank counts its own, and none is behind."""
    said = {
        rank: gave_up(rank, 1, "PIPE", 40 + 30 * rank, op="COALESCED")
        for rank in range(4)
    }
    found = analyzed(files(said))
    assert not [c for c in found.frames["calls"].to_dicts() if "PIPE" in c["group"]]
    assert found.ranked.verdict is None or found.ranked.verdict.ranks == ()


@pytest.mark.parametrize("code", [-6, -11])
def test_who_is_aborted_by_its_own_monitor_did_not_fail_by_itself(analyzed, code):
    said = {rank: gave_up(rank, 0, "default_pg", 9) for rank in range(3)}
    said[3] = began(3) + monitored(3)
    agent = table((3, code, 4103))
    found = analyzed({**files(said), "torchrun.log": agent})
    told = roll_call.call(found.frames)
    assert told.silent == (frozenset({3}) if code == -6 else frozenset())
    if code == -6:
        assert verdict(found)[:2] == ("missing-rank", (3,))


CLOSED = (
    "[rank{0}]:[W820 09:59:44.201245086 ProcessGroupNCCL.cpp:1496] Warning: WARNING: "
    "destroy_process_group() was not called before program exit, which can leak "
    "resources. (function operator())\n"
)


def test_who_is_alone_when_all_others_ended_in_peace_made_a_call_of_its_own(analyzed):
    said = {rank: began(rank) + CLOSED.format(rank) for rank in (1, 2, 3)}
    said[0] = began(0) + gave_up(0, 0, "default_pg", 9)
    found = analyzed(files(said))
    assert roll_call.call(found.frames).ended == {1, 2, 3}
    assert verdict(found)[:2] == ("rank-conditional-collective", (0,))


def test_who_ended_in_peace_while_others_wait_ran_out_of_data(analyzed):
    said = {rank: gave_up(rank, 0, "default_pg", 9) for rank in range(3)}
    said[3] = began(3) + CLOSED.format(3)
    found = analyzed(files(said))
    assert verdict(found)[:2] == ("uneven-inputs", (3,))
    # the look-alike: it was heard, and did not say that it ended
    said[3] = began(3)
    assert verdict(analyzed(files(said)))[:2] == ("missing-rank", (3,))


def test_ranks_that_say_that_they_leave_ended_with_those_that_exited(analyzed):
    """torch says so of one rank, and the lines of the other six themselves."""
    everyone = {"name": "0", "desc": "default_pg", "ranks": str([*range(8)])}
    call = {"profiling_name": "nccl:all_reduce_barrier", "pg_id": 0, "is_p2p": False}
    call |= {"pg_name": "0", "process_group": ["0", "default_pg"], "p2p_seq_id": 0}
    made = [
        {**call, "collective_seq_id": n, "op_id": n, "record_id": n, "state": state}
        for n, state in enumerate(["completed"] * 9 + ["scheduled"])
    ]
    dump = {"version": "2.10", "pg_config": {"0": everyone}, "entries": made}
    away = "".join(began(r, 8) + f"[rank {r}] group closed, bye\n" for r in range(2, 8))
    here = began(1, 8) + CLOSED.format(1)
    here += began(0, 8) + gave_up(0, 0, "default_pg", 9)
    said = {"node0.log": here, "node1.log": away, "trace_rank_0": json.dumps(dump)}
    assert verdict(analyzed(said))[:2] == ("rank-conditional-collective", (0,))
    # the look-alike: the six do not say that they left
    said["node1.log"] = away.replace("group closed, bye", "step 12")
    assert verdict(analyzed(said))[:2] == ("uneven-inputs", (1,))


def test_who_ended_in_peace_is_waited_for_where_numbers_have_no_group_too(analyzed):
    said = {rank: timeout(rank) for rank in range(3)}
    said[3] = began(3) + CLOSED.format(3)
    assert verdict(analyzed(files(said)))[:2] == ("uneven-inputs", (3,))


def test_a_log_that_is_empty_among_full_ones_was_lost(analyzed):
    """Who says nothing is silent only where it would have told how it began."""
    said = {rank: gave_up(rank, 0, "default_pg", 9) for rank in range(3)}
    start = "gpu0001:400{0}:400{0} [{0}] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n"
    full = {rank: start.format(rank) + text for rank, text in said.items()}
    assert roll_call.call(analyzed(files({**full, 3: ""})).frames).silent == frozenset()
    assert roll_call.call(analyzed(files({**said, 3: ""})).frames).silent == {3}


def test_numbers_of_messages_are_their_rank_s_own_and_of_no_group(analyzed):
    said = {
        0: gave_up(0, "3", "PIPE", 9, "SEND"),
        1: gave_up(1, "3", "PIPE", 7, "RECV"),
        2: gave_up(2, "3", "PIPE", 7, "RECV") + gave_up(2, "1", "TP", 4, seat=0),
    }
    found = analyzed(files(said))
    groups = [call["group"] or "" for call in found.frames["calls"].to_dicts()]
    assert not [group for group in groups if group.startswith("3|")]
    assert row(found, "1|TP")[0] == [2]


def test_in_a_group_of_which_one_rank_alone_tells_a_message_may_be_of_anybody(analyzed):
    """That rank 0 also gave up tells nothing: the group may have other members."""
    said = {rank: gave_up(rank, 1, "learner", 13) for rank in (0, 2, 3)}
    said[1] = gave_up(1, 7, "exchange", 4, "RECV")
    found = analyzed(files(said))
    assert found.ranked.verdict is None or found.ranked.verdict.ranks == ()
    assert not [c for c in found.frames["calls"].to_dicts() if c["is_p2p"]]


HELLO = "Hello from rank {rank} of 4 on {host} with 2 GPUs\n"


def test_a_program_that_says_its_rank_says_where_it_runs(analyzed):
    hosts = {0: "tiger-i14g2", 1: "tiger-i14g2", 2: "node012", 3: "node012"}
    log = "".join(HELLO.format(rank=r, host=h) for r, h in hosts.items())
    ranks = analyzed({"job.log": log}).frames["ranks"]
    assert dict(ranks.select("rank", "host").iter_rows()) == hosts
    devices = "".join(f"rank {r}/4 using cuda:{r}\n" for r in range(4))
    ranks = analyzed({"job.log": devices}).frames["ranks"]
    assert ranks["host"].null_count() == 4


def test_a_rank_that_spoke_in_the_stream_of_the_others_is_silent_there(analyzed):
    log = "".join(began(r) for r in range(4)) + "".join(timeout(r) for r in (0, 1, 3))
    assert roll_call.call(analyzed({"job.log": log}).frames).silent == {2}


@pytest.mark.parametrize("differs", [True, False])
def test_a_call_with_two_operations_holds_its_ranks_whatever_lacks_others(
    analyzed, differs
):
    """Ranks 4 to 7 were not collected: the call of all lacks them, or their logs do."""
    said = {
        rank: began(rank, 8)
        + gave_up(rank, 0, "default_pg", 9)
        + gave_up(
            *(rank, 5, "TP", 40),
            op="REDUCE_SCATTER" if differs and rank == 2 else "ALLGATHER",
        )
        for rank in range(4)
    }
    found = verdict(analyzed(files(said)))
    if differs:
        assert found[:2] == ("collective-mismatch", (2,))
    else:
        assert found == "inconclusive" or 2 not in found[1]


@pytest.mark.parametrize(("is_p2p", "torn"), [(False, {0}), (True, set())])
def test_a_message_has_two_operations_by_nature(is_p2p, torn):
    told = {"group": "1|PP", "seq": 0, "is_p2p": is_p2p}
    calls = tables.rows("calls", [{**told, "call": 0, "op": "send"}])
    held = [{**told, "rank": n, "op": op} for n, op in enumerate(("send", "recv"))]
    found = concurrent_timeouts._differing(calls, tables.rows("held", held))
    assert found == torn
