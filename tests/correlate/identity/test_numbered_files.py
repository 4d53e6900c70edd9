"""A file's number is a rank only if the files beside it say so."""

import pytest


@pytest.fixture
def ranks_of(analyzed):
    """Return {file: rank} of some files."""

    def run(files):
        return dict(
            analyzed(files).frames["sources"].select("source", "rank").iter_rows()
        )

    return run


def said(rank):
    return f"[rank{rank}]: ValueError: no rows\n"


def test_the_number_of_a_silent_file_is_its_rank_if_two_others_confirm_it(ranks_of):
    files = {f"train-5071_{n}.out": said(n) for n in range(2)}
    found = ranks_of({**files, "train-5071_2.out": "hello\n"})
    assert found["train-5071_2.out"] == 2


def test_one_other_file_is_not_enough(ranks_of):
    found = ranks_of({"train-5071_0.out": said(0), "train-5071_2.out": "hello\n"})
    assert found["train-5071_2.out"] is None


def test_a_number_that_is_not_the_rank_of_another_file_tells_nothing(ranks_of):
    files = {f"train-5071_{n}.out": said(n + 8) for n in range(2)}
    found = ranks_of({**files, "train-5071_2.out": "hello\n"})
    assert found["train-5071_2.out"] is None


def test_files_of_several_ranks_are_of_none(ranks_of):
    files = {f"train-5071_{n}.out": said(n) + said(n + 4) for n in range(2)}
    found = ranks_of({**files, "train-5071_2.out": "hello\n"})
    assert found["train-5071_2.out"] is None


def test_the_number_may_be_that_of_a_folder(ranks_of):
    files = {f"out/{n}/err": said(n) for n in range(2)}
    found = ranks_of({**files, "out/2/err": "hello\n"})
    assert found["out/2/err"] == 2
