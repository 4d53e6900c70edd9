"""shm-exhausted fires on every wording of a full /dev/shm, and on nothing beside it."""

import pytest

from log_lines import table
from nccl_lines import found, info, init, warn

SLUG = "shm-exhausted"
NCCL = [
    "Call to posix_fallocate failed : No space left on device",
    "Error while creating shared memory segment nccl-shm-recv-17-0-1-0 (size 9637888)",
    "Error: failed to extend /dev/shm/nccl-bYmQ3h to 9637892 bytes",
    "Error: failed to extend /dev/shm/nccl-bYmQ3h to 9637892 bytes, error: No space "
    "left on "
    "device (28)",
    "Error while creating shared memory segment /dev/shm/nccl-htFcbs (size 9637888), "
    "error: "
    "No space left on device (28)",
    "Error: Could not map /dev/shm/nccl-bYmQ3h size 9637892, error: Cannot allocate "
    "memory "
    "(12)",
]
TORCH = [
    "RuntimeError: unable to write to file </torch_4711_25_0>: No space left on device "
    "(28)",
    "RuntimeError: unable to open shared memory object </torch_4711_25_0> in "
    "read-write "
    "mode: No space left on device (28)",
    "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. It is "
    "possible that dataloader's workers are out of shared memory. Please try to raise "
    "your "
    "shared memory limit.",
    "ERROR: Unexpected bus error encountered in worker. This might be caused by "
    "insufficient shared memory (shm).",
    "OSError: [Errno 28] No space left on device: '/dev/shm/batch_3'",
]
OTHERS = [
    "Error while attaching to shared memory segment /dev/shm/nccl- (size 9637888), "
    "error: "
    "No such file or directory (2)",
    "Error while creating shared memory segment /dev/shm/nccl-x (size 8), error: "
    "Permission "
    "denied (13)",
    "Call to socket failed: Too many open files",
]


@pytest.mark.parametrize("text", NCCL)
def test_nccls_wordings_name_the_host_and_the_rank(analyzed, text):
    (finding,) = found(analyzed({"rank_3.log": warn("gpu2", text)}), SLUG)
    assert (finding.hosts, finding.ranks) == (("gpu2",), (3,))
    assert any("df -h /dev/shm" in step and "gpu2" in step for step in finding.remedy)


@pytest.mark.parametrize("text", TORCH)
def test_torchs_wordings_name_the_rank(analyzed, text):
    analysis = analyzed({"rank_3.log": f"[rank3]: {text}\n"})
    (finding,) = found(analysis, SLUG)
    assert finding.ranks == (3,)
    assert analysis.ranked.verdict is finding


@pytest.mark.parametrize("text", OTHERS)
def test_failures_for_other_reasons_are_silent(analyzed, text):
    assert not found(analyzed({"rank_3.log": warn("gpu2", text)}), SLUG)


def test_a_loader_killed_by_another_signal_is_silent(analyzed):
    text = "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.\n"
    assert not found(analyzed({"rank_3.log": text}), SLUG)


def test_the_same_errno_on_a_disk_is_disk_full(analyzed):
    text = "OSError: [Errno 28] No space left on device: '/ckpt/step_100/model.pt'\n"
    analysis = analyzed({"rank_3.log": text})
    assert not found(analysis, SLUG)
    assert analysis.ranked.verdict.slug == "disk-full"


def test_a_job_on_one_host_names_only_the_ranks_that_print_it(analyzed):
    files = {f"rank_{r}.log": init("gpu2", r, 4, pid=40 + r) for r in range(4)}
    files["rank_0.log"] += warn("gpu2", NCCL[3], pid=40)
    files["rank_1.log"] += warn(
        "gpu2", "socketStartConnect: exceeded retries (20000)", pid=41
    )
    (finding,) = found(analyzed(files), SLUG)
    assert finding.ranks == (0,)


def test_in_a_job_of_hosts_those_that_failed_beside_it_are_of_that_host(analyzed):
    gave_up = "socketStartConnect: exceeded retries (20000)"
    lost = "socketProgress: Connection closed by remote peer gpu2<4>"
    files = {
        "rank_0.log": warn("gpu1", gave_up),
        "rank_2.log": warn("gpu2", gave_up),
        "rank_3.log": warn("gpu2", NCCL[3], pid=8),
        "rank_4.log": warn("gpu2", lost, pid=9),
    }
    (finding,) = found(analyzed(files), SLUG)
    assert (finding.hosts, finding.ranks) == (("gpu2",), (2, 3))


TREES = "Trees [0] -1/-1/-1->{}->0 [1] -1/-1/-1->{}->0"


@pytest.mark.parametrize(("first", "ranks"), [(0, (0,)), (4, ())])
def test_trees_tell_whether_ranks_go_by_devices(analyzed, first, ranks):
    text = warn("gpu2", NCCL[0], pid=40)
    for device in (1, 2):
        rank = first + device
        text += info("gpu2", TREES.format(rank, rank), pid=40 + device, device=device)
    (finding,) = found(analyzed({"log.txt": text}), SLUG)
    assert (finding.hosts, finding.ranks) == (("gpu2",), ranks)


@pytest.mark.parametrize("where", ["multiprocessing/synchronize.py", "torch/save.py"])
def test_a_lock_of_multiprocessing_is_a_file_of_shared_memory(analyzed, where):
    log = (
        'Traceback (most recent call last):\n  File "/job/train.py", line 3, in main\n'
        f'  File "/opt/lib/python3.11/{where}", line 57, in __init__\n'
        "    sl = self._semlock = _multiprocessing.SemLock(\n"
        "OSError: [Errno 28] No space left on device\n"
    )
    slug = SLUG if where.startswith("multi") else "disk-full"
    analysis = analyzed({"job.log": log})
    assert analysis.ranked.verdict.slug == slug


BUS = (
    "RuntimeError: DataLoader worker (pid 46481) is killed by signal: Bus error. It is "
    "possible that dataloader's workers are out of shared memory.\n"
)


@pytest.mark.parametrize(("ended", "ranks"), [([1], (1,)), ([1, 2], ())])
def test_the_agents_table_tells_host_and_rank_of_lines_without_either(
    analyzed, ended, ranks
):
    rows = table(*((rank, 1, 4000 + rank) for rank in ended), host="gpu0007")
    (finding,) = found(analyzed({"console.log": BUS + rows}), SLUG)
    assert (finding.ranks, finding.hosts) == (ranks, ("gpu0007",))
