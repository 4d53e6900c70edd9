"""Who is rank 7: every kind of evidence that tells, and what must not be believed."""

import json

import polars as pl
import pytest
from nccl_text import header, init, rank_log

from log_lines import table, timeout, traceback


@pytest.fixture
def who(analyzed):
    """Return {rank: (host, pid)} of some files."""

    def run(files):
        analysis = analyzed(files)
        ranks = analysis.frames["ranks"].select("rank", "host", "pid").rows()
        return {rank: (host, pid) for rank, host, pid in ranks}

    return run


def using(host, pid):
    return f"{header(host, pid)}Using network Socket\n"


def test_a_path_tells(who):
    files = {"gpu0001/rank_7.log": using("gpu0001", 41)}
    assert who(files) == {7: ("gpu0001", 41)}


@pytest.mark.parametrize("told_by", ["the file beside it", "the agent"])
def test_a_file_in_torchruns_folder_is_its_ranks(analyzed, told_by):
    place = "logs/none_x/attempt_0/1"
    fatal = "Fatal Python error: Segmentation fault\n"
    files = {f"gpu0002/{place}/stderr.log": fatal}
    if told_by == "the agent":
        files["torchrun-gpu0002.log"] = table((3, 1, 44, 1), host="gpu0002")
    else:
        for r in range(4):
            folder = f"gpu000{1 + r // 2}/logs/none_x/attempt_0/{r % 2}"
            line = init(f"gpu000{1 + r // 2}", 41 + r, r, 4, "START")
            files[f"{folder}/stdout.log"] = f"{line}\n"
    analysis = analyzed(files)
    fatal = analysis.frames.message("python.fatal")
    assert fatal["rank"].to_list() == [3]


def test_a_communicator_of_all_ranks_tells(who):
    log = "\n".join(
        init(f"gpu000{1 + r // 2}", 41 + r, r, 4, "START") for r in range(4)
    )
    assert who({"job.log": log + "\n"}) == {
        0: ("gpu0001", 41),
        1: ("gpu0001", 42),
        2: ("gpu0002", 43),
        3: ("gpu0002", 44),
    }


def test_the_ranks_of_smaller_communicators_tell_nothing(who):
    """Two groups of two: nobody says which of them holds rank 0 of the job."""
    lines = [
        init("gpu0001", 41, 0, 2, "START", "0xa"),
        init("gpu0001", 42, 1, 2, "START", "0xa").replace("busId 7000", "busId f000"),
        init("gpu0002", 43, 0, 2, "START", "0xb"),
        init("gpu0002", 44, 1, 2, "START", "0xb").replace("busId 7000", "busId f000"),
    ]
    assert who({"job.log": "\n".join(lines) + "\n"}) == {}


def test_two_files_of_one_process_are_one_process(who):
    log = "\n".join(init("gpu0001", 41 + r, r, 2, "START") for r in range(2)) + "\n"
    files = {"slurm.out": log, "nccl.gpu0001.41.log": log.splitlines()[0] + "\n"}
    assert who(files) == {0: ("gpu0001", 41), 1: ("gpu0001", 42)}


def test_a_restart_on_the_same_gpus_still_tells(who):
    def wave(pid, comm):
        return "".join(
            init("gpu0001", pid + r, r, 2, "START", comm).replace(
                "busId 7000", f"busId {r + 1}000"
            )
            + "\n"
            for r in range(2)
        )

    assert set(who({"job.log": wave(41, "0xa") + wave(51, "0xb")})) == {0, 1}


def test_the_agents_table_tells(who):
    text = table((7, 1, 977, 1), host="gpu0003.example.org")
    files = {"torchrun.log": text, "nccl.gpu0003.977.log": using("gpu0003", 977)}
    assert who(files)[7] == ("gpu0003", 977)


def test_an_error_file_has_the_rank_of_its_folder_on_one_node(analyzed):
    error = {"message": {"message": "ValueError: x", "extraInfo": {"timestamp": "1"}}}
    analysis = analyzed(
        {
            "none_a/attempt_0/1/error.json": json.dumps(error),
            "none_a/attempt_0/0/stderr.log": "[rank0]: ValueError: y\n",
            "torchrun.log": table((1, 1, 977, 1), host="gpu0001"),
        }
    )
    assert analysis.frames.message("torchelastic.error_file")["rank"].to_list() == [1]


def test_equal_pids_on_two_hosts_are_two_processes(who):
    lines = [init(f"gpu000{1 + r}", 41, r, 2, "START") for r in range(2)]
    assert who({"job.log": "\n".join(lines) + "\n"}) == {
        0: ("gpu0001", 41),
        1: ("gpu0002", 41),
    }


def test_a_rank_prefix_gives_its_name_to_the_file_of_one_process(analyzed):
    error = "[rank7]: Traceback (most recent call last):\n[rank7]: ValueError: x\n"
    frames = analyzed({"a.log": using("gpu0001", 41) + error}).frames
    assert frames.message("nccl.net.selected")["rank"].to_list() == [7]


@pytest.mark.parametrize(("prefix", "told"), [("[rank7]", 7), ("[rank5]", 7)])
def test_the_agent_knows_whose_a_process_is_better_than_a_prefix(
    analyzed, prefix, told
):
    frames = analyzed(
        {
            "torchrun.log": table((7, 1, 41, 1), host="gpu0001"),
            "a.log": using("gpu0001", 41) + f"{prefix}: ValueError: x\n",
        }
    ).frames
    assert frames.message("nccl.net.selected")["rank"].to_list() == [told]


def test_a_rank_prefix_in_a_stream_of_many_names_its_own_line_only(analyzed):
    error = "[rank7]: Traceback (most recent call last):\n[rank7]: ValueError: x\n"
    text = using("gpu0001", 41) + error + using("gpu0001", 42)
    frames = analyzed({"a.log": text}).frames
    assert frames.message("nccl.net.selected")["rank"].to_list() == [None, None]


def test_a_local_rank_of_several_hosts_in_one_stream_is_no_rank(analyzed):
    """srun labels the tasks of torchrun, which labels its workers."""
    lines = [
        f"{task}: [default{local}]:{using(f'gpu000{task}', 41 + local)}"
        for task in (1, 2, 3)
        for local in (0, 1)
    ]
    raised = "1: [default0]:[rank0]: ValueError: x\n"
    frames = analyzed({"slurm-7.out": "".join(lines) + raised}).frames
    told = frames["events"].filter(pl.col("local_rank") == 0).drop_nulls("host")
    assert {*told.filter(pl.col("host") != "gpu0001")["rank"]} == {None}


def test_a_stream_of_several_local_ranks_is_nobodys_own(analyzed):
    text = (
        "[default2]:Fatal Python error: Segmentation fault\n"
        "[default3]:[rank3]: Traceback (most recent call last):\n"
        "[default3]:[rank3]: ValueError: x\n" + using("gpu0001", 41)
    )
    frames = analyzed({"a.log": text}).frames
    assert frames.message("python.fatal")["rank"].to_list() == [2]
    assert frames.message("nccl.net.selected")["rank"].to_list() == [None]


def test_a_spawned_childs_number_is_that_of_the_traceback_under_it(analyzed):
    text = (
        "torch.multiprocessing.spawn.ProcessRaisedException: \n\n"
        "-- Process 1 terminated with the following error:\n"
        "Traceback (most recent call last):\n"
        '  File "/job/train.py", line 8, in main\n'
        "    step()\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB\n"
    )
    frames = analyzed({"a.log": text}).frames
    assert frames.message("python.traceback")["rank"].to_list() == [1]
    assert frames.message("python.cuda_oom")["rank"].to_list() == [1]


def test_two_hosts_for_one_rank_are_a_note_and_no_host(analyzed):
    files = {
        "a/rank_3.log": using("gpu0001", 41),
        "b/rank_3.log": using("gpu0002", 41),
    }
    frames = analyzed(files).frames
    assert frames["ranks"]["host"].to_list() == [None]
    assert any("claimed by 2 hosts" in text for text in frames["notes"]["text"])


def test_a_name_with_and_without_its_domain_is_one_host(analyzed):
    files = {
        "rank_7.log": using("gpu0003", 977),
        "torchrun.log": table((7, 1, 977, 1), host="gpu0003.ex.org"),
    }
    frames = analyzed(files).frames
    assert frames["ranks"]["host"].to_list() == ["gpu0003"]
    assert not any("claimed by" in text for text in frames["notes"]["text"])


def test_what_another_writer_left_on_the_line_is_no_part_of_the_host(analyzed):
    text = using("gpu0001", 41) * 3 + "     2097152   float   sum   -1"
    frames = analyzed({"a.log": text + using("gpu0001", 41)}).frames
    assert set(frames["events"]["host"]) == {"gpu0001"}


CRASH = "{task}: Traceback (most recent call last):\n{task}: ValueError: x\n"


def test_a_task_of_slurm_is_a_rank_where_lines_show_it(analyzed):
    text = "".join(
        f"{r}: {init('gpu0001', 41 + r, r, 4, 'START')}\n" for r in range(4)
    ) + CRASH.format(task=2)
    frames = analyzed({"slurm.out": text}).frames
    assert frames.message("python.traceback")["rank"].to_list() == [2]


def test_a_task_of_slurm_that_is_an_agent_is_no_rank(analyzed):
    agent = (
        "{task}: W0801 13:23:17.366000 3{task} "
        "torch/distributed/elastic/multiprocessing"
        "/api.py:900] Sending process 77 closing signal SIGTERM\n"
    )
    text = "".join(f"{r}: {init('gpu0001', 41 + r, r, 2, 'START')}\n" for r in range(2))
    text += agent.format(task=1) + CRASH.format(task=1)
    frames = analyzed({"slurm.out": text}).frames
    assert frames.message("python.traceback")["rank"].to_list() == [None]


def test_a_task_of_several_processes_is_no_rank(analyzed):
    text = "".join(
        f"{r // 2}: {init('gpu0001', 41 + r, r, 4, 'START')}\n" for r in range(4)
    )
    frames = analyzed({"slurm.out": text + CRASH.format(task=1)}).frames
    assert frames.message("python.traceback")["rank"].to_list() == [None]


def test_the_device_and_the_order_of_files_tell_nothing(who):
    assert who({"a.log": using("gpu0001", 41), "b.log": using("gpu0001", 42)}) == {}


def test_the_order_of_lines_changes_nothing(who):
    logs = {f"x{r}.log": rank_log(r, [], 4) for r in range(4)}
    again = {f"y{3 - r}.log": text for r, text in enumerate(logs.values())}
    assert who(logs) == who(again)


OLD = (
    "{before}[E ProcessGroupNCCL.cpp:474] [Rank {rank}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=7, OpType={op}, NumelIn=4, NumelOut=4, "
    "Timeout(ms)=600000) ran for {ran} milliseconds before timing out.\n"
)


def old(rank, ran=600001, before="", op="ALLREDUCE"):
    return OLD.format(rank=rank, ran=ran, before=before, op=op)


def spoken(analyzed, text):
    frames = analyzed({"job.log": text}).frames
    return frames.message("c10d.watchdog.timeout")["rank"].to_list()


def test_the_rank_in_a_group_is_the_global_one_where_there_is_one_group(analyzed):
    assert spoken(analyzed, old(1) + old(0, 600003)) == [1, 0]
    nodes = "".join(old(8 + r, before=f"[default{r}]:") for r in range(2))
    assert spoken(analyzed, nodes) == [8, 9]


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        # two processes are rank 0, each of its own group
        (old(0, 600001) + old(0, 600002), [None, None]),
        # local rank 3 cannot be global rank 1; on the only node it is rank 3
        (old(0, before="[default2]:") + old(1, before="[default3]:"), [2, 3]),
        (old(1, before="[default1]:") + old(1, before="[default5]:"), [1, 5]),
        # the job has groups of two sizes
        (
            old(1)
            + f"{init('gpu0001', 41, 0, 4, 'START')}\n"
            + f"{init('gpu0001', 42, 0, 2, 'START', '0xb')}\n",
            [None],
        ),
        # another process names a group of its own
        (
            old(1) + "[rank2]:[E ProcessGroupNCCL.cpp:1182] [PG 3 Rank 0] Timeout at "
            "NCCL work: 7, last enqueued NCCL work: 9, last completed NCCL work: 6.\n",
            [None],
        ),
    ],
    ids=["same", "below", "two", "sizes", "named"],
)
def test_the_rank_in_a_group_is_not_believed_where_there_are_more(
    analyzed, text, ranks
):
    assert spoken(analyzed, text) == ranks


ENDED = (
    "srun: error: node-a: tasks 0-1: Aborted (core dumped)\n"
    "srun: error: node-b: tasks 2-3: Terminated\n"
)


def test_srun_tells_the_hosts_of_tasks_that_are_ranks(who):
    found = who(
        {"slurm-1.out": "".join(f"{r}: {timeout(r)}" for r in range(3)) + ENDED}
    )
    assert found == {r: (f"node-{'ab'[r // 2]}", None) for r in range(4)}


def test_tasks_that_start_several_ranks_tell_no_hosts(who):
    found = who({"slurm-1.out": "".join(timeout(r) for r in range(8)) + ENDED})
    assert {host for host, _ in found.values()} == {None}


CLOSED = (
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] "
    "Connection closed by peer [10.0.0.1]:31466."
)
AGENT = "{} 41006 torch/distributed/elastic/multiprocessing/api.py:{}] {}\n"


def shortened(pids):
    """What is left of a console: victims, whom the agent ended, and who failed."""
    ended = "".join(
        AGENT.format(
            "W1121 09:49:40.844000",
            1028,
            f"Sending process {pid} closing signal SIGTERM",
        )
        for pid in pids
    )
    failed = "failed (exitcode: 1) local_rank: 2 (pid: 41011) of binary: /bin/python3"
    return (
        "".join(traceback(rank, CLOSED) for rank in (1, 3))
        + ended
        + AGENT.format("E1121 09:49:40.930000", 1002, failed)
    )


def test_a_local_rank_is_the_rank_if_the_agents_processes_are_all_that_spoke(analyzed):
    ranked = analyzed({"out.txt": shortened((41009, 41010, 41012))}).ranked
    assert ranked.outcome == "inconclusive"
    assert [s.rank for s in ranked.suspects] == [2]


def test_a_local_rank_is_none_if_more_spoke_than_the_agent_ran(analyzed):
    ranked = analyzed({"out.txt": shortened((41010,))}).ranked
    assert 2 not in [s.rank for s in ranked.suspects]


FAILED = "failed (exitcode: -11) local_rank: 0 (pid: {}) of binary: /bin/python3"


@pytest.mark.parametrize(
    ("more", "pid", "host"),
    [
        ("", 41, "gpu0001"),
        ("", 42, None),
        # containers of two hosts often have equal pids
        (using("gpu0002", 77), 41, None),
    ],
)
def test_an_agent_that_names_a_process_has_its_host_from_nccl(who, more, pid, host):
    agent = AGENT.format("E1121 09:49:40.930000", 1002, FAILED.format(pid))
    told = who({"job.log": using("gpu0001", 41) + more + agent})
    assert {h for h, _ in told.values()} <= {host}
