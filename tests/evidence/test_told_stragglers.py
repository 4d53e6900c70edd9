"""Programs that measure who is slow: their word counts if it is always the same."""

import pytest

from nccl_lines import found

WARNED = (
    "STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. "
    "Affected ranks: {}\n"
)
REPORTED = (
    "INFO:megatron.core.utils:[2026-11-20 12:00:00] | MnRtt/Rnk: {:.2f}ms/{} | "
    "MxRtt/Rnk: {:.2f}ms/{} | MnPwr/Rnk: 512345.00W/0 | MxPwr/Rnk: 601234.00W/2 |\n"
)
STEP = (
    "Training epoch 0, iteration {0}/99 | lr: 1e-06 | global_batch_size: 8 | "
    "global_step: {0} | reduced_train_loss: 11.0 | train_step_timing in s: {1}\n"
)


def reports(slowest, most=900.0):
    return "".join(REPORTED.format(800.0, 3, most, rank) for rank in slowest)


@pytest.mark.parametrize("affected", ["{{StragglerId(rank=5, node='gpu0001')}}", "[5]"])
def test_whom_nvrx_warns_of_is_named(analyzed, affected):
    text = WARNED.format(affected.replace("{{", "{").replace("}}", "}")) * 3
    (told,) = found(analyzed({"job.log": text}), "slow-rank")
    assert (told.ranks, told.confidence) == ((5,), "likely")


def test_who_is_warned_of_once_among_others_is_not_named(analyzed):
    text = "".join(WARNED.format(f"[{rank}]") for rank in (1, 2, 3, 4))
    assert not found(analyzed({"job.log": text}), "slow-rank")


def test_the_rank_that_is_always_megatrons_slowest_is_possible(analyzed):
    (told,) = found(analyzed({"job.log": reports([5] * 19 + [2])}), "slow-rank")
    assert (told.ranks, told.confidence) == ((5,), "possible")


@pytest.mark.parametrize(
    "text",
    [reports([1, 2, 3, 5] * 5), reports([5] * 20, most=830.0), reports([5] * 4)],
)
def test_any_slowest_of_megatron_is_not_named(analyzed, text):
    assert not found(analyzed({"job.log": text}), "slow-rank")


def test_steps_of_nemo_that_take_longer_to_the_end_are_told(analyzed):
    times = [30.0, 9.0, 1.2, *[1.2, 1.25] * 10, *[2.9, 3.0] * 10]
    text = "".join(STEP.format(n, took) for n, took in enumerate(times))
    (told,) = found(analyzed({"job.log": text}), "slow-network")
    assert "since step 23" in told.headline


def scores(*worst, head=" GPU relative performance:"):
    """NVRx's scores as NeMo prints them: the worst two, and the best."""
    rows = "".join(f"    Rank={r} Node=gpu0001 Score={s:.2f}\n" for r, s in worst)
    return (
        f"{head}\n  Worst performing {len(worst)}/16 ranks:\n{rows}"
        "  Best performing 1/16 ranks:\n    Rank=2 Node=gpu0001 Score=1.00\n"
    )


ON_HOSTS = "".join(
    f"rank={r} world_size=16 host=gpu000{1 + r // 4}\n" for r in range(16)
)
HEADS = (
    " GPU relative performance:",
    "[NeMo I 2026-11-20 12:00:00 straggler_det_callback:158] GPU relative performance:",
)


@pytest.mark.parametrize("head", HEADS)
def test_whose_gpu_has_by_far_the_worst_score_in_each_report_is_named(analyzed, head):
    text = scores((14, 0.87), (0, 0.99), head=head) * 8
    (told,) = found(analyzed({"job.log": text}), "slow-rank")
    assert (told.ranks, told.confidence) == ((14,), "likely")
    assert told.evidence[0].line == 3  # its own line, below the two headings


def test_gpus_of_one_host_that_all_score_far_below_the_others_are_named(analyzed):
    rows = [(r, 0.76) for r in range(4)] + [(8, 0.98), (9, 0.99)]
    (told,) = found(analyzed({"job.log": ON_HOSTS + scores(*rows) * 8}), "slow-rank")
    assert (told.ranks, told.hosts) == ((0, 1, 2, 3), ("gpu0001",))


def test_scores_of_several_ranks_in_one_line_are_read(analyzed):
    line = "  Rank=0 Node=gpu0001 Score=0.98  Rank=1 Node=gpu0001 Score=0.61\n"
    text = f"GPU relative performance (1 = the quickest), kernels:\n{line}" * 8
    (told,) = found(analyzed({"job.log": text}), "slow-rank")
    assert told.ranks == (1,)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(scores((14, 0.95), (0, 0.99)) * 8, id="nearly as quick"),
        pytest.param(scores((14, 0.8), (0, 0.81)) * 8, id="not alone"),
        pytest.param(scores((14, 0.8), (0, 0.99)), id="once"),
        pytest.param(
            "".join(scores((r, 0.8), (15, 0.99)) for r in range(8)), id="in turn"
        ),
        pytest.param(
            scores((14, 0.8), (0, 0.99), head="GPU individual performance:") * 8,
            id="against its own past",
        ),
    ],
)
def test_other_scores_name_nobody(analyzed, text):
    assert not found(analyzed({"job.log": text}), "slow-rank")
