"""Horovod says which ranks others wait for: missing-rank, if the job did not go on."""

import pytest

from nccl_lines import found

SLUG = "missing-rank"
STALL = (
    "[2026-11-20 12:00:00.123456: W /src/horovod/common/stall_inspector.cc:107] One or "
    "more tensors were submitted to be reduced, gathered or broadcasted by subset of "
    "ranks and are waiting for remainder of ranks for more than 60 seconds. This may "
    "indicate that different ranks are trying to submit different tensors\n"
)
LIST = "Missing ranks:\n3: [allreduce.fc.bias, allreduce.fc.weight ...]\n"


def test_the_ranks_of_the_list_are_named(analyzed):
    (finding,) = found(analyzed({"job.log": STALL + LIST}), SLUG)
    assert finding.ranks == (3,)
    assert finding.collective.op == "allreduce.fc.bias"


def test_mpirun_and_hydra_put_their_ranks_before_it(analyzed):
    of_mpi = "".join(f"[1,0]<stderr>:{x}\n" for x in (STALL + LIST).splitlines())
    (finding,) = found(analyzed({"job.log": of_mpi}), SLUG)
    assert finding.ranks == (3,)
    of_hydra = "".join(f"[0] {x}\n" for x in (STALL + LIST).splitlines())
    (finding,) = found(analyzed({"job.log": of_hydra}), SLUG)
    assert finding.ranks == (3,)


def test_several_ranks_may_lack_one_tensor(analyzed):
    both = LIST + "5!: [allreduce.fc.bias, allreduce.fc.weight ...]\nnext line\n"
    (finding,) = found(analyzed({"job.log": STALL + both}), SLUG)
    assert finding.ranks == (3, 5)


def test_early_releases_name_them_behind_each_tensor(analyzed):
    early = STALL + (
        "Stalled ops:\n"
        "HorovodBroadcast_fc_bias_0 [missing ranks: 1, 2]\n"
        "HorovodBroadcast_fc_weight_0 [missing ranks: 1, 2]\n"
    )
    (finding,) = found(analyzed({"job.log": early}), SLUG)
    assert finding.ranks == (1, 2)
    crossed = early.replace(
        "fc_weight_0 [missing ranks: 1, 2]", "x_0 [missing ranks: 3]"
    )
    assert not found(analyzed({"job.log": crossed}), SLUG)


def test_ranks_that_wait_for_each_other_s_tensors_are_both_right(analyzed):
    crossed = LIST + "1: [allreduce.conv.bias ...]\n"
    analysis = analyzed({"job.log": STALL + crossed})
    assert not found(analysis, SLUG)
    assert analysis.ranked.outcome == "inconclusive"


def test_equal_sides_in_different_operations_are_a_tie(analyzed):
    each = "Missing ranks:\n0: [broadcast.sz]\n1: [allreduce.fc.bias ...]\n"
    analysis = analyzed({"job.log": STALL + each})
    (finding,) = found(analysis, "collective-mismatch")
    assert (finding.ranks, finding.confidence) == ((0, 1), "likely")
    same = each.replace("broadcast.sz", "allreduce.conv.bias")
    assert not found(analyzed({"job.log": STALL + same}), "collective-mismatch")


def test_a_stall_that_passed_names_nobody(analyzed):
    went_on = STALL + LIST + "step 120 loss 2.1\n"
    assert not found(analyzed({"job.log": went_on}), SLUG)


def test_newer_releases_call_the_list_stalled(analyzed):
    text = STALL + LIST.replace("Missing", "Stalled")
    (finding,) = found(analyzed({"job.log": text}), SLUG)
    assert finding.ranks == (3,)


def test_of_two_sides_that_lack_each_other_s_tensors_the_smaller_is_the_odd_one(
    analyzed,
):
    ready = STALL + (
        "Stalled ops: loss_0 [ready ranks: 3], grad_0 [ready ranks: 0, 1, 2], "
        "grad_1 [ready ranks: 0, 1, 2]\n"
    )
    analysis = analyzed({"job.log": ready})
    (finding,) = found(analysis, "collective-mismatch")
    assert finding.ranks == (3,)
    tie = ready.replace("ready ranks: 3]", "ready ranks: 2, 3]").replace(
        "0, 1, 2", "0, 1"
    )
    assert analyzed({"job.log": tie}).ranked.outcome == "inconclusive"
    # rank 4 came to neither: the sides do not hold all ranks
    third = ready + "Stalled ops: other_0 [ready ranks: 4]\n"
    assert not found(analyzed({"job.log": third}), "collective-mismatch")


ANSWERS = {
    "Mismatched MPI operations: One rank did an ALLREDUCE, but another rank did an "
    "ALLGATHER.": "collective-mismatch",
    "Mismatched BROADCAST root ranks: One rank specified root rank 0, but another rank "
    "specified root rank 1.": "collective-mismatch",
    "Mismatched ALLREDUCE CPU/GPU device selection: One rank specified device GPU, but "
    "another rank specified device CPU.": "collective-mismatch",
    "Mismatched data types: One rank had type float32, but another rank had type "
    "float64.": "shape-mismatch",
    "Mismatched ALLREDUCE tensor shapes: One rank sent a tensor of shape [32, 10], but "
    "another rank sent a tensor of shape [17, 10].": "shape-mismatch",
}


@pytest.mark.parametrize(("answer", "slug"), ANSWERS.items())
def test_what_the_coordinator_compares_names_nobody(analyzed, answer, slug):
    lines = (f"[1,{r}]<stderr>:ValueError: {answer}\n" for r in (0, 1))
    top = analyzed({"job.log": "".join(lines)}).ranked.verdict
    assert (top.slug, top.ranks, top.confidence) == (slug, (), "certain")


def test_a_warning_about_ranks_that_may_differ_is_no_mismatch(analyzed):
    text = (
        "different ranks are trying to submit different tensors: one rank specified\n"
    )
    assert not found(analyzed({"job.log": text}), "collective-mismatch")


TF = (
    "2026-11-20 10:31:17.182077: W tensorflow/core/framework/op_kernel.cc:1655] "
    "OP_REQUIRES failed at collective_ops.cc:253 : Invalid argument: Shape mismatch in "
    "the collective instance 12. Op at device /job:worker/replica:0/task:3/device:GPU:0 "
    "expected shape [10,{}] but another member in the group expected shape [10,17].\n"
)


def test_the_task_of_tensorflow_that_reports_a_shape_is_not_named(analyzed):
    top = analyzed({"w.log": TF.format(32)}).ranked.verdict
    assert (top.slug, top.ranks, top.hosts) == ("shape-mismatch", (), ())


def test_a_shape_that_a_layer_refuses_is_no_collective(analyzed):
    text = "ValueError: Shape mismatch: logits [10,32] and labels [10,17]\n"
    assert not found(analyzed({"w.log": text}), "shape-mismatch")


def test_a_tensor_that_one_rank_alone_submitted_may_be_its_own(analyzed):
    """Rank 0 averages its metrics; 15 ranks that all lack it are not to blame."""
    others = ", ".join(map(str, range(1, 16)))
    listed = f"Stalled ops:\nMetricAverage_lr_0 [missing ranks: {others}]\n"
    analysis = analyzed({"job.log": STALL + listed})
    assert not found(analysis, SLUG)
    (finding,) = found(analysis, "rank-conditional-collective")
    assert (finding.ranks, finding.confidence) == ((0,), "possible")
