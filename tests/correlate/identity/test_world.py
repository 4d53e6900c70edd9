"""Which ranks a job has, whose they are, and who of them was alive to the end."""

import pytest

from ncclforensics.analysis import analyze
from ncclforensics.correlate.exits import agent_processes
from ncclforensics.correlate.identity import world
from ncclforensics.correlate.waits import roll_call

SAID = (
    "[default{local}]:[E ProcessGroupNCCL.cpp:474] [Rank {group}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={few}, "
    "NumelOut={many}, Timeout(ms)=600000) ran for 600029 milliseconds before timing "
    "out.\n"
)
ENTRY = (
    "[{n}]:\n  time      : 2026-08-20_10:10:00\n  host      : {host}\n"
    "  rank      : {rank} (local_rank: {local})\n  exitcode  : {code} (pid: {pid})\n"
    "  error_file: <N/A>\n  traceback : Signal 6 (SIGABRT) received by PID {pid}\n"
)
CLOSING = (
    "W0820 10:10:00.100000 3000 torch/distributed/elastic/multiprocessing/api.py:900] "
    "Sending process {pid} closing signal SIGTERM\n"
)


@pytest.fixture
def read(tmp_path):
    def frames(**logs):
        for name, text in logs.items():
            (tmp_path / f"{name}.log").write_text(text)
        return analyze([str(tmp_path)]).frames

    return frames


def said(local, seq=7, op="ALLREDUCE", few=8, many=8, group=None):
    group = local if group is None else group
    return SAID.format(local=local, group=group, seq=seq, op=op, few=few, many=many)


def table(host, ranks, first, told=()):
    rows = [
        ENTRY.format(
            n=n, host=host, rank=rank, local=rank - first, code=-6, pid=4000 + rank
        )
        for n, rank in enumerate(ranks)
    ]
    line, bar = "-" * 60 + "\n", "=" * 60 + "\n"
    head = f"{bar}train.py FAILED\n{line}Failures:\n"
    root = f"{line}Root Cause (first observed failure):\n{rows[0]}{bar}"
    closing = "".join(CLOSING.format(pid=pid) for pid in told)
    return closing + head + "".join(rows[1:]) + root


def test_ranks_have_no_gaps(read):
    frames = read(job="".join(f"[rank{r}]: step 1 loss 2.0\n" for r in (0, 5)))
    assert world.ranks(frames) == frozenset(range(6))


def test_a_gather_tells_how_many_there_are(read):
    frames = read(job=said(0, op="_ALLGATHER_BASE", few=16, many=128))
    assert world.ranks(frames) == frozenset(range(8))


def test_a_program_says_how_many_there_are(read):
    frames = read(job="[init] rank 5/8 ready\n")
    assert world.ranks(frames) == frozenset(range(8))
    assert frames["ranks"]["rank"].to_list() == [5]


def test_who_counts_from_one_tells_no_rank(read):
    frames = read(job="[init] rank 5/8 ready\n[init] rank 8/8 ready\n")
    assert world.said(frames).is_empty()


def test_who_was_told_to_end_and_is_not_listed_was_alive(read):
    spoke = "".join(said(local) for local in (0, 2, 3))
    frames = read(gpu0001=spoke + table("gpu0001", (0, 2, 3), 0, told=(4001,)))
    assert agent_processes.lived(frames) == {1}
    assert roll_call.call(frames).silent == {1}


def test_a_number_beyond_the_listed_ones_ended_in_peace(read):
    frames = read(gpu0001=table("gpu0001", (0, 1, 3), 0, told=(4000,)))
    assert agent_processes.ranks(frames) == {0, 1, 3}
    assert agent_processes.lived(frames) == {0}


def test_the_crew_without_a_list_has_the_ranks_that_are_left(read):
    told = "".join(CLOSING.format(pid=pid) for pid in (5000, 5001))
    frames = read(gpu0001=table("gpu0001", (0, 1), 0, told=(4000,)), agent=told)
    assert agent_processes.lived(frames) >= {2, 3}
    assert world.ranks(frames) == frozenset(range(4))


def test_ranks_of_a_node_are_numbered_in_turn(read):
    spoke = "".join(said(local, group=0) for local in (0, 2, 3))
    frames = read(agent0002=spoke + table("gpu0002", (8, 10), 8, told=(4011,)))
    lines = frames.message("c10d.watchdog.timeout")
    assert sorted(lines["rank"].to_list()) == [8, 10, 11]
    assert sorted(frames["positions"]["rank"].drop_nulls().unique()) == [8, 10, 11]


def test_stacks_behind_a_launcher_are_read(read):
    frames = read(
        job="[default0]:[rank0]:[E820 10:10:00.596967190 ProcessGroupNCCL.cpp:670] "
        "Stack trace of the failed collective: \n"
        "[default0]:#0 all_reduce from /x/site-packages/torch/distributed/distributed_c10d.py:2778\n"
        "[default1]:#0 of_another from /job/train.py:1\n"
        "[default0]:#1 step from /job/train.py:10\n"
    )
    found = frames.message("c10d.watchdog.stack")
    assert found["function"].to_list() == ["all_reduce", "step"]


def test_one_number_at_two_places_is_two_calls(read):
    def stands(rank, place):
        return (
            f"[rank{rank}]:[E820 10:10:00.596967190 ProcessGroupNCCL.cpp:632] [Rank "
            f"{rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, "
            "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for "
            "600029 milliseconds before timing out.\n"
            f"[rank{rank}]:[E820 10:10:00.596967190 ProcessGroupNCCL.cpp:2271] [PG ID 0 "
            f"PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work "
            "sequence id: 7 PG status: last enqueued work: 7, last completed work: 6\n"
            f"[rank{rank}]:[E820 10:10:00.596967190 ProcessGroupNCCL.cpp:670] Stack "
            "trace of the failed collective: \n"
            "#0 all_reduce from /x/site-packages/torch/distributed/distributed_c10d.py:2778\n"
            f"#1 {place} from /job/train.py:{len(place)}\n"
        )

    frames = read(
        **{f"rank_{r}": stands(r, "step" if r else "evaluate") for r in range(4)}
    )
    waiting = sorted(frames["calls"]["waiting"].to_list())
    assert waiting == [[0], [1, 2, 3]]
