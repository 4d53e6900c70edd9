"""Lines that name nobody, and still say that all is not well."""

import pytest

from log_lines import init
from ncclforensics.analysis import analyze


def outcome(tmp_path, text):
    (tmp_path / "job.log").write_text(text)
    return analyze([str(tmp_path)]).report.outcome


def starts():
    return "".join(init(rank, 4, phase="START") for rank in range(4))


def test_a_communicator_that_everybody_waits_for_is_no_clean_bill(tmp_path):
    assert outcome(tmp_path, starts()) == "inconclusive"


@pytest.mark.parametrize(
    "later",
    [
        "".join(init(rank, 4) for rank in range(4)),
        "[2026-11-20 10:00:00] step 10/500 | loss 3.1\n",
    ],
)
def test_one_that_came_up_is(tmp_path, later):
    assert outcome(tmp_path, starts() + later) == "no-failure"


def test_a_rank_alone_waits_for_nobody(tmp_path):
    assert outcome(tmp_path, init(0, 1, phase="START")) == "no-failure"


def test_a_task_that_failed_is_one_whatever_it_failed_of(tmp_path):
    ended = "srun: error: gpu0001: task 3: Exited with exit code 1\n"
    assert outcome(tmp_path, ended) == "inconclusive"


def test_an_agent_that_ends_its_children_as_it_was_told_is_well(tmp_path):
    closing = (
        "W1120 10:00:00.123000 4242 torch/distributed/elastic/multiprocessing/api.py:900] "
        "Sending process 4300 closing signal SIGTERM\n"
    )
    assert outcome(tmp_path, f"step 10 loss 3.1\n{closing}") == "no-failure"


def test_dumps_cut_before_any_call_are_no_clean_bill(jobs, tmp_path):
    dumps = jobs / "torch-missing-rank-two-hosts" / "evidence" / "fr"
    for file in dumps.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes()[:300])
    assert analyze([str(tmp_path)]).report.outcome == "inconclusive"


GONE = (
    "[rank1]:[W1120 11:24:11.246076248 ProcessGroupNCCL.cpp:1662] [PG ID 0 PG GUID 0 "
    'Rank 1] Failed to check the "should dump" flag on TCPStore, (maybe TCPStore '
    "server has shut down too early), with error: Broken pipe\n"
)


@pytest.mark.parametrize(
    ("before", "said"), [("", "inconclusive"), ("step 10/500\n", "no-failure")]
)
def test_last_words_alone_do_not_tell_how_the_job_ended(tmp_path, before, said):
    assert outcome(tmp_path, before + GONE) == said
