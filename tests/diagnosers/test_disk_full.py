"""disk-full fires on a full file system, not on other things that run out of space."""

import pytest

from nccl_lines import found, warn

SLUG = "disk-full"
DISK = [
    "OSError: [Errno 28] No space left on device: '/ckpt/step_100/model.pt'",
    "OSError: [Errno 122] Disk quota exceeded: '/home/me/x.pt'",
    "OSError: [Errno 28] No space left on device",
    "cp: error writing '/ckpt/model.pt': No space left on device",
    "tee: train.log: No space left on device",
    "tar: model.bin: Cannot write: Disk quota exceeded",
    "RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 640 vs "
    "534",
]
OTHERS = [
    "RuntimeError: PytorchStreamReader failed reading zip archive: not a ZIP archive",
    "OSError: [Errno 28] No space left on device: '/dev/shm/batch_3'",
    "RuntimeError: unable to write to file </torch_4711_25_0>: No space left on device "
    "(28)",
    "Failed to watch /sys/fs/cgroup: inotify_add_watch: No space left on device",
    "OSError: [Errno 116] Stale file handle: '/ckpt/model.pt'",
]


@pytest.mark.parametrize("text", DISK)
def test_the_rank_that_could_not_write_is_named(analyzed, text):
    analysis = analyzed({"gpu0001/rank_0.log": f"{text}\n"})
    (finding,) = found(analysis, SLUG)
    assert (finding.ranks, finding.hosts) == ((0,), ("gpu0001",))
    assert analysis.ranked.verdict is finding
    assert any("df -h" in step and "gpu0001" in step for step in finding.remedy)


@pytest.mark.parametrize("text", OTHERS)
def test_other_things_that_are_full_are_silent(analyzed, text):
    assert not found(analyzed({"gpu0001/rank_0.log": f"{text}\n"}), SLUG)


@pytest.mark.parametrize(
    "text",
    [
        "Call to posix_fallocate failed : No space left on device",
        "Error: failed to extend /dev/shm/nccl-b to 96 bytes, error: No space left on "
        "device "
        "(28)",
    ],
)
def test_nccl_writes_to_no_disk(analyzed, text):
    assert not found(analyzed({"rank_0.log": warn("gpu1", text)}), SLUG)


def test_the_traceback_of_it_is_an_echo(analyzed):
    text = (
        'Traceback (most recent call last):\n  File "train.py", line 9, in save\n'
        "OSError: [Errno 28] No space left on device: '/ckpt/model.pt'\n"
    )
    roles = {f.slug: role for role, f in analyzed({"rank_0.log": text}).ranked.findings}
    assert roles[SLUG] == "root"
    assert roles.get("crashed-rank") in (None, "echo")


def test_batches_that_go_through_shared_memory_are_not_on_disk(analyzed):
    text = (
        "Traceback (most recent call last):\n"
        '  File "/usr/lib/python3.11/multiprocessing/'
        'heap.py", line 9, in __init__\nOSError: [Errno 28] No space left on device\n'
    )
    assert not found(analyzed({"rank_0.log": text}), SLUG)


def save_failed(printing, failed):
    """Return what a rank prints of `torch.distributed.checkpoint.save` that failed.

    As torch 2.13 did with Gloo on two ranks, all ranks alike, but for most frames.
    """
    lines = [
        "Traceback (most recent call last):",
        '  File "/work/train.py", line 9, in <module>',
        "    dcp.save(state, storage_writer=writer)",
        '  File "/venv/lib/python3.11/site-packages/torch/distributed/checkpoint/'
        'utils.py", line 263, in all_reduce',
        "    raise final_result",
        "torch.distributed.checkpoint.api.CheckpointException: CheckpointException "
        f"ranks:dict_keys([{failed}])",
        f"Traceback (most recent call last): (RANK {failed})",
        '  File "/venv/lib/python3.11/site-packages/torch/distributed/checkpoint/'
        'utils.py", line 241, in all_reduce',
        "    local_data = map_fun()",
        "OSError: [Errno 28] No space left on device: '/ckpt/__1_0.distcp'",
    ]
    return "".join(f"[rank{printing}]: {line}\n" for line in lines)


def test_a_checkpoint_that_failed_on_another_rank_is_no_fault_of_who_repeats_it(
    analyzed,
):
    files = {f"gpu000{rank}/rank_{rank}.log": save_failed(rank, 1) for rank in range(4)}
    (finding,) = found(analyzed(files), SLUG)
    assert (finding.ranks, finding.hosts) == ((1,), ("gpu0001",))
