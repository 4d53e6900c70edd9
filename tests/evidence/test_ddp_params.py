"""shape-mismatch tells of models that DDP found to differ when it wrapped them."""

import pytest

from log_lines import timeout, traceback, verdict

SIZES = (
    "RuntimeError: [{rank}]: params[0] in this process with sizes [5, 4] appears not "
    "to match sizes of the same param in process 0."
)
COUNTS = (
    "RuntimeError: DDP expects same model across all ranks, but Rank {rank} has {a} "
    "params, while rank {peer} has inconsistent {b} params."
)


def init(world):
    return "".join(
        f"gpu0001:{50 + r}:{50 + r} [{r}] NCCL INFO comm 0x7f00 rank {r} nranks {world} "
        f"cudaDev {r} busId {r + 1}000 commId 0xabc - Init COMPLETE\n"
        for r in range(world)
    )


@pytest.mark.parametrize(
    ("world", "raised", "odd"),
    [(4, (2,), (2,)), (4, (1, 2, 3), (0,)), (2, (1,), ())],
)
def test_the_rank_that_is_alone_with_its_sizes_is_named(analyzed, world, raised, odd):
    log = init(world) + "".join(traceback(r, SIZES.format(rank=r)) for r in raised)
    slug, ranks, _ = verdict(analyzed({"job.log": log}))
    assert (slug, ranks) == ("shape-mismatch", odd)


def count(rank, a, peer, b):
    return traceback(rank, COUNTS.format(rank=rank, a=a, peer=peer, b=b))


def test_the_rank_that_is_alone_with_its_count_is_named(analyzed):
    log = count(1, 4, 3, 2) + count(0, 4, 3, 2) + count(3, 2, 0, 4)
    assert verdict(analyzed({"job.log": log})) == ("shape-mismatch", (3,), ())


def test_of_two_counts_neither_is_the_odd_one(analyzed):
    log = count(1, 4, 0, 2)
    assert verdict(analyzed({"job.log": log})) == ("shape-mismatch", (), ())


def test_a_count_of_zero_is_an_answer_that_never_came(analyzed):
    log = count(0, 128, 1, 0) + "".join(count(r, 128, 0, 0) for r in (1, 2, 3))
    analysis = analyzed({"job.log": log})
    assert verdict(analysis) == ("shape-mismatch", (), ())
    assert analysis.ranked.verdict.confidence == "likely"


TRUNCATED = (
    "gpu0001:4121:4302 [0] transport/net_socket.cc:500 NCCL WARN NET/Socket : peer "
    "10.20.0.12<41000> message truncated : receiving 524288 bytes instead of 262144\n"
)


def test_a_message_of_another_size_is_a_mismatch_of_which_neither_end_is_named(
    analyzed,
):
    analysis = analyzed({"job.log": TRUNCATED})
    assert verdict(analysis) == ("shape-mismatch", (), ())
    assert analysis.ranked.verdict.confidence == "likely"


OLD = (
    "init.cc:310 NCCL WARN Mismatched collective detected, please check your "
    "collective calls at and around rank 3. You can use NCCL_DEBUG=INFO\n"
)


@pytest.mark.parametrize("head", ["", "gpu0001:4121:4302 [0] "])
def test_what_nccl_up_to_2_7_saw_is_a_mismatch(analyzed, head):
    slug, ranks, _ = verdict(analyzed({"job.log": head + OLD}))
    assert (slug, ranks) == ("collective-mismatch", ())


def test_a_count_of_nothing_after_a_timeout_is_the_timeouts_echo(analyzed):
    lines = "".join(
        f"[rank{r}]: RuntimeError: DDP expects same model across all ranks, but Rank {r}"
        " has 51 params, while rank 0 has inconsistent 0 params.\n"
        for r in (1, 2)
    )
    alone = analyzed({"job.log": lines})
    assert alone.ranked.verdict.slug == "shape-mismatch"
    timed_out = analyzed({"job.log": "".join(map(timeout, (0, 1, 2))) + lines})
    assert timed_out.ranked.verdict.slug != "shape-mismatch"


@pytest.mark.parametrize("what", ["replicas[0][7]", "params[7]"])
def test_older_torch_names_no_rank_in_its_line(analyzed, what):
    line = SIZES.format(rank=2).replace("[2]: params[0]", what)
    told = analyzed({"job.log": f"{line}\n"})
    assert verdict(told) == ("shape-mismatch", (), ())
    assert "on a rank that its line does not name" in told.report.verdict.headline
