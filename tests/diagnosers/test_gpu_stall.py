"""What one rank alone has not finished, on dumps written out by hand."""

import json
import os

import pytest

from ncclforensics.analysis import analyze

SECOND = 10**9
BEGAN = 1_790_000_000 * SECOND
RANKS = range(16)


def entry(number, op, state, *, is_p2p=False):
    began = BEGAN + number * SECOND
    started = None if state == "scheduled" else began
    return {
        "record_id": 2 * number + is_p2p,
        "pg_id": 0,
        "process_group": ["0", "default_pg"],
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "op_id": number,
        "profiling_name": f"nccl:{op}",
        "input_sizes": [[4]],
        "output_sizes": [[4]],
        "input_dtypes": ["Float"],
        "output_dtypes": ["Float"],
        "state": state,
        "is_p2p": is_p2p,
        "retired": state == "completed",
        "timeout_ms": 600_000,
        "time_created_ns": began,
        "time_discovered_started_ns": started,
        "time_discovered_completed_ns": began if state == "completed" else None,
        "frames": [],
    }


def analyzed(
    tmp_path, op, unfinished, *, next_call=True, late=700, batch=False, left_out=False
):
    """Analyze a job in which some ranks are in call 3, and the others behind it.

    These are in the `next_call`, or in none; the dumps are `late` seconds old. A
    `batch` of messages has number 3, too. The others have made that one alone if it is
    the one that was `left_out`.
    """
    for rank in RANKS:
        ends = "started" if rank in unfinished else "completed"
        made = [*(entry(n, "all_reduce", "completed") for n in (1, 2))]
        if not (left_out and rank not in unfinished):
            made.append(entry(3, op, ends))
        if batch and rank not in unfinished:
            made.append(entry(3, "coalesced", "completed", is_p2p=True))
        if next_call and rank not in unfinished:
            made.append(entry(4, "broadcast", "started"))
        told = {
            "version": "2.9",
            "pg_config": {
                "0": {"name": "0", "desc": "default_pg", "ranks": str([*RANKS])}
            },
            "pg_status": {},
            "entries": made,
        }
        file = tmp_path / f"nccl_trace_rank_{rank}.json"
        file.write_text(json.dumps(told))
        os.utime(file, (BEGAN // SECOND + late,) * 2)
    return analyze([str(tmp_path)])


def named(tmp_path, op, unfinished, **other):
    """Return the class and the ranks of the verdict on such a job, or None."""
    verdict = analyzed(tmp_path, op, unfinished, **other).ranked.verdict
    return (verdict.slug, verdict.ranks) if verdict else None


@pytest.mark.parametrize("op", ["broadcast", "reduce", "all_reduce"])
def test_one_rank_alone_has_not_finished_what_all_others_have(op, tmp_path):
    assert named(tmp_path, op, {2}) == ("gpu-stall", (2,))


def test_a_rank_that_holds_up_nobody_is_accused_only_of_a_passed_timeout(tmp_path):
    alone = {"next_call": False}
    assert named(tmp_path, "all_reduce", {2}, **alone) == ("gpu-stall", (2,))
    fresh = analyzed(tmp_path, "all_reduce", {2}, **alone, late=30)
    assert fresh.ranked.outcome == "inconclusive"
    assert fresh.ranked.verdict is None


def test_of_two_that_have_not_finished_a_broadcast_one_may_wait_for_the_other(tmp_path):
    found = named(tmp_path, "broadcast", {2, 3})
    assert found is None or found[1] == ()


def test_a_batch_of_messages_with_a_number_of_its_own_is_another_call(tmp_path):
    """torch 2.4 and 2.5 count batches with the collectives, later versions do not."""
    one, two = tmp_path / "own", tmp_path / "shared"
    one.mkdir()
    two.mkdir()
    found = named(one, "all_reduce", {2}, batch=True, left_out=True)
    assert found == ("collective-mismatch", (2,))
    assert named(two, "all_reduce", {2}, batch=True) == ("gpu-stall", (2,))


def test_a_rank_of_which_only_a_timeout_is_known_may_have_begun_its_call(tmp_path):
    assert named(tmp_path, "all_reduce", {2}) == ("gpu-stall", (2,))
    (tmp_path / "nccl_trace_rank_7.json").unlink()
    (tmp_path / "rank_7.log").write_text(
        "[rank7]:[E921 14:24:00.114475117 ProcessGroupNCCL.cpp:688] [PG ID 0 PG GUID "
        "0(default_pg) Rank 7] Watchdog "
        "caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=BROADCAST, "
        "NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600007 milliseconds before "
        "timing out.\n"
    )
    told = analyze([str(tmp_path)])
    verdict, calls = told.ranked.verdict, told.frames["calls"]
    assert (verdict.slug, verdict.ranks) == ("gpu-stall", (2,))
    assert 7 in calls.filter(seq=4)["waiting"].explode()
    assert calls["unstarted"].list.len().sum() == 0
