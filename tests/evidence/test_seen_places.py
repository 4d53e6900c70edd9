"""What py-spy showed of the ranks while the job hung names whom they wait for."""

from log_lines import timeout, verdict

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
