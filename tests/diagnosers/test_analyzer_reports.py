"""What torch's analyzer of Flight Recorder dumps prints names ranks if it is of one mind."""

import pytest

from log_lines import verdict

# as torchfrtrace of torch 2.13 prints it of dumps in tests/fixtures
CALL = """internal record id: 4
group info: {group}
collective: nccl:{op}
{missing}input sizes: [[1024]]
output sizes: [[1024]]
world size: 4
expected ranks: {{0, 1, 2, 3}}
collective state: scheduled
{error}collective stack trace:{space}
 all_reduce at /opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py:3245
train at /job/train.py:70
"""


def not_joined(missing, group="0:default_pg", seq=5):
    head = f"Not all ranks joining collective, sequence number: {seq}\n"
    missing = f"missing ranks: {missing}\n"
    return head + CALL.format(
        group=group, op="all_reduce", missing=missing, error="", space=" "
    )


def mismatch(*ranks, kind="COLLECTIVE_TYPE_MISMATCH"):
    told = ", ".join(f"Culprit rank {rank}; Error type: {kind}, x" for rank in ranks)
    call = {"group": "0:default_pg", "op": "all_reduce", "missing": "", "space": " "}
    return "Collective sequence number: 5 has errors\n" + CALL.format(
        **call, error=f"error msg: {told}\n"
    )


def test_the_missing_ranks_are_named_with_their_call(analyzed):
    analysis = analyzed({"fr.txt": not_joined("{2, 3}")})
    assert verdict(analysis)[:2] == ("missing-rank", (2, 3))
    call = analysis.ranked.verdict.collective
    assert (call.op, call.seq, call.process_group) == ("all_reduce", 5, "0")
    assert analysis.ranked.verdict.confidence == "likely"


def test_a_colon_in_place_of_the_comma_is_of_an_older_release(analyzed):
    text = not_joined("{2}").replace("collective, sequence", "collective: sequence")
    assert verdict(analyzed({"fr.txt": text}))[:2] == ("missing-rank", (2,))


def test_groups_that_contradict_each_other_name_nobody(analyzed):
    both = not_joined("{3}") + not_joined("{0, 1, 2}", "1:control")
    analysis = analyzed({"fr.txt": both})
    assert (analysis.ranked.outcome, analysis.ranked.verdict) == ("inconclusive", None)


def test_a_rank_that_came_alone_is_only_possible(analyzed):
    analysis = analyzed({"fr.txt": not_joined("{1, 2, 3}")})
    assert verdict(analysis)[:2] == ("rank-conditional-collective", (0,))
    assert analysis.ranked.verdict.confidence == "possible"


@pytest.mark.parametrize(
    ("called", "odd"), [((3,), (3,)), ((1, 2, 3), (0,)), ((2, 3), ())]
)
def test_the_smaller_side_of_a_mismatch_is_the_odd_one(analyzed, called, odd):
    analysis = analyzed({"fr.txt": mismatch(*called)})
    assert verdict(analysis)[:2] == ("collective-mismatch", odd)


def test_sizes_are_a_class_of_their_own(analyzed):
    text = mismatch(3, kind="SIZE_OR_SYNTAX_MISMATCH")
    assert verdict(analyzed({"fr.txt": text}))[:2] == ("shape-mismatch", (3,))


def test_a_state_that_differs_is_no_mismatch(analyzed):
    text = mismatch(3, kind="COLLECTIVE_STATE_MISMATCH")
    assert analyzed({"fr.txt": text}).ranked.verdict is None


def early(text, head):
    """What torch 2.4 and 2.5 print: members are counted, and the entry is in the head."""
    body = text.split("\n", 1)[1].replace("internal record id: 4\n", "")
    body = body.replace("world size: 4\n", "").replace("error msg:", "error message:")
    return f"{head}\n" + body.replace("ranks: {0, 1, 2, 3}", "ranks: 4")


def test_an_early_release_counts_the_members(analyzed):
    text = early(not_joined("{2}"), "Not all ranks joining collective 5 at entry 4")
    assert verdict(analyzed({"fr.txt": text}))[:2] == ("missing-rank", (2,))


@pytest.mark.parametrize(
    ("differing", "named"), [((3,), (3,)), ((1, 2, 3), ()), ((1, 2), ())]
)
def test_of_counted_members_only_the_smaller_side_is_named(analyzed, differing, named):
    text = mismatch(*differing, kind="SIZE_OR_SYNTAX_MISMATCH")
    told = early(text, "Collective 5 at entry 4 errors")
    assert verdict(analyzed({"fr.txt": told}))[:2] == ("shape-mismatch", named)
