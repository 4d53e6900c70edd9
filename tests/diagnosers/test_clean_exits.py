"""A rank that its agent does not list exited normally only where the list is whole."""

import shutil

import pytest

from nccl_lines import found

SLUG = "uneven-inputs"
CODE = "  exitcode  : 1 (pid: 41010) \n"
OVER = "2026-11-20 11:34:59,732 epoch 1 done\n"
KILLED = "  exitcode  : -9 (pid: 41011)  (SIGKILL)\n"


@pytest.fixture
def ended(jobs, tmp_path):
    """Real evidence of a rank 3 that left its loop early, and its agent's log.

    The line in which that rank says so is left out.
    """
    shutil.copytree(jobs / "torch-uneven-inputs" / "evidence", tmp_path / "e")
    stdout = next((tmp_path / "e").glob("logs/*/attempt_0/3/stdout.log"))
    said = stdout.read_text()
    assert OVER in said
    stdout.write_text(said.replace(OVER, ""))
    return tmp_path / "e"


def ranks(folder, text):
    from ncclforensics.analysis import analyze

    (folder / "torchrun.log").write_text(text)
    return [f.ranks for f in found(analyze([str(folder)]), SLUG)]


def test_of_a_whole_list_the_one_that_is_not_on_it(ended):
    text = (ended / "torchrun.log").read_text()
    assert CODE in text
    assert ranks(ended, text) == [(3,)]


def test_an_entry_that_lost_its_code_may_not_be_the_only_one_that_lost_lines(ended):
    text = (ended / "torchrun.log").read_text()
    assert ranks(ended, text.replace(CODE, "")) == []


def test_its_own_line_tells_it_whatever_the_list_has_lost(ended):
    text = (ended / "torchrun.log").read_text()
    stdout = next(ended.glob("logs/*/attempt_0/3/stdout.log"))
    stdout.write_text(stdout.read_text() + OVER)
    assert ranks(ended, text.replace(CODE, "")) == [(3,)]


def test_who_was_killed_is_waited_for_as_well(ended):
    text = (ended / "torchrun.log").read_text()
    (ended / "fr" / "nccl_trace_rank_2").unlink()
    stderr = next(ended.glob("logs/*/attempt_0/2/stderr.log"))
    stderr.write_text("")
    assert ranks(ended, text) == [(3,)]
    fell = text.replace(CODE.replace("41010", "41011"), KILLED)
    assert fell != text
    assert ranks(ended, fell) == []


START = "W1121 09:00:00.500000 900 torch/distributed/run.py:874] \n"
AGENT = "W1121 09:00:09.500000 900 torch/distributed/elastic/multiprocessing/api.py:{} "
CLOSED = (
    "[rank{}]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553]"
    " Connection closed by peer [10.0.0.1]:35472.\n"
)
CLOSING = AGENT.format("1028]") + "Sending process {} closing signal SIGTERM\n"
FAILED = (
    AGENT.format("1002]") + "failed (exitcode: 1) local_rank: 1 (pid: 711) of binary: "
    "/usr/bin/python\n"
)
ENTRY = (
    "[{}]:\n  time      : 2026-11-21_09:00:09\n  host      : gpu0001\n"
    "  rank      : {} (local_rank: {})\n  exitcode  : {} (pid: {})\n"
    "  error_file: <N/A>\n  traceback : none\n"
)
LINE = "-" * 60 + "\n"


def interleaved(words, told=(710, 713)):
    """What torchrun prints, where rank 2 of four (pids 710 to 713) is on no list."""
    others = ENTRY.format(1, 0, 0, -15, 710) + ENTRY.format(2, 3, 3, -15, 713)
    first = ENTRY.format(0, 1, 1, 1, 711)
    return (
        f"{START}{words}{''.join(CLOSING.format(pid) for pid in told)}{FAILED}"
        f"{'=' * 60}\ntrain.py FAILED\n{LINE}Failures:\n{others}{LINE}"
        f"Root Cause (first observed failure):\n{first}{'=' * 60}\n"
    )


LOST = "".join(CLOSED.format(rank) for rank in (0, 1, 3))
OWN = (
    '[rank1]: Traceback (most recent call last):\n[rank1]:   File "/job/train.py", '
    "line 3, in f\n[rank1]: KeyError: 'x'\n"
)


def test_the_number_between_those_listed_is_whom_all_others_lost(analyzed):
    (finding,) = found(analyzed({"train.log": interleaved(LOST)}), SLUG)
    assert (finding.ranks, finding.hosts) == ((2,), ("gpu0001",))


@pytest.mark.parametrize(
    "text",
    [
        # it heeded the agent's signal, which others had brought about
        interleaved(LOST, (710, 712, 713)),
        # another one ended for a reason of its own
        interleaved(OWN + CLOSED.format(0) + CLOSED.format(3)),
        # nobody lost anybody
        interleaved(""),
        # the list's end is lost
        interleaved(LOST)[:-200],
    ],
)
def test_a_number_between_proves_nothing_where_there_is_another_reason(analyzed, text):
    assert not found(analyzed({"train.log": text}), SLUG)
