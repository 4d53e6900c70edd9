"""Jobs that say that their training is over."""

import pytest

from ncclforensics.analysis import analyze
from ncclforensics.correlate.runs import finished

CAUGHT = (
    "bad label in row 7, using the rounded one\n"
    "Traceback (most recent call last):\n"
    '  File "/job/data.py", line 15, in __getitem__\n'
    "    stars = int(row)\n"
    "ValueError: invalid literal for int() with base 10: '3.5'\n"
)
STACK = """Process {pid}: python -u fit.py
Python v3.11.7 (/usr/bin/python3.11)

Thread {pid} (idle): "MainThread"
    {call}
    on_train_epoch_end (fit.py:10)
    Trainer.fit (lightning/pytorch/trainer/trainer.py:584)
    <module> (fit.py:20)
"""
BARRIER = "barrier (torch/distributed/distributed_c10d.py:5356)"
SAID = "2026-11-20 10:00:0{rank} [rank {rank}] {words}\n"


def analyzed(path, files):
    for name, text in files.items():
        (path / name).write_text(text)
    return analyze([str(path)])


@pytest.mark.parametrize(
    ("last", "outcome"),
    [
        ("Training completed. Do not forget to share your model", "no-failure"),
        ("Waiting until training is done", "failure"),
    ],
)
def test_an_exception_of_one_rank_was_survived_if_another_ended_its_training(
    tmp_path, last, outcome
):
    files = {"rank0.err": f"start\n{last}\n", "rank1.err": f"start\n{CAUGHT}"}
    assert analyzed(tmp_path, files).ranked.outcome == outcome


def test_what_calls_failed_of_may_have_failed_behind_the_training(tmp_path):
    lost = (
        "[rank1]: RuntimeError: [../gloo/transport/tcp/pair.cc:547] Connection closed "
        "by peer [10.0.0.1]:41000\n"
    )
    files = {"rank0.err": "training finished\n", "rank1.err": CAUGHT + lost}
    told = analyzed(tmp_path, files)
    assert finished.lines(told.frames).is_empty()
    assert told.ranked.outcome != "no-failure"


@pytest.mark.parametrize("finishing", [3, 2])
def test_stacks_are_of_a_job_that_ran_if_all_its_ranks_ended_their_training(
    tmp_path, finishing
):
    calls = ["render (fit.py:13)", BARRIER, BARRIER]
    files = {
        f"rank{rank}_stack.txt": STACK.format(pid=100 + rank, call=call)
        for rank, call in enumerate(calls)
    }
    files["out.log"] = "".join(
        SAID.format(rank=rank, words=words)
        for words in ("step 10 loss 0.2", "training finished")
        for rank in range(3 if words.startswith("step") else finishing)
    )
    told = analyzed(tmp_path, files)
    assert finished.is_whole(told.frames) is (finishing == 3)
    assert (told.ranked.outcome == "no-failure") is (finishing == 3)


def test_one_rank_that_ends_its_training_says_nothing_of_other_processes(tmp_path):
    calls = ["render (fit.py:13)", BARRIER, BARRIER]
    stacks = [STACK.format(pid=100 + n, call=call) for n, call in enumerate(calls)]
    files = {"stacks.txt": "\n".join(stacks)}
    files["out.log"] = "[rank 0] step 10 loss 0.2\n[rank 0] training finished\n"
    told = analyzed(tmp_path, files)
    assert finished.is_whole(told.frames)
    assert told.ranked.outcome != "no-failure"
