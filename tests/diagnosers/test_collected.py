"""A job that was collected while it hangs: what its processes show decides."""

import json

import pytest

from log_lines import found, kernel
from ncclforensics.correlate.exits import alive

WAITS = """Process {pid}: python train.py

Thread {pid} (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:3000)
    wrapper (torch/distributed/c10d_logger.py:83)
    main (train.py:20)
    <module> (train.py:30)
"""
ELSEWHERE = """Process {pid}: python train.py

Thread {pid} (idle): "MainThread"
    save_checkpoint (train.py:9)
    main (train.py:21)
    <module> (train.py:30)
"""
FUSE = ["[<0>] request_wait_answer+0xd6/0x290", "[<0>] fuse_file_read_iter+0x1/0x2"]


def process(rank, **more):
    who = {"rank": rank, "local_rank": rank, "world_size": 4, "local_world_size": 4}
    still = {"state": "S", "wchan": "futex_wait", "cpu_s": 5.0, "switches": 100}
    return {"pid": 500 + rank, **who, "is_main": True, **still, **more}


def look(number, processes, second=0):
    taken = f"2026-11-20T10:00:{second:02}.000Z"
    told = {"collected_processes": 1, "host": "gpu0001", "taken": taken}
    told |= {"searched": True, "processes": processes}
    stacks = {
        f"look-{number}/stacks/rank_{r}.txt": (ELSEWHERE if r == 2 else WAITS).format(
            pid=500 + r
        )
        for r in range(4)
    }
    return {f"look-{number}/processes.json": json.dumps(told), **stacks}


def job(*, second=None, **of_two):
    """Two looks at four ranks, of which rank 2 is elsewhere; `of_two` is what it does."""
    first = [process(r) for r in range(4)]
    first[2] |= of_two
    later = first if second is None else second
    return {
        "manifest.json": json.dumps(
            {"collected_by": "x", "host": "gpu0001", "asked": []}
        )
    } | {**look(1, first), **look(2, later, 30)}


def looks(analysis):
    told = analysis.frames["looks"]
    return dict(told.filter(told["kind"] == "process").select("rank", "moved").rows())


def named(analysis):
    verdict = analysis.report.verdict
    return verdict and (verdict.slug, verdict.culprits.ranks, verdict.confidence)


def test_processes_that_did_not_run_prove_that_the_job_stands(analyzed):
    analysis = analyzed(job())
    assert looks(analysis) == dict.fromkeys(range(4), False)
    assert named(analysis) == ("missing-rank", (2,), "likely")
    assert "did not run in 30 s" in analysis.report.verdict.explanation


@pytest.mark.parametrize(
    ("does", "moved"),
    [
        ({"switches": 101}, None),
        ({"cpu_s": 5.5}, None),
        ({"uses_gpu": True}, None),
        ({"storage_bytes": 64 << 20}, True),
        ({"storage_bytes": 4096}, None),
        ({"cpu_s": 5.1}, False),
    ],
)
def test_a_rank_that_ran_proves_nothing_and_one_that_reads_moves(analyzed, does, moved):
    second = [process(r) for r in range(4)]
    second[2] |= does
    first = {"storage_bytes": 0, "uses_gpu": does.get("uses_gpu", False)}
    assert looks(analyzed(job(second=second, **first)))[2] is moved


GPU = """<?xml version="1.0" ?>
<nvidia_smi_log>
	<gpu id="00000000:9B:00.0">
		<utilization>
			<gpu_util>{} %</gpu_util>
			<memory_util>0 %</memory_util>
		</utilization>
	</gpu>
</nvidia_smi_log>
"""
LINK = (
    '[{{"ifindex":{},"ifname":"{}","flags":["BROADCAST","UP"],"mtu":9000,"stats64":'
    '{{"rx":{{"bytes":{},"packets":1}},"tx":{{"bytes":{},"packets":1}}}}}}]'
)


@pytest.mark.parametrize(
    ("busy", "moved"), [((0, 0), False), ((0, 100), None), ((100, 100), None)]
)
def test_a_gpu_that_runs_nothing_excuses_no_process(analyzed, busy, moved):
    both = [process(r, uses_gpu=True) for r in range(4)]
    files = look(1, both) | look(2, both, 30)
    for number, percent in enumerate(busy, 1):
        files[f"look-{number}/commands/nvidia-smi.xml"] = GPU.format(percent)
    analysis = analyzed({"manifest.json": job()["manifest.json"]} | files)
    assert looks(analysis) == dict.fromkeys(range(4), moved)
    told = analysis.frames["looks"].filter(analysis.frames["looks"]["kind"] == "gpu")
    assert told["moved"].null_count() == told.height == 4
    assert ("ran nothing" in told["what"][0]) is (busy == (0, 0))


@pytest.mark.parametrize(
    ("name", "bytes_", "told"),
    [("eth0", 5_000_000, "10.0 MB"), ("eth0", 0, "0.0 MB"), ("lo", 5_000_000, None)],
)
def test_what_interfaces_carry_is_told_and_proves_nothing(analyzed, name, bytes_, told):
    files = job()
    for number in (0, 1):
        counted = 7_000 + number * bytes_
        text = LINK.format(2, name, counted, counted)
        files[f"look-{number + 1}/commands/ip-link.json"] = text
    analysis = analyzed(files)
    rows = analysis.frames["looks"].filter(
        analysis.frames["looks"]["kind"] == "network"
    )
    assert rows["moved"].null_count() == rows.height == (4 if told else 0)
    assert named(analysis) == ("missing-rank", (2,), "likely")
    assert (told or "carried") in analysis.report.verdict.explanation or not told


@pytest.mark.parametrize(("used", "moved"), [(0.0, False), (20.0, None), (None, None)])
def test_what_a_worker_of_a_rank_does_counts_for_the_rank(analyzed, used, moved):
    worker = process(2, pid=900, is_main=False)
    first, second = [process(r) for r in range(4)], [process(r) for r in range(4)]
    later = {k: v for k, v in worker.items() if k != "cpu_s"}
    later |= {} if used is None else {"cpu_s": worker["cpu_s"] + used}
    files = look(1, [*first, worker]) | look(2, [*second, later], 30)
    assert looks(analyzed(files)).get(2) is moved


def test_a_rank_at_work_is_not_called_stuck(analyzed):
    second = [process(r) for r in range(4)]
    second[2] |= {"cpu_s": 34.0, "switches": 900}
    analysis = analyzed(job(second=second))
    verdict = named(analysis)
    assert verdict is None or verdict[2] == "possible"
    rows = analysis.frames["looks"].to_dicts()
    told = [r["what"] for r in rows if (r["rank"], r["kind"]) == (2, "process")]
    assert told == ["used 29.0 s of CPU in 30 s"]


@pytest.mark.parametrize(("ran", "outcome"), [(0, "inconclusive"), (9, "no-failure")])
def test_a_job_in_which_nobody_ran_is_not_called_well(analyzed, ran, outcome):
    second = [process(r) for r in range(4)]
    second[3] |= {"switches": 100 + ran}
    files = {k: v for k, v in job(second=second).items() if "stacks" not in k}
    assert analyzed(files).report.outcome == outcome


def test_one_look_proves_nothing(analyzed):
    files = {k: v for k, v in job().items() if not k.startswith("look-2")}
    analysis = analyzed(files)
    assert looks(analysis) == {}
    assert named(analysis) is None or named(analysis)[2] == "possible"


def test_a_stopped_process_is_said_to_be_stopped(analyzed):
    analysis = analyzed(job(state="T", wchan="do_signal_stop"))
    assert "stopped by a signal" in analysis.report.verdict.explanation
    assert "stopped" not in analyzed(job()).report.verdict.explanation


def test_of_a_stopped_node_all_ranks_are_named(analyzed):
    both = [process(r) for r in range(4)]
    both[2:] = [process(r, state="T", wchan="do_signal_stop") for r in (2, 3)]
    files = {"manifest.json": job()["manifest.json"]}
    analysis = analyzed(files | look(1, both) | look(2, both, 30))
    assert named(analysis)[:2] == ("missing-rank", (2, 3))


def test_two_looks_into_storage_make_it_likely_and_one_does_not(analyzed):
    stuck = {"state": "D", "wchan": "request_wait_answer", "kernel_stack": FUSE}
    assert named(analyzed(job(**stuck))) == ("storage-stall", (2,), "likely")


def test_a_rank_that_left_storage_again_does_not_stall_there(analyzed):
    stuck = {"state": "D", "wchan": "request_wait_answer", "kernel_stack": FUSE}
    second = [process(r) for r in range(4)]
    assert not found(analyzed(job(second=second, **stuck)), "storage-stall")


FAULT = "python[9]: segfault at 7f797fe0 ip 00007f7c sp 00007f7c error 4 in libc.so[1]"
DMESG = {"commands/dmesg.txt": kernel(FAULT, "gpu0001", "09:59:00")}


def test_what_another_program_did_is_no_failure_of_a_job_that_lives(analyzed):
    assert not found(analyzed(job() | DMESG), "crashed-rank")


def two_nodes(host):
    """A job of eight ranks: gpu0001 with ranks 0 to 3 answered, another did not."""
    told = {"collected_processes": 1, "host": "gpu0001", "searched": True}
    told["taken"] = "2026-11-20T10:00:00.000Z"
    told["processes"] = [process(r, world_size=8) for r in range(4)]
    fault = {"commands/dmesg.txt": kernel(FAULT, host, "09:59:00")}
    return {"look-1/processes.json": json.dumps(told)} | fault


def test_where_a_node_is_silent_its_own_faults_may_be_the_jobs(analyzed):
    assert not found(analyzed(two_nodes("gpu0001")), "crashed-rank")
    assert found(analyzed(two_nodes("gpu0002")), "crashed-rank")


@pytest.mark.parametrize("state", ["", "Z"])
def test_a_fault_may_be_of_a_rank_that_is_gone(analyzed, state):
    second = [process(r) for r in range(4)]
    second[1] = {k: v for k, v in second[1].items() if k != "cpu_s"} | {"state": state}
    analysis = analyzed(job(second=second) | DMESG)
    assert found(analysis, "crashed-rank")
    assert alive.gone(analysis.frames)["rank"].to_list() == [1]


def test_a_rank_without_a_process_is_gone_if_all_were_searched(analyzed):
    left = [process(r) for r in range(4) if r != 1]
    gone = alive.gone(analyzed(job(second=left) | look(1, left)).frames)
    assert gone["rank"].to_list() == [1]


def test_nobody_is_gone_where_all_live(analyzed):
    assert alive.gone(analyzed(job()).frames).is_empty()


def test_an_environment_shows_a_variable_that_one_rank_lacks_or_has_alone(analyzed):
    base = "MASTER_ADDR=gpu0001\nMASTER_PORT=1\nWORLD_SIZE=4\nNCCL_DEBUG=INFO\n"
    files = {
        f"processes/rank_{r}.env": f"RANK={r}\n{base}"
        + ("NCCL_P2P_DISABLE=1\n" if r == 3 else "")
        for r in range(4)
    }
    analysis = analyzed(job() | files)
    (finding,) = [f for f in analysis.report.findings if f.slug == "inconsistent-env"]
    assert finding.culprits.ranks == (3,)


def test_an_environment_that_is_the_same_is_said_and_accuses_nobody(analyzed):
    base = "MASTER_ADDR=gpu0001\nMASTER_PORT=1\nWORLD_SIZE=4\nNCCL_DEBUG=INFO\n"
    files = {f"processes/rank_{r}.env": f"RANK={r}\n{base}" for r in range(4)}
    analysis = analyzed(job() | files)
    assert not found(analysis, "inconsistent-env")
    told = {r.slug: r.why for r in analysis.report.ruled_out}
    assert "the same on ranks 0-3" in told["inconsistent-env"]
    assert "4 ranks were alive" in told["crashed-rank"]


def test_interfaces_and_releases_of_all_ranks_are_told(analyzed):
    seen = {"interfaces": ["eth0"], "torch": "2.13.0", "nccl": "2.27.5"}
    both = [process(r, **seen) for r in range(4)]
    first = [process(r, **seen) for r in range(4)]
    files = job(second=both) | look(1, first)
    told = {r.slug: r.why for r in analyzed(files).report.ruled_out}
    assert told["wrong-nic"] == "connections use eth0 on ranks 0-3"
    assert told["nccl-version-mismatch"] == "NCCL 2.27.5, torch 2.13.0 on ranks 0-3"
    both[1] |= {"interfaces": ["docker0"], "nccl": "2.21.5"}
    report = analyzed(job(second=both) | look(1, first)).report
    unknown = {n.slug: n.missing for n in report.not_checked}
    assert "docker0 on rank 1" in unknown["wrong-nic"]
    assert "2.21.5 on rank 1" in unknown["nccl-version-mismatch"]


@pytest.mark.parametrize(("ran", "told"), [(0, True), (50, False)])
def test_an_mtu_that_differs_counts_where_the_job_is_proved_to_stand(
    analyzed, ran, told
):
    link = '[{{"ifindex":2,"ifname":"eth0","flags":["UP"],"mtu":{}}}]\n'
    second = [process(r, switches=100 + ran) for r in range(4)]
    waits = {
        f"look-{n}/stacks/rank_{r}.txt": WAITS.format(pid=500 + r)
        for n in (1, 2)
        for r in range(4)
    }
    beside = {"gpu0002/ip-link.json": link.format(1500)}
    files = job(second=second) | waits | beside | {"ip-link.json": link.format(9000)}
    if ran:  # and the stacks moved on
        later = {
            f"look-2/stacks/rank_{r}.txt": ELSEWHERE.format(pid=500 + r)
            for r in (0, 1, 2, 3)
        }
        files |= later
    assert bool(found(analyzed(files), "mtu-mismatch")) is told


IN_QUEUE = """Process {pid}: python train.py

Thread {pid} (idle): "MainThread"
    get (multiprocessing/queues.py:113)
    batches (train.py:9)
    main (train.py:21)
    <module> (train.py:30)
Thread {helper} (idle): "Thread-1"
    report (monitor.py:49)
    run (threading.py:982)
"""
IN_RECEIVE = WAITS.replace("all_reduce (", "recv (").replace(":20)", ":25)")
OOM = "+00:00 Out of memory: Killed process 9 (python) total-vm:1kB, anon-rss:1kB"


def with_stacks(files, **by_rank):
    """Put other stacks in place of those of some ranks, in both looks."""
    told = dict(files)
    for name, stack in by_rank.items():
        for number in (1, 2):
            path = f"look-{number}/stacks/{name}.txt"
            rank = int(name.removeprefix("rank_")[0])
            told[path] = stack.format(pid=500 + rank, helper=700)
    return told


def test_equal_stacks_of_two_looks_prove_that_a_rank_that_polls_stands(analyzed):
    second = [process(r) for r in range(4)]
    second[2] |= {"switches": 103}
    analysis = analyzed(job(second=second))
    assert named(analysis) == ("missing-rank", (2,), "likely")


def test_equal_stacks_prove_nothing_of_ranks_that_make_steps(analyzed):
    second = [process(r, switches=2000, cpu_s=6.0) for r in range(4)]
    analysis = analyzed(job(second=second))
    told = analysis.frames["looks"]
    assert told.filter(told["kind"] == "stack")["moved"].null_count() == 4
    assert named(analysis) is None or named(analysis)[2] == "possible"


def test_a_main_thread_that_waits_for_a_queue_is_where_its_rank_stands(analyzed):
    analysis = analyzed(with_stacks(job(), rank_2=IN_QUEUE))
    assert named(analysis) == ("missing-rank", (2,), "likely")
    assert "batches" in analysis.report.verdict.explanation
    assert "monitor.py" not in analysis.report.verdict.explanation


def test_where_a_worker_stands_is_not_where_its_rank_does(analyzed):
    looks = [
        look(n, [*map(process, range(4)), process(1, pid=900, is_main=False)], s)
        for n, s in ((1, 0), (2, 30))
    ]
    files = looks[0] | looks[1]
    for number in (1, 2):
        path = f"look-{number}/stacks/rank_1.worker_900.txt"
        files[path] = ELSEWHERE.format(pid=900)
    files["manifest.json"] = job()["manifest.json"]
    assert named(analyzed(files)) == ("missing-rank", (2,), "likely")


@pytest.mark.parametrize(
    "does",
    [
        {"cpu_s": 34.0, "switches": 104},
        {"called_bytes": 64 << 20},
        {"switches": 100 + 30 * 20},
    ],
)
def test_a_rank_that_works_is_slow_though_the_others_stand(analyzed, does):
    second = [process(r) for r in range(4)]
    second[2] |= does
    analysis = analyzed(job(second=second, called_bytes=0))
    assert named(analysis) is None
    assert [s.rank for s in analysis.report.suspects][:1] == [2]


def test_a_stopped_rank_is_named_also_where_it_stands_in_the_call(analyzed):
    stopped = {"state": "T", "wchan": "do_signal_stop"}
    files = job(**stopped)
    assert named(analyzed(with_stacks(files, rank_2=WAITS))) == (
        *("missing-rank", (2,)),
        "certain",
    )
    everybody = [process(r, **stopped) for r in range(4)]
    all_stopped = look(1, everybody) | look(2, everybody, 30)
    assert named(analyzed(all_stopped)) is None or named(analyzed(all_stopped))[1] != (
        *range(4),
    )


def test_of_several_that_may_owe_a_message_nobody_is_accused(analyzed):
    files = with_stacks(job(), rank_2=IN_RECEIVE, rank_3=IN_RECEIVE)
    analysis = analyzed(files)
    assert named(analysis) is None
    assert {s.rank for s in analysis.report.suspects} == {0, 1}


@pytest.mark.parametrize(
    ("when", "live", "counts"),
    [("09:50:00", 3, False), ("09:59:30", 3, True), ("09:59:30", 4, False)],
)
def test_a_kill_is_of_a_rank_that_is_gone_and_had_begun(analyzed, when, live, counts):
    started = {"started": "2026-11-20T09:55:00.000Z"}
    ranks = [process(r, **started) for r in range(live)]
    files = look(1, ranks) | look(2, ranks, 30)
    files["manifest.json"] = job()["manifest.json"]
    files["commands/dmesg.txt"] = f"2026-11-20T{when},000000{OOM}\n"
    assert bool(found(analyzed(files), "host-oom")) is counts


def test_a_debug_level_that_one_rank_alone_has_is_named(analyzed):
    files = job()
    for rank in range(4):
        level = "\nTORCH_DISTRIBUTED_DEBUG=DETAIL" if rank == 2 else ""
        files[f"processes/rank_{rank}.env"] = (
            f"RANK={rank}\nMASTER_ADDR=gpu0001\nMASTER_PORT=1\nWORLD_SIZE=4{level}\n"
        )
    assert named(analyzed(files))[:2] == ("inconsistent-env", (2,))


def connected(number, *, queue=0, received=0, second=0):
    """One look at four hosts, whose rank sends to that of gpu0002 and gets nothing."""
    files = {}
    for rank in range(4):
        own = f"10.0.0.{rank + 1}"
        sockets = [socket(f"{own}:40", "0.0.0.0:0", "LISTEN")]
        if rank in (0, 2):
            sockets.append(socket(f"{own}:41", "10.0.0.2:40", send_queue=queue))
        if rank == 1 and received:
            for far in ("10.0.0.1", "10.0.0.3"):
                end = socket("10.0.0.2:40", f"{far}:41", receive_queue=received)
                sockets.append(end)
        one = process(rank, local_rank=0, local_world_size=1, sockets=sockets)
        host = f"gpu000{rank + 1}"
        told = {"collected_processes": 1, "host": host, "searched": True}
        told["taken"] = f"2026-11-20T10:00:{second:02}.000Z"
        told["processes"] = [one]
        folder = f"{host}/look-{number}"
        files[f"{folder}/processes.json"] = json.dumps(told)
        files[f"{folder}/stacks/rank_{rank}.txt"] = WAITS.format(pid=500 + rank)
        files[f"{host}/manifest.json"] = json.dumps(
            {"collected_by": "x", "host": host, "asked": []}
        )
    return files


def socket(local, remote, state="ESTABLISHED", send_queue=0, receive_queue=0):
    queues = {"send_queue": send_queue, "receive_queue": receive_queue}
    return {"local": local, "remote": remote, "state": state, **queues}


def test_bytes_that_never_arrive_name_the_host_that_they_have_in_common(analyzed):
    files = connected(1, queue=96) | connected(2, queue=96, second=30)
    verdict = analyzed(files).report.verdict
    assert (verdict.slug, verdict.culprits.hosts) == ("unreachable-peer", ("gpu0002",))


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ({"queue": 96, "received": 96}, {"queue": 96, "received": 96}),  # it reads none
        ({"queue": 96}, {"queue": 48}),  # they get less
        ({}, {"queue": 96}),
    ],
)
def test_bytes_that_move_or_that_nobody_reads_are_no_fault_of_a_network(
    analyzed, first, later
):
    files = connected(1, **first) | connected(2, second=30, **later)
    assert not found(analyzed(files), "unreachable-peer")


INIT = """Process {pid}: python train.py

Thread {pid} (idle): "MainThread"
    init_process_group (torch/distributed/distributed_c10d.py:1899)
    wrapper (torch/distributed/c10d_logger.py:83)
    main (train.py:20)
"""


@pytest.mark.parametrize("polls", [0, 500])
def test_a_rank_that_never_joined_is_suspected(analyzed, polls):
    """Of a job of four, three are there: they wait for the one of which nothing is.

    The rank that serves the store polls it.
    """
    files = {"manifest.json": job()["manifest.json"]}
    for number in (1, 2):
        seen = [process(r, local_world_size=3) for r in range(3)]
        seen[0]["switches"] += polls * number
        of_look = look(number, seen, 30 * (number - 1))
        del of_look[f"look-{number}/stacks/rank_3.txt"]
        for rank in range(3):
            stack = INIT.format(pid=500 + rank)
            of_look[f"look-{number}/stacks/rank_{rank}.txt"] = stack
        files |= of_look
    analysis = analyzed(files)
    assert named(analysis) in (None, ("crashed-rank", (3,), "possible"))
    assert analysis.report.outcome != "no-failure"
    assert [suspect.rank for suspect in analysis.report.suspects] == [3]


@pytest.mark.parametrize(
    ("why_not", "hosts"),
    [
        ({}, ()),
        ({1: "route to 10.0.0.2"}, ("gpu0001",)),
        ({1: "route to 10.0.0.2", 2: "route to 10.0.0.1"}, ()),
        ({1: "route to 10.0.0.9"}, ()),
    ],
)
def test_of_two_ends_the_one_without_a_route_is_named(analyzed, why_not, hosts):
    files = {}
    for node in (1, 2):
        asked = [{"asked": why_not[node], "why_not": "none"}] if node in why_not else []
        told = {"collected_by": "x", "host": f"gpu000{node}", "asked": asked}
        files[f"gpu000{node}/manifest.json"] = json.dumps(told)
        rank = process(node - 1, local_rank=0, world_size=2, local_world_size=1)
        rank["sockets"] = [
            socket(f"10.0.0.{node}:40", f"10.0.0.{3 - node}:41", send_queue=96),
            socket(f"10.0.0.{node}:40", "0.0.0.0:0", "LISTEN"),
        ]
        for number, second in ((1, 0), (2, 30)):
            of_look = look(number, [rank], second)
            told = json.loads(of_look[f"look-{number}/processes.json"])
            text = json.dumps(told | {"host": f"gpu000{node}"})
            files[f"gpu000{node}/look-{number}/processes.json"] = text
            stack = WAITS.format(pid=rank["pid"])
            files[f"gpu000{node}/look-{number}/stacks/rank_{node - 1}.txt"] = stack
    verdict = analyzed(files).report.verdict
    assert (verdict.slug, verdict.culprits.hosts) == ("unreachable-peer", hosts)


GLOO = (
    '[rank{0}]: Traceback (most recent call last):\n[rank{0}]:   File "train.py", line 9, '
    "in main\n[rank{0}]: RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/"
    "transport/tcp/socket.cc:142] rv != -1. -1 vs -1. connect: {1}\n"
)


@pytest.mark.parametrize(("failed", "hosts"), [((0, 1, 3), ("gpu0001",)), ((0, 1), ())])
def test_the_only_rank_that_all_others_cannot_reach_is_named(analyzed, failed, hosts):
    files = look(1, [process(2, local_world_size=1, local_rank=0)])
    files["manifest.json"] = job()["manifest.json"]
    files = {f"gpu0001/{k}": v for k, v in files.items() if "stacks" not in k}
    for rank in failed:
        files[f"rank_{rank}.log"] = GLOO.format(rank, "Network is unreachable")
    verdict = analyzed(files).report.verdict
    assert (verdict.slug, verdict.culprits.hosts) == ("unreachable-peer", hosts)
