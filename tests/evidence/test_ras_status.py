"""RAS names who is behind or gone; a snapshot of a running job names nobody."""

import pytest

from ncclforensics.evidence import ras_status

JOB = """  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          2            1          4        4
"""
DEAD = "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n"
ASKED = "INCOMPLETE\n  Missing communicator data from 1 job process\n"


def mismatch(behind, most=6, rank=1):
    return (
        f"{JOB}#0-0 (726018ea639731a2) MISMATCH\n"
        "  Communicator ranks have different AllReduce operation counts\n"
        f"  3 ranks have launched up to operation {most}\n"
        f"  Rank {rank} has launched up to operation {behind} -- GPU 1 managed by "
        "process 26 on node 10.0.0.1\n"
    )


def named(found):
    return found and (found.slug, found.ranks, found.hosts)


def test_a_rank_two_calls_behind_is_missing(analyzed):
    frames = analyzed({"ncclras.txt": mismatch(4)}).frames
    assert named(ras_status.lagging(frames)) == ("missing-rank", (1,), ("10.0.0.1",))


def test_a_rank_one_call_behind_is_a_healthy_moment(analyzed):
    frames = analyzed({"ncclras.txt": mismatch(5)}).frames
    assert ras_status.lagging(frames) is None


def test_counts_that_stand_still_are_a_hang(analyzed):
    frames = analyzed({"1.txt": mismatch(5), "2.txt": mismatch(5)}).frames
    assert named(ras_status.lagging(frames))[1] == (1,)


def test_counts_that_go_on_are_not(analyzed):
    frames = analyzed({"1.txt": mismatch(5), "2.txt": mismatch(8, 9)}).frames
    assert ras_status.lagging(frames) is None


def test_a_rank_that_is_ahead_elsewhere_waits_itself(analyzed):
    text = mismatch(4) + (
        "#1-0 (beef) MISMATCH\n"
        "  Communicator ranks have different AllReduce operation counts\n"
        "  Rank 1 has launched up to operation 9 -- GPU 1 managed by process 26 on "
        "node 10.0.0.1\n"
        "  Rank 0 has launched up to operation 5 -- GPU 0 managed by process 25 on "
        "node 10.0.0.1\n"
    )
    init = (
        "gpu0001:{pid}:{pid} [0] NCCL INFO ncclCommInitRank comm 0x7f0 rank {rank} "
        "nranks {size} cudaDev 0 nvmlDev 0 busId 7000 commId 0x{comm} - Init START\n"
    )
    logs = "".join(
        init.format(pid=25 + r, rank=r, size=size, comm=comm)
        for comm, size in (("726018ea639731a2", 4), ("beef", 2))
        for r in range(size)
    )
    found = ras_status.lagging(analyzed({"ncclras.txt": text, "job.log": logs}).frames)
    assert found is None or 1 not in found.ranks


@pytest.mark.parametrize("dead", [False, True])
def test_a_process_that_does_not_answer_is_gone_only_if_ras_says_so(analyzed, dead):
    text = (
        f"{JOB}Errors\n======\n\n"
        + (DEAD if dead else ASKED)
        + "  Process 31 on node 10.0.0.2 managing GPU 1\n\n"
        "#0-0 (23038fd5fefa6f76) INCOMPLETE\n"
        "  Missing communicator data from 1 rank\n"
        "  Rank 3 -- GPU 1 managed by process 31 on node 10.0.0.2\n"
    )
    found = ras_status.unanswered(analyzed({"ncclras.txt": text}).frames)
    assert found.slug == ("crashed-rank" if dead else "missing-rank")
    assert found.hosts == ("10.0.0.2",)


def test_a_healthy_report_names_nobody(analyzed):
    text = (
        JOB
        + "    0         8         4         1         4        32   RUNNING      OK\n"
    )
    analysis = analyzed({"ncclras.txt": text})
    assert analysis.ranked.outcome == "no-failure"


ALONE = "  Process 26 on node 10.0.0.1 managing GPU 1\n"


@pytest.mark.parametrize(
    ("head", "slug"), [(DEAD, "crashed-rank"), (ASKED, "missing-rank")]
)
def test_a_process_of_which_only_the_host_is_told_is_named_by_it(analyzed, head, slug):
    found = ras_status.unanswered(analyzed({"ncclras.txt": head + ALONE}).frames)
    assert named(found) == (slug, (), ("10.0.0.1",))
    assert "10.0.0.1" in found.headline


def test_members_that_do_not_answer_are_on_the_host_of_the_only_silent_process(
    analyzed,
):
    list_ = (
        "#0-0 (cf264af53edbe986) INCOMPLETE\n"
        "  Missing communicator data from 1 rank\n  The missing rank: 21\n"
    )
    frames = analyzed({"ncclras.txt": ASKED + ALONE + list_}).frames
    assert named(ras_status.unanswered(frames))[2] == ("10.0.0.1",)


def test_one_look_that_finds_ranks_apart_is_no_clean_bill_of_health(analyzed):
    one = analyzed({"ncclras.txt": mismatch(5)}).report
    assert (one.outcome, one.verdict) == ("inconclusive", None)
    two = analyzed({"1.txt": mismatch(5), "2.txt": mismatch(8, 9)})
    assert ras_status.unsettled(two.frames) == 0
