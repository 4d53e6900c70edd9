"""A rank that its agent does not list ended in peace only where the list is whole."""

import shutil

import pytest

from nccl_lines import found

SLUG = "uneven-inputs"
CODE = "  exitcode  : 1 (pid: 41010) \n"
KILLED = "  exitcode  : -9 (pid: 41011)  (SIGKILL)\n"


@pytest.fixture
def ended(jobs, tmp_path):
    """Real evidence of a rank 3 that left its loop early, and its agent's log."""
    shutil.copytree(jobs / "torch-uneven-inputs" / "evidence", tmp_path / "e")
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


def test_who_was_killed_is_waited_for_as_well(ended):
    text = (ended / "torchrun.log").read_text()
    (ended / "fr" / "nccl_trace_rank_2").unlink()
    stderr = next(ended.glob("logs/*/attempt_0/2/stderr.log"))
    stderr.write_text("")
    assert ranks(ended, text) == [(3,)]
    fell = text.replace(CODE.replace("41010", "41011"), KILLED)
    assert fell != text
    assert ranks(ended, fell) == []
