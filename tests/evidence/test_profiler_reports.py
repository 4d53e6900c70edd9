"""Who is slow by the reports that Lightning's profiler writes for each rank."""

import pytest

from nccl_lines import found

HEAD = "|  Action                                      \t|  Mean duration (s)\t|\n"
ROW = "|  {:44}\t|  {:<15.5g}\t|  60             \t|  {:<13.5g}\t|  9.1    \t|\n"


def reports(**of_rank):
    """Return the files of four ranks; `of_rank` gives `r2=(data, forward)` in s."""
    files = {}
    for rank in range(4):
        data, forward = of_rank.get(f"r{rank}", (0.002, 0.1))
        backward = 0.4 - data - forward
        parts = {
            "[_TrainingEpochLoop].train_dataloader_next": data,
            "run_training_batch": forward + backward + 0.01,
            "[Strategy]DDPStrategy.training_step": forward,
            "[Strategy]DDPStrategy.backward": backward,
        }
        rows = (ROW.format(name, mean, 60 * mean) for name, mean in parts.items())
        files[f"fit-perf-{rank}.txt"] = "FIT Profiler Report\n\n" + HEAD + "".join(rows)
    return files


@pytest.mark.parametrize(
    ("slow", "what"),
    [((0.052, 0.1), "loads each batch 50 ms longer"), ((0.002, 0.15), "computes")],
)
def test_a_rank_that_works_longer_and_waits_less_is_slow(analyzed, slow, what):
    (told,) = found(analyzed(reports(r2=slow)), "slow-rank")
    assert (told.ranks, told.confidence) == ((2,), "likely")
    assert what in told.headline


@pytest.mark.parametrize(
    "of_rank",
    [
        pytest.param({}, id="all alike"),
        pytest.param({"r2": (0.012, 0.1)}, id="a little longer"),
        pytest.param({"r1": (0.04, 0.1), "r2": (0.052, 0.1)}, id="two of four"),
    ],
)
def test_nobody_is_named_if_no_rank_stands_apart(analyzed, of_rank):
    assert not found(analyzed(reports(**of_rank)), "slow-rank")


def test_who_takes_longer_and_waits_as_long_is_not_named(analyzed):
    """Its step is longer than that of the others: it is no member of their job."""
    files = reports(r2=(0.052, 0.1))
    files["fit-perf-2.txt"] = files["fit-perf-2.txt"].replace("0.248 ", "0.298 ")
    assert "0.298 " in files["fit-perf-2.txt"]
    assert not found(analyzed(files), "slow-rank")


def test_numbers_of_processes_on_two_nodes_are_no_ranks(analyzed):
    files = reports(r2=(0.052, 0.1))
    both = {f"{node}/{name}": t for node in "ab" for name, t in files.items()}
    assert not found(analyzed(both), "slow-rank")


def test_an_action_within_another_is_told_once(analyzed):
    """`training_step` holds `training_step.forward`, whoever wraps it."""
    files = reports(r2=(0.002, 0.15))
    for rank in range(4):
        inner = ROW.format("[LightningModule]Model.training_step.forward", 0.09, 5.4)
        files[f"fit-perf-{rank}.txt"] += inner
    (told,) = found(analyzed(files), "slow-rank")
    assert told.ranks == (2,)


def scrapes(slow):
    """Return one look at the counters of eight ranks on two hosts."""
    files = {}
    for host in range(2):
        lines = []
        for rank in range(4 * host, 4 * host + 4):
            work = 30.0 + (8.0 if rank in slow else 0.0) + 0.1 * (rank % 3)
            for phase, took in (("forward", work), ("grad_sync_wait", 50.0 - work)):
                of = f'phase="{phase}",rank="{rank}"'
                lines.append(f"trn_phase_seconds_sum{{{of}}} {took:.5f}")
        files[f"scrape/nid00340{host}_9102.prom"] = "\n".join(lines) + "\n"
    return files


def test_all_of_a_host_may_be_slow_by_their_counters(analyzed):
    (told,) = found(analyzed(scrapes({4, 5, 6, 7})), "slow-rank")
    assert (told.ranks, told.hosts) == ((4, 5, 6, 7), ("nid003401",))


def test_some_of_each_host_are_what_the_job_lets_them_do(analyzed):
    assert not found(analyzed(scrapes({0, 4})), "slow-rank")
