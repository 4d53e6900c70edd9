"""What stacks show of the ranks while the job hangs names whom they wait for."""

import json
import os

import pytest

from log_lines import open_call, timeout, verdict

WAITS = (
    "    all_reduce (torch/distributed/distributed_c10d.py:3252)\n"
    "    wrapper (torch/distributed/c10d_logger.py:83)\n"
    "    step (train.py:40)\n"
)
SAVES = "    save (checkpoint.py:88)\n    step (train.py:52)\n"
SYNCHRONIZES = "    synchronize (torch/cuda/__init__.py:1083)\n    step (train.py:44)\n"


def spied(*stacks):
    """A dump of ranks 0, 1, 2, ... on one host, their pids, and a file each."""
    files = {}
    for rank, stack in enumerate(stacks):
        pid = 500 + rank
        files[f"rank_{rank}.log"] = (
            f"gpu0001:{pid}:{pid} [{rank}] NCCL INFO comm 0x7f00 rank {rank} nranks "
            f"{len(stacks)} cudaDev {rank} busId {rank + 1}000 commId 0xabc - Init "
            "COMPLETE\n"
        )
        files[f"spy/{pid}.txt"] = (
            f"Process {pid}: python train.py\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
            f'Thread {pid} (idle): "MainThread"\n{stack}    <module> (train.py:99)\n'
        )
    return files


def test_the_rank_in_other_code_is_who_the_others_wait_for(analyzed):
    files = spied(WAITS, WAITS, SAVES, WAITS) | {"job.log": timeout(0)}
    analysis = analyzed(files)
    assert verdict(analysis) == ("missing-rank", (2,), ("gpu0001",))
    assert "checkpoint.py:88 save" in analysis.ranked.verdict.explanation
    assert analysis.ranked.verdict.collective.op == "all_reduce"


def test_without_a_proof_that_the_job_stands_it_is_only_possible(analyzed):
    """One that saves looks the same in a job that runs."""
    analysis = analyzed(spied(WAITS, WAITS, SAVES, WAITS))
    assert verdict(analysis) == ("missing-rank", (2,), ("gpu0001",))
    assert analysis.ranked.verdict.confidence == "possible"


def test_a_rank_that_waits_for_its_gpu_is_not_in_other_code(analyzed):
    files = spied(WAITS, WAITS, SYNCHRONIZES, WAITS) | {"job.log": timeout(0)}
    ranked = analyzed(files).ranked
    assert ranked.outcome != "failure" or ranked.verdict.confidence == "possible"


def test_where_half_of_the_ranks_are_elsewhere_nobody_is_named(analyzed):
    files = spied(WAITS, SAVES, SAVES, WAITS) | {"job.log": timeout(0)}
    ranked = analyzed(files).ranked
    assert ranked.outcome != "failure" or ranked.verdict.confidence == "possible"


FORWARD = "    forward (model.py:12)\n    step (train.py:30)\n"
THREAD = 'Thread 0x00007f01 (most recent call first):\n  File "/job/train.py", line '
ROOT = '  File "/job/train.py", line 99 in <module>\n'
REDUCES = (
    'Thread 0x00007f01 (most recent call first):\n  File "/opt/venv/lib/python3.12/site-'
    'packages/torch/distributed/distributed_c10d.py", line 3252 in all_reduce\n'
    f'  File "/job/train.py", line 40 in step\n{ROOT}'
)
SAVED = f"{THREAD}52 in save\n{ROOT}"
CRASHED = f"Fatal Python error: Segmentation fault\n\n{SAVED}"
GDB = """Thread 2 (Thread 0x7f02 (LWP 6{rank}) "pt_gloo_runloop"):
#0  epoll_wait (epfd=3) at ../sysdeps/unix/sysv/linux/epoll_wait.c:30
#1  0x00007f7c in {helper} () from /opt/venv/lib/libtorch_cpu.so

Thread 1 (Thread 0x7f01 (LWP 5{rank}) "python"):
#0  0x00007f7c in {main} () from /opt/venv/lib/libtorch_cpu.so
#1  0x0000563d in step (n=4) at solver.c:88
"""


def ranks(*texts):
    return {f"rank_{rank}.log": text for rank, text in enumerate(texts)}


def test_faulthandler_alone_is_enough(analyzed):
    analysis = analyzed(ranks(REDUCES, REDUCES, SAVED, REDUCES))
    assert verdict(analysis) == ("missing-rank", (2,), ())
    assert "train.py:52 save" in analysis.ranked.verdict.explanation
    assert analysis.ranked.verdict.confidence == "possible"


def test_the_stack_of_a_crash_is_not_where_a_rank_waits(analyzed):
    ranked = analyzed(ranks(REDUCES, REDUCES, CRASHED, REDUCES)).ranked
    assert "dumped" not in ranked.verdict.explanation


def test_gdb_shows_a_call_by_the_helper_thread_that_is_awaited(analyzed):
    helper = "c10d::AsyncAllreduceWork::run"
    waits = [
        GDB.format(rank=r, helper=helper, main="c10d::Work::wait") for r in range(4)
    ]
    waits[1] = GDB.format(rank=1, helper="gloo::Loop::run", main="read")
    analysis = analyzed(ranks(*waits))
    assert verdict(analysis) == ("missing-rank", (1,), ())
    assert analysis.ranked.verdict.collective.op == "all_reduce"


def test_headings_tell_whose_stack_it_is(analyzed):
    text = "".join(
        f"=== Rank {rank}: http://gpu0001:4{rank}/handler/dump_traceback? ===\n{stack}\n"
        for rank, stack in enumerate([REDUCES, SAVED, REDUCES, REDUCES])
    )
    analysis = analyzed({"stacks_20261120_101010.txt": text})
    assert verdict(analysis) == ("missing-rank", (1,), ("gpu0001",))


def stacks_alone(*stacks, states=None):
    """Dumps of py-spy in files that name the rank."""
    states = states or ["idle"] * len(stacks)
    return {
        f"rank_{rank}.txt": f"Process {500 + rank}: python train.py\n\n"
        f'Thread {500 + rank} ({state}): "MainThread"\n{stack}    <module> (train.py:99)\n'
        for rank, (stack, state) in enumerate(zip(stacks, states, strict=True))
    }


def test_fifteen_wait_and_one_saves(analyzed):
    analysis = analyzed(stacks_alone(*[WAITS] * 15, SAVES))
    assert verdict(analysis) == ("missing-rank", (15,), ())


def test_hosts_that_wait_for_their_gpus_wait_for_the_one_that_does_not(analyzed):
    gpus = [SYNCHRONIZES, SYNCHRONIZES, SAVES, SYNCHRONIZES]
    assert verdict(analyzed(stacks_alone(*gpus))) == ("missing-rank", (2,), ())


def test_a_rank_on_a_cpu_is_suspected_but_not_accused(analyzed):
    """In a job that goes on somebody comes last."""
    states = ["idle", "idle", "active+gil", "idle"]
    ranked = analyzed(stacks_alone(WAITS, WAITS, FORWARD, WAITS, states=states)).ranked
    assert ranked.outcome == "inconclusive"
    assert ranked.suspects[0].rank == 2


def test_ranks_in_many_places_accuse_nobody(analyzed):
    ranked = analyzed(stacks_alone(WAITS, SAVES, FORWARD, SAVES)).ranked
    assert ranked.outcome == "inconclusive"
    states = ["active", "idle", "active", "active"]
    stacks = stacks_alone(FORWARD, SAVES, FORWARD, FORWARD, states=states)
    work = analyzed(stacks).ranked
    assert work.outcome == "no-failure"


def test_processes_of_unknown_rank_are_told_by_their_pid(analyzed):
    files = stacks_alone(WAITS, WAITS, SAVES, WAITS)
    analysis = analyzed({"all.txt": "".join(files.values())})
    assert analysis.ranked.outcome == "inconclusive"
    told = [n for n in analysis.ranked.not_checked if n.slug == "missing-rank"]
    assert "pid 502 is in checkpoint.py:88 save" in told[0].missing


def under_pods(*stacks, state="idle"):
    """The dumps of pods whose process has the same number in each, in one file."""
    dump = (
        "## pod llm-%d\nProcess 1: python train.py\nPython v3.11.7 (/usr/bin/python3)\n\n"
        'Thread 1 (%s): "MainThread"\n%s    <module> (train.py:99)\n\n'
    )
    return {"spy.txt": "".join(dump % (n, state, s) for n, s in enumerate(stacks))}


def test_the_pod_in_other_code_is_named_where_no_rank_is_known(analyzed):
    analysis = analyzed(under_pods(WAITS, WAITS, SAVES, WAITS))
    assert verdict(analysis) == ("missing-rank", (), ("llm-2",))
    assert analysis.ranked.verdict.confidence == "possible"
    assert "checkpoint.py:88 save" in analysis.ranked.verdict.explanation


@pytest.mark.parametrize(
    ("stacks", "state"),
    [
        ((WAITS, WAITS, SAVES, WAITS), "active"),
        ((WAITS, SAVES, SAVES, WAITS), "idle"),
        ((SYNCHRONIZES,) * 3, "idle"),
    ],
)
def test_pods_that_run_or_stand_in_many_places_accuse_none(analyzed, stacks, state):
    ranked = analyzed(under_pods(*stacks, state=state)).ranked
    assert (ranked.outcome, ranked.verdict) == ("inconclusive", None)


def test_the_thread_that_trains_counts_and_not_the_one_that_joins_it(analyzed):
    joins = "    join (threading.py:1119)\n    main (train.py:25)\n"
    files = {
        name: text.replace(
            '"MainThread"\n',
            f'"MainThread"\n{joins}    <module> (train.py:99)\n'
            'Thread 900 (idle): "TrainThread"\n',
        )
        for name, text in stacks_alone(WAITS, WAITS, SAVES, WAITS).items()
    }
    assert verdict(analyzed(files)) == ("missing-rank", (2,), ())


def idle(*lines):
    """Return the main thread's stack of each rank, in no call, as py-spy numbers them."""
    return {
        f"spy_{rank}.txt": (
            f"Process {500 + rank}: python train.py\nPython v3.11.7 (/usr/bin/python3)\n\n"
            f'Thread {500 + rank} (idle): "MainThread"\n    step (train.py:{line})\n'
            "    <module> (train.py:99)\n"
        )
        for rank, line in enumerate(lines)
    }


def test_where_most_ranks_stand_idle_at_one_line_they_wait(analyzed):
    """The gradients' all_reduce is called in C++, and leaves no frame."""
    analysis = analyzed(idle(40, 40, 40, 52))
    assert analysis.ranked.verdict.ranks == (3,)
    assert analysis.ranked.verdict.confidence == "possible"


def test_ranks_that_stand_at_many_lines_do_not_wait_for_each_other(analyzed):
    assert analyzed(idle(40, 40, 52, 61)).ranked.verdict is None


def test_ranks_that_run_at_one_line_do_not_wait(analyzed):
    files = {
        name: text.replace("(idle)", "(active)")
        for name, text in idle(40, 40, 40, 52).items()
    }
    assert analyzed(files).ranked.verdict is None


@pytest.mark.parametrize(
    ("file", "named"), [("torch/nn/utils/clip_grad.py:36", [3]), ("kernels.py:36", [])]
)
def test_a_host_may_spin_for_a_result_of_its_gpu_in_code_of_torch(
    analyzed, file, named
):
    """It reads a norm, which the gradients' all_reduce has to finish before."""
    files = {
        name: text.replace("(idle)", "(active)").replace(
            "    step (train.py:40)", f"    clip ({file})\n    step (train.py:40)"
        )
        for name, text in idle(40, 40, 40, 52).items()
    }
    analysis = analyzed(files)
    assert [s.rank for s in analysis.ranked.suspects] == named
    assert (analysis.ranked.outcome == "no-failure") == (not named)


@pytest.mark.parametrize(("ranks", "named"), [(16, [15]), (6, [])])
def test_so_many_at_one_line_wait_whether_or_not_their_hosts_spin(
    analyzed, ranks, named
):
    files = {
        name: text.replace("(idle)", "(active)") if name != "spy_15.txt" else text
        for name, text in idle(*[40] * (ranks - 1), 52).items()
    }
    ranked = analyzed(files).ranked
    assert [s.rank for s in ranked.suspects] == named
    assert ranked.verdict is None or ranked.verdict.confidence == "possible"


COMPILES = (
    "    Popen.wait (subprocess.py:1264)\n    compile_kernel (kernels.py:19)\n"
    "    step (train.py:40)\n"
)


def test_ranks_that_wait_for_other_processes_are_in_no_call_of_cpp(analyzed):
    """The frames of Python's own modules show what a process waits for."""
    files = stacks_alone(COMPILES, COMPILES, COMPILES, SAVES)
    assert analyzed(files).ranked.verdict is None


def test_native_frames_show_whether_a_process_is_in_a_call_of_cpp(analyzed):
    def on(frame):
        stack = f"    {frame}\n    step (train.py:40)\n"
        return stacks_alone(stack, stack, stack, SAVES)

    assert analyzed(on("0x7f53 (libnccl.so.2)")).ranked.verdict.ranks == (3,)
    assert analyzed(on("clock_nanosleep (libc.so.6)")).ranked.verdict is None


def test_where_ranks_stood_twice_is_said_and_blames_none(analyzed, tmp_path):
    analyzed({f"first/{k}": v for k, v in stacks_alone(*[COMPILES] * 4).items()})
    for file in (tmp_path / "evidence").rglob("*.txt"):
        os.utime(file, (1.7e9, 1.7e9))  # long before the second look
    twice = analyzed(
        {f"second/{k}": v for k, v in stacks_alone(*[COMPILES] * 4).items()}
    )
    assert twice.ranked.outcome == "inconclusive"
    assert twice.ranked.verdict is None
    assert twice.report.clue.text.startswith("ranks 0-3 in kernels.py:19 ")


def recorded(**open_in):
    """Flight Recorder dumps of ranks 0, 2 and 3 of 4; `open_in` ranks wait in a call."""
    entry = open_call("gloo", 18 * 10**17)
    group = {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}
    return {
        f"fr/dump_{rank}": json.dumps(
            {
                "version": "2.10",
                "pg_config": {"0": group},
                "entries": [entry] if f"rank{rank}" in open_in else [],
            }
        )
        for rank in (0, 2, 3)
    }


@pytest.mark.parametrize("stack", [SAVES, None])
def test_the_stack_of_one_rank_does_not_hide_that_others_wait_in_their_dumps(
    analyzed, stack
):
    files = recorded(rank0=True, rank3=True)
    if stack is not None:
        files["rank_2.txt"] = stacks_alone(WAITS, WAITS, stack)["rank_2.txt"]
    analysis = analyzed(files)
    assert verdict(analysis)[:2] == ("missing-rank", (2,))
    assert analysis.ranked.verdict.confidence == "possible"


def test_one_waiting_dump_beside_the_stack_of_another_rank_is_any_moment(analyzed):
    stack = stacks_alone(WAITS, WAITS, SAVES)["rank_2.txt"]
    analysis = analyzed(recorded(rank0=True) | {"rank_2.txt": stack})
    assert analysis.ranked.verdict is None


BUFFERS = (
    "    _distributed_broadcast_coalesced (torch/nn/parallel/distributed.py:2240)\n"
    "    forward (torch/nn/parallel/distributed.py:1643)\n"
    "    evaluate (train.py:118)\n"
)
BACKWARD = (
    "    _engine_run_backward (torch/autograd/graph.py:825)\n"
    "    backward (torch/_tensor.py:581)\n"
    "    epoch (train.py:87)\n"
)


def test_ddp_broadcasts_its_buffers_from_cpp_and_is_in_a_call(analyzed):
    analysis = analyzed(spied(BUFFERS, BACKWARD, BACKWARD, BACKWARD))
    assert verdict(analysis)[:2] == ("rank-conditional-collective", (0,))
    found = analysis.ranked.verdict
    assert (found.confidence, found.collective.op) == ("possible", "broadcast")


def test_ranks_in_many_places_of_torch_wait_in_no_call(analyzed):
    lines = (BACKWARD.replace("87", str(n)) for n in (87, 60, 61))
    assert analyzed(spied(BUFFERS, *lines)).ranked.verdict is None


HEADINGS = (
    "===== gpu0001 rank {0} (local {0}) pid 50{0} : 2026-11-20 15:03:10 =====\n",
    "--- host=gpu0001 RANK={0} ---\n",
)


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_heading_tells_whose_stack_stands_below(analyzed, heading):
    stacks = (WAITS, WAITS, SAVES, WAITS)
    text = "".join(
        heading.format(rank)
        + f'Process 50{rank}: python train.py\n\nThread 50{rank} (idle): "MainThread"\n'
        + f"{stack}\n"
        for rank, stack in enumerate(stacks)
    )
    assert verdict(analyzed({"stacks.txt": text}))[:2] == ("missing-rank", (2,))


BARRIER = (
    "    barrier (torch/distributed/distributed_c10d.py:3703)\n"
    "    end_of_epoch_sync (utils.py:97)\n"
)


@pytest.mark.parametrize(
    ("stack", "slug"), [(BARRIER, "uneven-inputs"), (WAITS, "missing-rank")]
)
def test_whom_others_wait_for_waits_in_the_call_of_another_kind_that_its_stack_shows(
    analyzed, stack, slug
):
    """The others print that they timed out in an all-reduce of many elements."""
    lines = "".join(timeout(r).replace("NumelIn=1,", "NumelIn=64,") for r in range(3))
    files = spied(WAITS, WAITS, WAITS, stack) | {"job.log": lines}
    assert verdict(analyzed(files))[:2] == (slug, (3,))
