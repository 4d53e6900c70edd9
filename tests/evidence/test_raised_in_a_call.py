"""An exception out of a collective is a victim's until all others are known to be."""

import pytest

from log_lines import timeout, verdict

FRAME = '  File "/opt/venv/lib/python3.11/site-packages/{}", line 83, in {}\n'
IN_CALL = FRAME.format("torch/distributed/distributed_c10d.py", "all_reduce")
IN_HOROVOD = FRAME.format("horovod/torch/mpi_ops.py", "synchronize")
IN_WEB = FRAME.format("urllib3/connectionpool.py", "urlopen")


def raised(rank, last, frame=IN_CALL):
    lines = (
        "Traceback (most recent call last):\n",
        '  File "/job/train.py", line 8, in step\n',
        frame,
        f"{last}\n",
    )
    return "".join(f"[rank{rank}]: {line}" for line in lines)


def accused(analysis):
    return [f.ranks for _, f in analysis.ranked.findings if f.slug == "crashed-rank"]


STRANGE = "RuntimeError: words that no grammar knows"


@pytest.mark.parametrize("frame", [IN_CALL, IN_HOROVOD])
def test_alone_it_accuses_nobody_and_the_job_is_not_well(analyzed, frame):
    found = analyzed({"rank_2.log": raised(2, STRANGE, frame)})
    assert accused(found) == []
    assert found.ranked.outcome == "inconclusive"


def test_where_all_others_are_victims_it_is_the_rank_s_own(analyzed):
    files = {f"rank_{rank}.log": timeout(rank) for rank in (0, 1, 3)}
    found = analyzed(files | {"rank_2.log": raised(2, STRANGE)})
    assert verdict(found) == ("crashed-rank", (2,), ())
    assert found.ranked.verdict.confidence == "likely"


def test_a_rank_that_says_nothing_may_be_the_one(analyzed):
    files = {f"rank_{rank}.log": timeout(rank) for rank in (1, 3)}
    assert (2,) not in accused(analyzed(files | {"rank_2.log": raised(2, STRANGE)}))


@pytest.mark.parametrize(
    ("last", "frame"),
    [
        ("ValueError: Invalid shape of the output list", IN_CALL),
        ("TypeError: all_reduce() got an unexpected argument", IN_CALL),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", IN_CALL),
        (STRANGE, IN_WEB),
    ],
)
def test_what_the_rank_did_itself_is_its_own(analyzed, last, frame):
    assert accused(analyzed({"rank_2.log": raised(2, last, frame)})) == [(2,)]


def test_what_every_rank_raises_is_the_program_s(analyzed):
    last, frame = "KeyError: 'lr'", IN_WEB
    files = {f"rank_{r}.log": raised(r, last, frame) for r in range(4)}
    found = analyzed(files).ranked.verdict
    assert (found.slug, found.ranks, found.confidence) == (
        "crashed-rank",
        (),
        "certain",
    )
    assert found.headline == "all 4 ranks raised KeyError: 'lr'"


def test_a_rank_that_was_not_seen_may_not_have_raised_it(analyzed):
    files = {f"rank_{r}.log": raised(r, "KeyError: 'lr'", IN_WEB) for r in (1, 2, 3)}
    assert analyzed(files).ranked.verdict.ranks == (1, 2, 3)


HANDLER = (
    FRAME.format("lightning/pytorch/trainer/connectors/signal.py", "__call__")
    + "    signal_handler(signum, frame)\n"
    + FRAME.format("lightning/pytorch/trainer/connectors/signal.py", "_notify")
    + IN_CALL
)


def test_the_calls_of_a_signal_handler_are_teardown(analyzed):
    lost = (
        "RuntimeError: [/src/gloo/pair.cc:553] Connection closed by peer [10.0.0.1]:1"
    )
    files = {f"rank_{rank}.log": timeout(rank) for rank in (1, 2, 3)}
    found = analyzed(files | {"rank_0.log": raised(0, lost, HANDLER)}).ranked.verdict
    assert (found.slug, found.ranks) == ("missing-rank", (0,))
    assert "When a signal came, rank 0 was in train.py:8 step" in found.explanation


@pytest.mark.parametrize(
    "last",
    [
        "RuntimeError: ",
        "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/buffer.cc:129]",
        "RuntimeError: InnerRunOpApi:OpParamMaker.cpp:281 HcclAllreduce failed",
        "RuntimeError: [/x/gloo/transport/tcp/socket.cc:220] recv: Bad address",
        "RuntimeError: MPI error in: ../c10d/ProcessGroupMPI.cpp:50, with error code: 15",
        "nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND",
        "RuntimeError: DeepEP error: timeout (dispatch CPU)",
        "RuntimeError: NCCL communicator was aborted.",
        "RuntimeError: Stop_waiting response is expected",
        "RuntimeError: Timeout waiting for key: default_pg/0/0 after 1800000 ms",
        "RuntimeError: Work ran time out after 600001 milliseconds.",
    ],
)
def test_words_that_are_lost_or_of_a_library_accuse_nobody(analyzed, last):
    found = analyzed({"rank_2.log": raised(2, last, "")})
    assert accused(found) == []
    assert found.ranked.outcome == "inconclusive"
