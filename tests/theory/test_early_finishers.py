"""Who only finished early is accused by no finding, and a SEND may meet a RECV."""

import pytest
from standstills import STEP, frames

from ncclforensics.analysis import conclude

HISTORY = STEP * 16
GONE_ON = f"{HISTORY}Qabcdp|W"
IN_IT = f"{HISTORY}|Q"


def findings(programs, **more):
    """Return class and ranks of every finding, secondary ones included."""
    ranked, _ = conclude(frames(programs, **more))
    return [(finding.slug, finding.ranks) for _, finding in ranked.findings]


def accused(programs, **more):
    return {rank for _, ranks in findings(programs, **more) for rank in ranks}


def test_a_source_that_ran_ahead_of_its_receivers_is_not_accused_beside_the_culprit():
    found = findings([GONE_ON, IN_IT, HISTORY, IN_IT])
    assert found[0] == ("missing-rank", (2,))
    assert {rank for _, ranks in found for rank in ranks} == {2}


def test_a_source_that_ran_ahead_is_not_accused_where_nobody_else_is():
    assert 0 not in accused([GONE_ON, IN_IT, IN_IT, IN_IT])


def test_of_a_call_that_ends_together_who_is_still_in_it_is_the_odd_one():
    """The look-alike: no rank can be ahead of an all_reduce."""
    ahead = f"{HISTORY}abcdpWabcd|p"
    assert 2 in accused([ahead, ahead, f"{HISTORY}abcdp|W", ahead])


def test_a_send_that_meets_its_receive_is_no_mismatch():
    pair = [f"{'a><' * 16}a|>", f"{'a<>' * 16}a|<"]
    assert "collective-mismatch" not in {slug for slug, _ in findings(pair)}
    assert "unmatched-p2p" not in {slug for slug, _ in findings(pair)}


def test_two_operations_in_one_call_are():
    programs = [f"{HISTORY}abcdp|W"] * 3 + [f"{HISTORY}abcdp|Q"]
    assert ("collective-mismatch", (3,)) in findings(programs)


def test_two_sends_that_meet_no_receive_are_another_failure():
    """The look-alike: the same operation on both sides, and it cannot go on."""
    found = findings(["a><" * 16 + "a|>"] * 2)
    assert ("call-order-deadlock", (0, 1)) in found
    assert "collective-mismatch" not in {slug for slug, _ in found}


@pytest.mark.parametrize(("one", "other"), [("SEND", "RECV"), ("RECV", "SEND")])
def test_timeouts_of_a_send_and_of_its_receive_are_no_mismatch(analyzed, one, other):
    def gave_up(rank, op):
        return (
            f"[rank{rank}]:[E102 03:04:05.678901234 ProcessGroupNCCL.cpp:632] "
            f"[Rank {rank}] Watchdog caught collective operation timeout: "
            f"WorkNCCL(SeqNum=7, OpType={op}, NumelIn=4, NumelOut=4, "
            "Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n"
        )

    log = gave_up(0, one) + gave_up(1, other)
    found = {f.slug for _, f in analyzed({"job.log": log}).ranked.findings}
    assert "collective-mismatch" not in found
    apart = gave_up(0, "ALLREDUCE") + gave_up(1, "ALLGATHER")
    apart += gave_up(2, "ALLREDUCE") + gave_up(3, "ALLREDUCE")
    differ = {f.slug for _, f in analyzed({"job.log": apart}).ranked.findings}
    assert "collective-mismatch" in differ
