"""storage-stall needs a sign that storage does not answer; a slow save is none."""

import shutil
from pathlib import Path

import pytest

from log_lines import found, init, kernel, timeout, traceback, verdict
from ncclforensics.analysis import analyze

JOB = init(0, 2, pid=500) + init(1, 2, "gpu0002", pid=501)
SLUG = "storage-stall"
HUNG = "INFO: task {name}:{pid} blocked for more than 120 seconds."
# rendered from sched_show_task and the symbols of the NFS and NVIDIA modules
TRACES = {
    "nfs": (
        "rpc_wait_bit_killable+0xa/0x70 [sunrpc]",
        "nfs_file_fsync+0x1f/0x90 [nfs]",
    ),
    "lustre": ("osc_extent_wait+0x5b4/0x7c0 [osc]", "ll_fsync+0x1a2/0x4e0 [lustre]"),
    "fuse": ("request_wait_answer+0x151/0x210", "fuse_file_write_iter+0x44b/0x500"),
    "driver": ("os_acquire_rwlock_write+0x35/0x50 [nvidia]", "ioctl+0x1f/0x90"),
}
SILENT = {
    "nfs": "nfs: server storage1 not responding, still trying",
    "lustre": "Lustre: scratch-OST0003-osc-ffff8c64: Connection to scratch-OST0003 (at "
    "10.0.9.3@o2ib) was lost; in progress operations using this service will wait for "
    "recovery to complete",
    "lustre evicts": "LustreError: 167-0: scratch-MDT0000-mdc-ffff8c64: This client was "
    "evicted by scratch-MDT0000; in progress operations using this service will fail.",
    "lnet": "LNetError: 2711:0:(o2iblnd_cb.c:3420:kiblnd_check_conns()) Timed out RDMA "
    "with 10.0.9.3@o2ib (12): c: 63, oc: 0, rc: 63",
    "gpfs": "Lost membership in cluster scratch.cluster. Unmounting file systems.",
    "ceph": "ceph: mds0 hung",
    "ceph drops": "ceph: mds0 reconnect denied",
    "smb": r"CIFS: VFS: \\storage1 has not responded in 180 seconds. Reconnecting...",
}
BACK = {
    "nfs": "nfs: server storage1 OK",
    "lustre": "Lustre: scratch-OST0003-osc-ffff8c64: Connection restored to "
    "10.0.9.3@o2ib (at 10.0.9.3@o2ib)",
    "ceph": "ceph: mds0 came back",
}


def hung(trace, host="gpu0002", pid=501, name="python"):
    frames = ("__schedule+0x2d0/0x830", "schedule+0x5a/0xd0", *TRACES[trace])
    lines = (HUNG.format(name=name, pid=pid), "Call Trace:", *(f" {f}" for f in frames))
    return "".join(kernel(line, host, "10:04:00") for line in lines)


@pytest.mark.parametrize("trace", ["nfs", "lustre", "fuse"])
def test_a_rank_that_hangs_in_a_file_system_is_named(analyzed, trace):
    files = {"job.log": JOB + timeout(0), "dmesg-gpu0002.log": hung(trace)}
    assert verdict(analyzed(files)) == ("storage-stall", (1,), ("gpu0002",))


def test_with_its_server_silent_the_awaited_rank_stands_in_it(analyzed):
    log = kernel(SILENT["nfs"], "gpu0002", "10:02:00") + hung("nfs")
    analysis = analyzed({"job.log": JOB + timeout(0), "dmesg-gpu0002.log": log})
    assert verdict(analysis) == ("storage-stall", (1,), ("gpu0002",))


@pytest.mark.parametrize(("pid", "ranks"), [(501, (1,)), (999, ())])
def test_a_node_that_no_rank_has_the_name_of_knows_a_pods_process_by_its_pid(
    analyzed, pid, ranks
):
    node = hung("nfs", host="pool-5f", pid=pid)
    analysis = analyzed({"job.log": JOB + timeout(0), "kern-pool-5f.log": node})
    assert [f.ranks for _, f in found(analysis, SLUG)] == [ranks]


def test_ranks_that_hang_are_known_by_their_pids_and_were_killed_for_it(analyzed):
    """Each rank prints its pid; srun kills at last those that did not abort."""
    logs = {
        f"out-{rank}.log": f"rank {rank} pid {500 + rank} reads shard {rank}\n"
        + (timeout(rank) if rank != 3 else "")
        for rank in range(4)
    }
    logs["slurm.log"] = (
        "srun: error: gpu0002: tasks 0-2: Aborted (core dumped)\n"
        "srun: error: gpu0002: task 3: Killed\n"
    )
    killed = analyzed(logs)
    assert not found(killed, "storage-stall")
    blocked = {"dmesg-gpu0002.log": hung("nfs", pid=503)}
    assert verdict(analyzed({**logs, **blocked})) == (
        "storage-stall",
        (3,),
        ("gpu0002",),
    )


def test_a_process_that_hangs_in_the_gpu_driver_is_no_storage_stall(analyzed):
    files = {"job.log": JOB + timeout(0), "dmesg-gpu0002.log": hung("driver")}
    assert not found(analyzed(files), "storage-stall")


def test_a_daemon_of_the_host_that_hangs_is_not_the_jobs(analyzed):
    log = hung("nfs", pid=77, name="updatedb")
    files = {"job.log": JOB + timeout(0), "dmesg-gpu0002.log": log}
    assert not found(analyzed(files), "storage-stall")


@pytest.mark.parametrize("server", SILENT)
def test_a_silent_server_alone_is_a_possible_cause(analyzed, server):
    log = kernel(SILENT[server], "gpu0002", "10:02:00")
    analysis = analyzed({"job.log": JOB + timeout(0), "dmesg-gpu0002.log": log})
    [(_, finding)] = found(analysis, "storage-stall")
    assert (finding.ranks, finding.hosts) == ((), ("gpu0002",))
    assert finding.confidence == "possible"


@pytest.mark.parametrize("server", BACK)
def test_a_server_that_was_back_before_accuses_nobody(analyzed, server):
    log = kernel(SILENT[server], "gpu0002", "09:50:00")
    log += kernel(BACK[server], "gpu0002", "09:52:00")
    files = {"job.log": JOB + timeout(0), "dmesg-gpu0002.log": log}
    assert not found(analyzed(files), "storage-stall")


def spied(*stacks, first=500):
    """py-spy's dumps of ranks 0, 1, 2, ... one below the other, under headings."""
    return "".join(
        f"===== rank {rank} pid {first + rank} =====\n"
        f"Process {first + rank}: python train.py\nPython v3.11.7 (/usr/bin/python3)\n\n"
        f'Thread {first + rank} (idle): "MainThread"\n{stack}'
        "    <module> (train.py:20)\n\n"
        for rank, stack in enumerate(stacks)
    )


WAITS = "    all_reduce (torch/distributed/distributed_c10d.py:3252)\n"
READS = "    load_shard (train.py:17)\n"


def test_ranks_that_the_kernel_saw_blocked_hold_up_a_job_that_printed_nothing(analyzed):
    """The heading over a stack tells whose pid the kernel names."""
    log = hung("nfs", "gpu0001", 502) + hung("nfs", "gpu0001", 503)
    spy = spied(WAITS, WAITS, READS, READS)
    analysis = analyzed({"py-spy.txt": spy, "dmesg-gpu0001.log": log})
    assert verdict(analysis) == ("storage-stall", (2, 3), ("gpu0001",))
    assert "hang in NFS" in analysis.ranked.verdict.headline


@pytest.mark.parametrize("pids", [(500, 501), (902, 903)], ids=["waits", "others"])
def test_who_waits_in_the_call_itself_is_not_who_held_it_up(analyzed, pids):
    log = "".join(hung("nfs", "gpu0001", pid) for pid in pids)
    spy = spied(WAITS, WAITS, READS, READS)
    ranked = analyzed({"py-spy.txt": spy, "dmesg-gpu0001.log": log}).ranked
    assert ranked.verdict is None or ranked.verdict.confidence == "possible"


RAISED = {
    "stale": "OSError: [Errno 116] Stale file handle: '/data/shard-7.bin'",
    "fuse gone": "OSError: [Errno 107] Transport endpoint is not connected: '/data/a'",
    "soft mount": "TimeoutError: [Errno 110] Connection timed out: '/data/shard-7.bin'",
    "s3": "botocore.exceptions.ReadTimeoutError: Read timeout on endpoint URL: "
    '"https://bucket.s3.amazonaws.com/shard-7"',
    "loader": "RuntimeError: DataLoader timed out after 600 seconds",
}


@pytest.mark.parametrize("form", RAISED)
def test_a_rank_that_gave_storage_up_says_so_itself(analyzed, form):
    analysis = analyzed({"job.log": JOB + traceback(1, RAISED[form]) + timeout(0)})
    assert verdict(analysis) == ("storage-stall", (1,), ("gpu0002",))
    assert {role for role, _ in found(analysis, "crashed-rank")} <= {"echo"}


OTHERS = {
    "store": "TimeoutError: [Errno 110] Connection timed out",
    "full": "OSError: [Errno 28] No space left on device: '/data/ckpt.pt'",
    "absent": "FileNotFoundError: [Errno 2] No such file or directory: '/data/a'",
    "own": "ValueError: DataLoader expects a batch size",
}


@pytest.mark.parametrize("form", OTHERS)
def test_other_errors_are_no_storage_stall(analyzed, form):
    analysis = analyzed({"job.log": JOB + traceback(1, OTHERS[form]) + timeout(0)})
    assert not found(analysis, "storage-stall")


PS = "    PID STAT WCHAN                COMMAND\n    500 Rl   -                    python\n"


STANDS = PS + "    501 Dl   rpc_wait_bit_killable python -u train.py\n"


def test_one_look_at_a_rank_in_state_d_makes_it_possible(analyzed):
    [(_, finding)] = found(
        analyzed({"job.log": JOB + timeout(0), "ps-gpu0002.txt": STANDS}),
        "storage-stall",
    )
    assert (finding.ranks, finding.confidence) == ((1,), "possible")


def test_with_its_server_silent_one_look_is_enough(analyzed):
    log = kernel(SILENT["nfs"], "gpu0002", "10:02:00")
    files = {"dmesg-gpu0002.log": log, "ps-gpu0002.txt": STANDS}
    analysis = analyzed({"job.log": JOB + timeout(0), **files})
    assert verdict(analysis) == ("storage-stall", (1,), ("gpu0002",))
    assert analysis.ranked.verdict.confidence == "likely"


@pytest.mark.parametrize(
    "line",
    ["    501 Sl   futex_wait_queue python\n", "    501 Dl   uvm_ioctl python\n"],
)
def test_ps_of_a_rank_that_waits_elsewhere_says_nothing(analyzed, line):
    analysis = analyzed({"job.log": JOB + timeout(0), "ps-gpu0002.txt": PS + line})
    assert not found(analysis, "storage-stall")


FIXTURES = Path(__file__).parents[1] / "fixtures" / "jobs"
STALL = "[ 1843.305512] nfs: server storage1 not responding, still trying\n"


@pytest.mark.parametrize(
    ("host", "named"), [("gpu0001", "missing-rank"), ("gpu0002", "storage-stall")]
)
def test_only_the_awaited_ranks_own_host_changes_the_verdict(tmp_path, host, named):
    shutil.copytree(
        FIXTURES / "torch-missing-rank-two-hosts" / "evidence", tmp_path / "e"
    )
    (tmp_path / "e" / f"dmesg-{host}.txt").write_text(STALL)
    analysis = analyze([str(tmp_path / "e")])
    assert verdict(analysis)[:2] == (named, (6,))


def test_a_job_that_took_no_harm_stays_healthy(tmp_path):
    shutil.copytree(FIXTURES / "torch-healthy" / "evidence", tmp_path / "e")
    (tmp_path / "e" / "dmesg-gpu0001.txt").write_text(STALL)
    assert analyze([str(tmp_path / "e")]).ranked.outcome == "no-failure"


def test_one_look_at_a_slow_rank_leaves_the_verdict_as_it_is(tmp_path):
    shutil.copytree(FIXTURES / "torch-missing-rank-py-spy" / "evidence", tmp_path / "e")
    (tmp_path / "e" / "ps-gpu0001.txt").write_text(STANDS.replace("501", "41011"))
    assert verdict(analyze([str(tmp_path / "e")])) == (
        "missing-rank",
        (2,),
        ("gpu0001",),
    )


SPIED = (
    "Process {0}: python train.py\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
    'Thread {0} (idle): "MainThread"\n    {1}\n    <module> (train.py:99)\n'
)


@pytest.mark.parametrize(
    ("kernel_says", "named"), [("", "missing-rank"), (STALL, "storage-stall")]
)
def test_without_any_failure_a_silent_server_makes_one_look_possible(
    analyzed, kernel_says, named
):
    """Only stacks were taken of the job, and the list of its processes."""
    waits = "all_reduce (torch/distributed/distributed_c10d.py:3252)"
    at = [waits, "read (shards.py:88)", waits, waits]
    files = {f"spy_{r}.txt": SPIED.format(500 + r, stack) for r, stack in enumerate(at)}
    files |= {"ps.txt": STANDS, "dmesg.txt": kernel_says}
    found = analyzed(files).ranked.verdict
    assert (found.slug, found.ranks, found.confidence) == (named, (1,), "possible")


def test_an_eviction_alone_is_likely_and_a_silence_is_not(analyzed):
    for what, confidence in (("lustre evicts", "likely"), ("lustre", "possible")):
        analysis = analyzed({"dmesg.txt": f"[ 1843.305512] {SILENT[what]}\n"})
        assert analysis.ranked.verdict.slug == "storage-stall"
        assert analysis.ranked.verdict.confidence == confidence


def test_an_exception_of_a_paste_without_its_head_is_likely(analyzed):
    tail = '  File "/job/save.py", line 8, in save\n'
    stale = "OSError: [Errno 116] Stale file handle\n"
    (pasted,) = found(analyzed({"paste.log": tail + stale}), "storage-stall")
    assert pasted[1].confidence == "likely"
    full = "OSError: [Errno 28] No space left on device: '/ckpt/a.pt'\n"
    assert not found(analyzed({"paste.log": tail + full}), "storage-stall")


def test_an_exception_with_its_head_is_certain(analyzed):
    text = traceback(0, "OSError: [Errno 116] Stale file handle")
    (whole,) = found(analyzed({"rank_0.log": text}), "storage-stall")
    assert whole[1].confidence == "certain"


STEPS = "".join(f"[rank0]: step {n} loss 2.5\n" for n in range(9))


@pytest.mark.parametrize(
    ("log", "sure"),
    [
        (kernel(SILENT["lustre"], "gpu0002") + hung("lustre"), "possible"),
        (kernel(SILENT["lustre"], "gpu0002"), None),
        (hung("lustre"), None),
        (
            kernel(SILENT["lustre"], "gpu0002")
            + hung("lustre")
            + kernel(BACK["lustre"], "gpu0002", "10:20:00"),
            None,
        ),
    ],
    ids=["both", "server", "process", "back"],
)
def test_where_nothing_shows_a_hang_both_ends_have_to_tell_of_it(analyzed, log, sure):
    told = analyzed({"rank_0.log": STEPS, "dmesg-gpu0002.log": log}).ranked.verdict
    assert (told and (told.slug, told.confidence)) == (sure and ("storage-stall", sure))


STACK = """--- /proc/{}/stack
[<0>] {}+0x15f/0x1d0
[<0>] {}+0x96/0xc0
[<0>] do_filp_open+0xc3/0x180
"""


@pytest.mark.parametrize(
    ("waits", "sure"),
    [
        (("percpu_rwsem_wait", "mnt_want_write"), "likely"),
        (("io_schedule", "ext4_file_write_iter"), "possible"),  # it may be slow
        (("futex_do_wait", "__futex_wait"), None),
    ],
)
def test_the_kernels_stack_shows_a_write_into_a_frozen_file_system(
    analyzed, waits, sure
):
    stacks = STACK.format(500, "futex_do_wait", "do_futex") + STACK.format(501, *waits)
    told = found(analyzed({"job.log": JOB + timeout(0), "stacks.txt": stacks}), SLUG)
    assert [(f.ranks, f.confidence) for _, f in told] == (
        [((1,), sure)] if sure else []
    )
