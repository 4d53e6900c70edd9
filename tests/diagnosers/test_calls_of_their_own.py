"""Ranks that wait in another call than those that timed out, and those at work."""

import json

import pytest

from log_lines import table, timeout, verdict

TORCH = '  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"'
RESET = "RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:525] Read error [10.0.0.2]:4731: Connection reset by peer"
LATE = "RuntimeError: [/pytorch/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 300000ms for recv operation to complete"
WATCHDOG = (
    "[E ProcessGroupNCCL.cpp:475] [Rank {seat}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={numel}, NumelOut={numel}, "
    "Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n"
)


def raised(rank, op, line, last):
    lines = (
        "Traceback (most recent call last):",
        f'  File "/job/train.py", line {line}, in main',
        f"{TORCH}, line 3252, in {op}",
        last,
    )
    return "".join(f"[rank{rank}]: {text}\n" for text in lines)


def watchdog(seat, seq, op, numel=4096):
    return WATCHDOG.format(seat=seat, seq=seq, op=op, numel=numel)


def step_of(*ranks):
    return {f"rank{r}.log": watchdog(r, 71, "ALLREDUCE") for r in ranks}


def test_ranks_in_a_barrier_of_their_own_left_their_loop(analyzed):
    ends = {f"rank{r}.log": raised(r, "barrier", 88, RESET) for r in (4, 5)}
    found = analyzed({**step_of(0, 1, 2, 3), **ends})
    assert verdict(found)[:2] == ("uneven-inputs", (4, 5))


def test_who_lost_its_peers_in_the_same_kind_of_call_is_in_no_other(analyzed):
    ends = {f"rank{r}.log": raised(r, "all_reduce", 41, RESET) for r in (4, 5)}
    found = analyzed({**step_of(0, 1, 2, 3), **ends})
    assert verdict(found)[0] not in ("uneven-inputs", "rank-conditional-collective")


def test_a_barrier_of_nccl_is_an_all_reduce_of_one_element(analyzed):
    first = {f"rank{r}.log": watchdog(r, 71, "ALLREDUCE", 1) for r in range(4)}
    ends = {f"rank{r}.log": raised(r, "barrier", 88, RESET) for r in (4, 5)}
    assert verdict(analyzed({**first, **ends})) == "inconclusive"


def test_two_places_in_the_code_are_no_two_groups(analyzed):
    """One rank gathers what comes after the step in which its peers timed out."""
    steps = {f"rank{r}.log": raised(r, "all_reduce", 41, LATE) for r in range(3)}
    found = analyzed({**steps, "rank3.log": raised(3, "all_gather", 43, LATE)})
    assert verdict(found)[:2] == ("rank-conditional-collective", (3,))


def test_of_two_places_with_as_many_ranks_neither_is_surely_odd(analyzed):
    calls = (("all_reduce", 41), ("all_gather", 43))
    found = analyzed(
        {f"rank{r}.log": raised(r, *calls[r // 2], LATE) for r in range(4)}
    )
    assert found.ranked.verdict.slug != "call-order-deadlock"
    assert found.ranked.verdict.confidence == "possible"


def ring(*collective):
    """Rank 2 gave up its receive first; the others lose their connections."""
    return {
        f"rank{r}.log": raised(r, "all_reduce", 60, RESET)
        if r in collective
        else raised(r, "recv", 30, LATE if r == 2 else RESET)
        for r in range(4)
    }


def test_the_one_rank_in_a_collective_owes_a_message(analyzed):
    found = analyzed(ring(1))
    assert verdict(found)[:2] == ("unmatched-p2p", (1,))
    assert "all_reduce" not in found.ranked.verdict.collective.op


@pytest.mark.parametrize("collective", [(), (0, 1)])
def test_of_none_or_two_it_is_not_known_who_owes_it(analyzed, collective):
    assert verdict(analyzed(ring(*collective))) == "inconclusive"


STAMP = "08/20/2026 {} - INFO - datasets.builder - Found cached dataset\n"
BAR = "\rRunning tokenizer: {:3}%|###  | {}/900 [{}<40:00, 1.2 examples/s]"
ENDS = table((1, -6, 4001), (2, -6, 4002), (3, -6, 4003), (0, -15, 4000))


def console(since, *bars):
    """Ranks 1 to 3 gave up at 10:10:00, after ten minutes; rank 0 logs nothing more."""
    drawn = "".join(BAR.format(n, 9 * n, at) for n, at in bars) + "\n"
    lines = "".join(timeout(rank) for rank in (1, 2, 3))
    return {"job.log": STAMP.format(since) + drawn + lines + ENDS}


def test_a_bar_drawn_late_in_the_wait_is_of_the_rank_that_does_not_wait(analyzed):
    found = analyzed(console("09:59:50", (0, "00:00"), (40, "10:00")))
    assert verdict(found)[:2] == ("straggler", (0,))
    assert any("tokenizer" in c.text for c in found.ranked.verdict.evidence)


def test_a_bar_that_stood_still_proves_no_work(analyzed):
    found = analyzed(console("07:00:00", (0, "00:00"), (40, "2:50:10")))
    assert verdict(found)[:2] == ("missing-rank", (0,))


def test_numbers_of_several_groups_are_not_compared(analyzed):
    """Ranks 4 and 5 are a pair of their own: their numbers show nothing of 6 and 7."""
    whole = {f"rank{r}.log": watchdog(r, 4, "ALLREDUCE", 1) for r in range(8) if r != 4}
    whole["rank5.log"] += watchdog(1, 45, "_ALLGATHER_BASE")
    for seat, rank in enumerate((6, 7)):
        whole[f"rank{rank}.log"] += watchdog(seat, 46, "_ALLGATHER_BASE")
    whole["rank4.log"] = "step 2\n"
    assert verdict(analyzed(whole))[:2] == ("missing-rank", (4,))


def nodes(many, each=2):
    return {
        f"gx{node:02}.log": "".join(
            timeout(r) for r in range(each * node, each * (node + 1))
        )
        for node in range(many)
    }


def test_all_ranks_of_many_hosts_without_a_gap_are_all(analyzed):
    found = analyzed(nodes(32))
    assert found.ranked.verdict.slug == "stuck-in-collective"
    assert found.ranked.outcome == "failure"
    assert verdict(found)[1:] == ((), ())


def test_of_two_hosts_a_third_may_be_missing(analyzed):
    assert analyzed(nodes(2)).ranked.outcome == "inconclusive"


def test_who_ended_by_the_signal_that_the_interpreter_tells(analyzed):
    died = "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f31 (most recent call first):\n"
    ends = table((2, -11, 4002), (0, -6, 4000), (1, -6, 4001), (3, -6, 4003))
    found = analyzed({"job.log": died + ends})
    assert verdict(found)[:2] == ("crashed-rank", (2,))


def stage(rank, line, code, last="15:07:15 step 25 done"):
    """A stage of a pipeline that gave up a message in this line of code."""
    usual = "".join(f"15:07:{n:02} step {n} done\n" for n in (5, 10, 15))
    lines = (
        "Traceback (most recent call last):",
        f'  File "/job/pipe.py", line {line}, in main',
        f"    {code}",
        f"{TORCH}, line 2799, in recv",
        LATE,
    )
    raised_ = "".join(f"[rank{rank}]: {text}\n" for text in lines)
    return f"{usual}{last}\n{raised_}"


def dump(rank):
    """Gloo records no message: only the barrier at the start, whose end it missed."""
    begun = {"record_id": 0, "pg_id": 0, "process_group": ["0", "default_pg"]}
    begun |= {"collective_seq_id": 1, "p2p_seq_id": 0, "op_id": 1, "is_p2p": False}
    begun |= {"profiling_name": "gloo:barrier", "time_created_ns": 1795878179950000000}
    begun |= {"input_sizes": [], "output_sizes": [], "state": "scheduled"}
    begun |= {"retired": False, "timeout_ms": 30000, "frames": []}
    group = {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}
    told = {"version": "2.10", "rank": rank, "pg_config": {"0": group}}
    return json.dumps(told | {"pg_status": {}, "entries": [begun]})


def pipeline(odd_words, before="R - 1", behind="R + 1"):
    """Ranks 0 and 1 wait for gradients, 2 and 3 for what comes from the stage before."""
    files = {f"fr_stage{rank}.json": dump(rank) for rank in range(4)}
    for rank in range(4):
        line, code = (30, f"g, {behind}") if rank < 2 else (21, f"x, {before}")
        said = {"last": odd_words} if odd_words and rank == 2 else {}
        files[f"stage{rank}.log"] = stage(rank, line, f"dist.recv({code})", **said)
    return files


def test_of_two_stages_that_wait_for_each_other_the_one_with_a_line_of_its_own(
    analyzed,
):
    found = analyzed(pipeline("step 27 mb 0: non-finite activations, dropping it"))
    assert verdict(found)[:2] == ("unmatched-p2p", (2,))


def test_without_such_a_line_both_are_suspected_and_none_accused(analyzed):
    found = analyzed(pipeline(""))
    assert found.ranked.outcome == "inconclusive"
    assert {s.rank for s in found.ranked.suspects[:2]} == {1, 2}


def test_where_the_code_does_not_tell_the_neighbour_no_pair_is_found(analyzed):
    found = analyzed(pipeline("step 27 mb 0: dropping it", before="src", behind="src"))
    assert not (found.ranked.verdict and found.ranked.verdict.ranks)


def evaluation(*tags):
    """Rank 0 waits in a call after the end; lines have these tags of their ranks."""
    said = [f"[{tag}] exit 0\n" for tag in tags if tag]
    before = "".join(f"[{tag}] all epochs done\n" for tag in tags)
    console = f"{before}[0] evaluating the test set\n{''.join(said)}{timeout(0)}"
    return {"fr_rank0.json": dump(0).replace("gloo", "nccl"), "console.log": console}


def test_who_waits_for_ranks_that_said_so_in_a_shared_log_is_in_a_call_of_its_own(
    analyzed,
):
    found = analyzed(evaluation(0, 1, 2, 3))
    assert verdict(found)[:2] == ("rank-conditional-collective", (0,))
    assert "They are through" in found.ranked.verdict.explanation


def test_tags_that_are_not_all_the_ranks_count_something_else(analyzed):
    found = analyzed(evaluation(0, 1, 2, 3, 4))
    assert not (found.ranked.verdict and found.ranked.verdict.ranks)
