"""Calls that lines tell of: by their numbers, by places in the code, by silence."""

from pathlib import Path

import polars as pl
import pytest

from log_lines import table, timeout, traceback
from ncclforensics.analysis import analyze
from ncclforensics.correlate.traces import call_sites, groupless_timeouts
from ncclforensics.correlate.waits import line_meetings, roll_call
from ncclforensics.evidence import common
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames

LISTS = ("waiting", "behind", "done", "absent", "unseen")
NOBODY = tables.empty("calls")
NOWHERE = tables.empty("standings")
GLOO = (
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] "
    "Timed out waiting 7000ms for recv operation to complete"
)
CLOSED = (
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] "
    "Connection closed by peer [10.0.0.1]:41000"
)
PAIRS = "RuntimeError: Application timeout caused pair closure"
STEP = "2026-08-20 09:59:00,000 step 6 loss 1.0\n"
TORCH = '  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"'


@pytest.fixture
def frames(tmp_path):
    def read(logs):
        for name, text in logs.items():
            path = tmp_path / (name if isinstance(name, str) else f"rank_{name}.log")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return analyze([str(tmp_path)]).frames

    return read


def meetings(frames, calls=NOBODY, standings=NOWHERE):
    return line_meetings.meetings(frames, calls, standings)


def told(found):
    return [
        {c: row[c] for c in ("seq", "op", *LISTS) if row[c] not in (None, [])}
        for row in found.to_dicts()
    ]


def raised(rank, last=GLOO, function="step", op="all_reduce", line=8):
    head = f"[rank{rank}]: "
    rows = (
        "Traceback (most recent call last):",
        f'  File "/job/train.py", line {line}, in {function}',
        f"{TORCH}, line 3252, in {op}",
        "    work.wait()",
        last,
    )
    return STEP + "".join(f"{head}{row}\n" for row in rows)


def gave_up(rank, seq, op="ALLREDUCE"):
    line = timeout(rank).replace("SeqNum=7", f"SeqNum={seq}")
    return STEP + line.replace("OpType=ALLREDUCE", f"OpType={op}")


# by silence


@pytest.mark.parametrize(
    ("start", "state"),
    [("", "absent"), ("node:7:7 [0] NCCL INFO cudaDriverVersion 12040\n", "unseen")],
)
def test_an_empty_stderr_is_silence_unless_all_others_show_a_start(
    frames, start, state
):
    """Other ranks printed nothing there before they raised: it may well be empty."""
    attempt = "none_x/attempt_0"
    logs = {f"{attempt}/{rank}/stdout.log": STEP for rank in range(4)}
    errors = {
        f"{attempt}/{rank}/stderr.log": start + raised(rank).removeprefix(STEP)
        for rank in (0, 1, 3)
    }
    (row,) = meetings(
        frames({**logs, **errors, f"{attempt}/2/stderr.log": ""})
    ).to_dicts()
    assert row[state] == [2]


def test_the_rank_whose_log_is_there_and_silent_is_absent(frames):
    seen = frames({0: raised(0), 1: raised(1), 2: STEP, 3: raised(3)})
    (row,) = meetings(seen).to_dicts()
    assert (row["waiting"], row["absent"], row["unseen"]) == ([0, 1, 3], [2], [])
    assert (row["group"], row["pg"], row["op"]) == (
        "lines|silence?",
        None,
        "all_reduce",
    )
    assert (row["source"], row["line"]) == ("rank_0.log", 6)
    assert row["members"] == [0, 1, 2, 3]


def test_its_place_in_the_code_is_a_stack(frames):
    seen = frames({0: raised(0), 1: raised(1), 2: STEP, 3: raised(3)})
    (row,) = meetings(seen).to_dicts()
    stacks = pl.concat([seen["stacks"], call_sites.stacks(seen)]).unique()
    seen.tables["stacks"] = stacks
    assert common.call_site(seen, row["stack"]) == "train.py:8 step"


def test_who_lost_a_peer_to_a_timeout_waited_as_well(frames):
    seen = frames({0: raised(0), 1: raised(1, CLOSED), 2: STEP, 3: raised(3, PAIRS)})
    assert roll_call.call(seen).timed_out == {0, 3}
    assert told(meetings(seen)) == [
        {"op": "all_reduce", "waiting": [0, 1, 3], "absent": [2]}
    ]


def test_one_early_timeout_tells_of_nobody(frames):
    logs = {"job.log": raised(0) + table((0, 1, 10), (1, -15, 11), (2, -15, 12))}
    seen = frames({**logs, 0: raised(0), 1: STEP, 2: STEP})
    assert meetings(seen).is_empty()


def test_of_many_silent_ones_nobody_is_absent(frames):
    logs = {rank: raised(rank) if rank < 2 else STEP for rank in range(6)}
    assert told(meetings(frames(logs))) == [
        {"op": "all_reduce", "waiting": [0, 1], "unseen": [2, 3, 4, 5]}
    ]


def test_whose_log_was_not_collected_is_unseen(frames):
    logs = {rank: raised(rank) for rank in (0, 1, 3)}
    agent = table((0, 1, 10), (1, 1, 11), (2, -15, 12), (3, 1, 13))
    assert told(meetings(frames({**logs, "agent.log": agent}))) == [
        {"op": "all_reduce", "waiting": [0, 1, 3], "unseen": [2]}
    ]


def test_a_rank_that_ended_in_peace_is_no_silent_one_and_did_not_come(frames):
    logs = {rank: raised(rank) for rank in (0, 1, 3)}
    agent = table((0, 1, 10), (1, 1, 11), (3, 1, 13))
    seen = frames({**logs, 2: STEP, "agent.log": agent})
    assert roll_call.call(seen).ended == roll_call.call(seen).apart == {2}
    assert told(meetings(seen)) == [
        {"op": "all_reduce", "waiting": [0, 1, 3], "absent": [2]}
    ]


def test_a_rank_that_failed_by_itself_is_no_silent_one_nor_is_whom_its_end_took(frames):
    logs = {rank: raised(rank) for rank in range(4)}
    mine = traceback(4, "ValueError: loss is nan")
    seen = frames({**logs, 4: mine, 5: STEP})
    assert roll_call.call(seen).apart == {4}
    assert roll_call.call(seen).silent == frozenset()
    assert meetings(seen).is_empty()


def test_who_was_interrupted_by_hand_was_silent_until_then(frames):
    ended = STEP + traceback(2, "KeyboardInterrupt")
    seen = frames({0: raised(0), 1: raised(1), 2: ended, 3: raised(3)})
    assert told(meetings(seen))[0]["absent"] == [2]


def test_a_timeout_of_an_earlier_attempt_is_none_of_this_one(frames):
    logs = {
        f"logs/attempt_{attempt}/{rank}/stderr.log": text
        for attempt, rank, text in (
            *((0, rank, raised(rank)) for rank in (0, 1, 3)),
            *((1, rank, STEP) for rank in range(4)),
            (0, 2, STEP),
        )
    }
    assert meetings(frames(logs)).is_empty()


def test_a_barrier_names_who_did_not_come(frames):
    named = "[rank0]: RuntimeError: [Rank 0]: Ranks 1 failed to pass monitoredBarrier in 6000 ms\n"
    seen = frames({0: STEP + named, 1: STEP, 2: STEP, 3: STEP})
    assert told(meetings(seen)) == [
        {"op": "monitored_barrier", "waiting": [0], "absent": [1], "unseen": [2, 3]}
    ]


REACHED = (
    "RuntimeError: Rank {} successfully reached monitoredBarrier, but received errors "
    "while waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank."
)


@pytest.mark.parametrize(("others", "absent"), [((1, 2), [3]), ((1, 2, 3), None)])
def test_rank_0_of_a_barrier_failed_for_those_that_did_not_come(frames, others, absent):
    """Its own output is lost, and its agent saw it end first, with code 1."""
    logs = {
        rank: raised(rank, REACHED.format(rank), op="monitored_barrier")
        for rank in others
    }
    logs |= dict.fromkeys({1, 2, 3} - {*others}, STEP)
    logs["agent.log"] = table((0, 1, 410), (1, 1, 411), (2, 1, 412))
    rows = meetings(frames(logs)).to_dicts()
    assert [row["absent"] for row in rows] == ([absent] if absent else [])


def test_of_nothing_nothing_is_told():
    assert meetings(Frames()).is_empty()
    assert call_sites.stacks(Frames()).is_empty()


# by place


def test_two_places_make_a_circle(frames):
    logs = {rank: raised(rank) for rank in (1, 2, 3)}
    seen = frames({0: raised(0, function="evaluate", op="all_gather", line=20), **logs})
    assert told(meetings(seen)) == [
        {"op": "all_gather", "waiting": [0], "absent": [1, 2, 3]},
        {"op": "all_reduce", "waiting": [1, 2, 3], "absent": [0]},
    ]


def test_the_two_sides_of_a_broadcast_stand_at_one_place(frames):
    logs = {rank: raised(rank, op="broadcast", line=9) for rank in (1, 2, 3)}
    seen = frames({0: raised(0, op="broadcast"), **logs})
    assert told(meetings(seen)) == [{"op": "broadcast", "waiting": [0, 1, 2, 3]}]


def test_who_sends_a_message_makes_no_circle(frames):
    logs = {rank: raised(rank) for rank in (1, 2, 3)}
    seen = frames({0: raised(0, function="pipe", op="recv", line=20), **logs})
    rows = {tuple(row["waiting"]): row for row in meetings(seen).to_dicts()}
    assert rows[(0,)]["is_p2p"]
    assert [row["absent"] for row in rows.values()] == [[], []]


def stages(frames, ranks, functions):
    """Waiting and absent ranks of messages of stages; the other ranks reduce."""
    logs = {rank: raised(rank) for rank in range(8)}
    for rank, function in zip(ranks, functions, strict=True):
        op = function.partition("_")[0]
        logs[rank] = raised(rank, function=function, op=op, line=20 + rank)
    rows = meetings(frames(logs)).to_dicts()
    return [(*row["waiting"], *row["absent"]) for row in rows if row["is_p2p"]]


FOUR = ("recv_backward", "send_forward", "recv_backward", "recv_forward")


def test_the_names_of_functions_tell_with_which_stage_a_message_is(frames):
    waits = stages(frames, (1, 3, 5, 7), FOUR)
    assert waits == [(1, 3), (3, 5), (5, 7), (7, 5)]


def test_of_a_message_that_both_stages_are_in_neither_waits(frames):
    functions = ("send_forward", "recv_forward", "recv_forward", "recv_forward")
    waits = stages(frames, (1, 3, 5, 7), functions)
    assert waits == [(5, 3), (7, 5), (1,), (3,)]


@pytest.mark.parametrize("ranks", [(1, 2, 5, 7), (1, 3)])
def test_ranks_at_other_distances_and_pairs_are_no_pipeline(frames, ranks):
    assert {len(w) for w in stages(frames, ranks, FOUR[: len(ranks)])} == {1}


SPY = """Process {pid}: /opt/venv/bin/python3 -u train.py
Python v3.11.7 (/opt/python3.11/bin/python3.11)

Thread {pid} (idle): "MainThread"
{stack}    main (train.py:110)
"""
IN_CALL = """    all_gather (torch/distributed/distributed_c10d.py:3252)
    wrapper (torch/distributed/c10d_logger.py:83)
    step (train.py:71)
"""


def test_py_spy_alone_shows_who_is_at_work(frames):
    at_work = "    collate (train.py:24)\n"
    on_gpu = "    synchronize (torch/cuda/__init__.py:985)\n    step (train.py:75)\n"
    logs = {
        f"rank_{rank}.txt": SPY.format(pid=100 + rank, stack=stack)
        for rank, stack in enumerate((IN_CALL, IN_CALL, at_work, IN_CALL, on_gpu))
    }
    (row,) = told(meetings(frames(logs)))
    assert (row["op"], row["waiting"], row["absent"]) == ("all_gather", [0, 1, 3], [2])


# by number


@pytest.mark.parametrize(
    ("function", "op"),
    [
        ("recv_forward", "recv"),
        ("_exec_send_grads", "send"),
        ("all_reduce_grads", "all_reduce"),
        ("send_to_device", None),
        ("pad_batch", None),
    ],
)
def test_a_function_that_is_named_for_its_call_waits_in_it(frames, function, op):
    """What waits in C++ leaves no frame: py-spy shows the function that made the call."""
    below = f"    communicate (pp/p2p.py:88)\n    {function} (pp/p2p.py:120)\n"
    seen = call_sites.looked(frames({"spy.txt": SPY.format(pid=11, stack=below)}))
    assert [*seen["op"]] == [op]


def test_native_frames_would_show_the_call(frames):
    below = "    poll (libc.so.6)\n    recv_forward (pp/p2p.py:88)\n"
    seen = call_sites.looked(frames({"spy.txt": SPY.format(pid=11, stack=below)}))
    assert [*seen["op"]] == [None]


def test_a_number_without_a_group_is_a_call_of_all(frames):
    seen = frames({0: gave_up(0, 7), 1: gave_up(1, 7), 2: STEP, 3: gave_up(3, 7)})
    (row,) = meetings(seen).to_dicts()
    assert (row["group"], row["seq"], row["op"]) == ("lines|7?", 7, "ALLREDUCE")
    assert (row["waiting"], row["absent"]) == ([0, 1, 3], [2])
    assert row["t"].strftime("%H:%M:%S") == "09:59:59"  # the line's, less what it ran


def test_numbers_far_apart_are_two_groups_that_wait_for_each_other(frames):
    logs = {rank: gave_up(rank, 1505645, "_ALLGATHER_BASE") for rank in (0, 1)}
    logs |= {rank: gave_up(rank, 1505766, "ALLGATHER") for rank in (2, 3)}
    assert told(meetings(frames(logs))) == [
        {"seq": 1505645, "op": "_ALLGATHER_BASE", "waiting": [0, 1], "absent": [2, 3]},
        {"seq": 1505766, "op": "ALLGATHER", "waiting": [2, 3], "absent": [0, 1]},
    ]


def test_of_numbers_far_apart_both_wait_for_whom_nobody_heard(frames):
    logs = {rank: gave_up(rank, 100) for rank in (0, 1)}
    logs |= {rank: gave_up(rank, 900, "ALLGATHER") for rank in (2, 3)}
    found = told(meetings(frames({**logs, 4: STEP})))
    assert [row["absent"] for row in found] == [[4], [4]]


def test_the_root_of_a_broadcast_may_be_calls_ahead_of_those_in_it(frames):
    """Rank 3 is known by the sizes of the gather alone."""
    gather = gave_up(0, 411240, "_ALLGATHER_BASE")
    gather = gather.replace("NumelIn=1, NumelOut=1", "NumelIn=513, NumelOut=2052")
    logs = {rank: gave_up(rank, 411238, "BROADCAST") for rank in (1, 2)}
    first, second = told(meetings(frames({0: gather, **logs})))
    assert first["op"] == "BROADCAST"
    assert (first["waiting"], first["done"]) == ([1, 2], [0])
    assert (second["waiting"], second["behind"]) == ([0], [1, 2])
    assert second["unseen"] == [3]


def test_counters_that_may_be_close_by_chance_are_of_two_groups(frames):
    logs = {rank: gave_up(rank, 38, "BROADCAST") for rank in (1, 2)}
    found = told(meetings(frames({0: gave_up(0, 40, "ALLGATHER"), **logs})))
    assert [row["absent"] for row in found] == [[0], [1, 2]]


def test_one_who_is_a_number_behind_its_peers_is_stalled(frames):
    logs = {rank: gave_up(rank, 8) for rank in (1, 2, 3)}
    assert told(meetings(frames({0: gave_up(0, 7), **logs}))) == [
        {"seq": 7, "op": "ALLREDUCE", "waiting": [0], "done": [1, 2, 3]},
        {"seq": 8, "op": "ALLREDUCE", "waiting": [1, 2, 3], "behind": [0]},
    ]


def test_two_operations_of_one_number_can_be_compared(frames):
    logs = {rank: gave_up(rank, 2070, "REDUCE") for rank in range(4)}
    seen = frames({**logs, 4: gave_up(4, 2070)})
    assert told(meetings(seen)) == [
        {"seq": 2070, "op": "REDUCE", "waiting": [0, 1, 2, 3, 4]}
    ]
    votes = groupless_timeouts.grouped(seen).group_by("group", "timed_out").agg("op")
    assert votes["group"].to_list() == ["lines|2070?"]
    assert sorted(votes["op"][0]) == ["ALLREDUCE"] + ["REDUCE"] * 4


def test_two_numbers_of_one_rank_are_two_groups(frames):
    both = gave_up(0, 7) + gave_up(0, 8, "ALLGATHER")
    seen = frames({0: both, 1: gave_up(1, 8, "ALLGATHER"), 2: gave_up(2, 7)})
    rows = meetings(seen).to_dicts()
    assert [(row["group"], row["waiting"]) for row in rows] == [
        ("lines|7?", [0, 2]),
        ("lines|8?", [0, 1]),
    ]


# beside calls that dumps tell of


def call(waiting, unseen, **more):
    row = {"call": 4, "group": "0|default_pg||1", "pg": "0", "seq": 5, "is_p2p": False}
    lists = {c: [] for c in (*LISTS, "unstarted")}
    told = {"waiting": waiting, "unseen": unseen, "members": [*waiting, *unseen]}
    return tables.rows("calls", [{**row, "op": "all_reduce", **lists, **told, **more}])


def test_of_ranks_that_calls_place_nothing_is_added(frames):
    seen = frames({0: raised(0), 1: raised(1), 2: STEP, 3: raised(3)})
    assert meetings(seen, call([0, 1, 3], [], absent=[2])).is_empty()


def test_the_unseen_member_of_a_call_was_silent(frames):
    seen = frames({0: raised(0), 1: raised(1), 2: STEP, 3: raised(3)})
    dumped = call([0, 1], [2, 3])
    found = meetings(seen, dumped)
    assert found["call"].to_list() == [5]
    assert told(found) == [
        {"seq": 5, "op": "all_reduce", "waiting": [0, 1, 3], "absent": [2]}
    ]
    assert told(line_meetings.joined(dumped, found)) == told(found)
    assert line_meetings.joined(dumped, found)["call"].to_list() == [0]


@pytest.mark.parametrize(("known", "absent"), [([], [[2]]), ([4], [])])
def test_beside_a_rank_known_to_be_absent_silence_is_no_proof(frames, known, absent):
    seen = frames({0: raised(0), 1: raised(1), 2: STEP, 3: raised(3)})
    found = meetings(seen, call([0, 1, 3], [2], absent=known))
    assert found["absent"].to_list() == absent


def test_bare_numbers_give_way_to_the_call_with_members(frames):
    seen = frames({0: gave_up(0, 7), 1: gave_up(1, 7), 2: STEP, 3: gave_up(3, 7)})
    bare = call([0, 1, 3], [], members=None, group="|||?", pg=None, seq=7)
    found = meetings(seen, bare)
    assert line_meetings.joined(bare, found)["group"].to_list() == ["lines|7?"]


# real jobs, each rank started by itself

JOBS = Path(__file__).parents[2] / "fixtures" / "jobs"
APART = {
    "torch-apart-missing-rank": [
        {"op": "all_reduce", "waiting": [0, 1, 3], "absent": [2]},
    ],
    "torch-apart-rank-conditional": [
        {"op": "all_gather", "waiting": [0], "absent": [1, 2, 3]},
        {"waiting": [1, 2, 3], "absent": [0]},
    ],
    "torch-apart-uneven-inputs": [
        {"waiting": [0, 1, 2], "absent": [3]},
        {"op": "barrier", "waiting": [3], "absent": [0, 1, 2]},
    ],
    "torch-monitored-barrier-unheard": [
        {"op": "monitored_barrier", "waiting": [2, 3], "unseen": [0, 1]},
    ],
    "torch-first-timeout-only": [],
    "torch-exit-in-peace": [{"op": "all_reduce", "waiting": [0, 1, 3], "absent": [2]}],
    "torch-crashed-rank-lingers": [],
    "torch-healthy": [],
}


@pytest.mark.parametrize("job", APART)
def test_real_jobs_without_a_dump(job):
    assert told(meetings(analyze([str(JOBS / job / "evidence")]).frames)) == APART[job]


GAVE_UP = (
    "[rank{0}]:[E820 10:10:00.5 ProcessGroupNCCL.cpp:629] [Rank {0}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=146, OpType=ALLTOALL_BASE, NumelIn=8, "
    "NumelOut=8, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.\n"
    "[rank{0}]:[E820 10:10:00.6 ProcessGroupNCCL.cpp:2168] [PG ID 5 PG GUID 50(EXPERT) "
    "Rank {0}]  failure detected by watchdog at work sequence id: 146 PG status: last "
    "enqueued work: 148, last completed work: 145\n"
)


@pytest.mark.parametrize(
    ("size", "slug"), [(4, "stuck-in-collective"), (8, None), ("", None)]
)
def test_a_group_that_holds_the_whole_job_has_no_other_members(tmp_path, size, slug):
    told = f"using world size: {size}, data-parallel size: {size}, tensor-model-\n"
    log = told + "".join(GAVE_UP.format(rank) for rank in range(4))
    (tmp_path / "job.log").write_text(log)
    found = analyze([str(tmp_path)]).ranked
    assert (found.verdict.slug if found.outcome == "failure" else None) == slug


def passing(rank, code, line):
    """Return what a rank prints that times out in a message, with its line of code."""
    at = f'  File "/job/stage.py", line {line}, in <module>'
    lines = raised(rank, op="recv").replace(
        '  File "/job/train.py", line 8, in step', f"{at}\n[rank{rank}]:     {code}"
    )
    assert at in lines
    return lines


@pytest.mark.parametrize(
    ("next_", "before", "met"),
    [
        ("dist.recv(g, src=S + 1)", "dist.recv(h, src=S - 1)", {(2, 3), (1, 2)}),
        # who these are, and how many ranks hold one stage, is not said
        ("dist.recv(g, src=next_stage)", "dist.recv(h, src=prev_stage)", set()),
    ],
)
def test_code_that_names_the_next_rank_tells_who_waits_for_whom(
    frames, next_, before, met
):
    logs = {rank: passing(rank, next_, 21) for rank in range(3)}
    logs[3] = passing(3, before, 12)
    calls = frames(logs)["calls"].filter("is_p2p")
    waits = {
        (min(row["waiting"]), min(row["absent"]))
        for row in calls.to_dicts()
        if row["absent"]
    }
    assert {pair for pair in waits if min(pair) > 0} == met | (
        {(3, 2)} if met else set()
    )
