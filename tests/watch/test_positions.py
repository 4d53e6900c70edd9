"""How far dumps say that a rank came, and who writes to a file."""

import pickle
from pathlib import Path

import pytest

from ncclforensics.watch.positions import Positions
from ncclforensics.watch.tails import Tails
from ncclforensics.watch.writers import PROCESSES, writers

JOBS = Path(__file__).parents[1] / "fixtures" / "jobs"
DUMP = JOBS / "torch-missing-rank-two-hosts/evidence/fr/comm_lib_trace_rank_0"


@pytest.fixture
def told(tmp_path):
    """Whether a dump, written now, says that its rank came further."""
    followed, positions = Tails([str(tmp_path)]), Positions()

    def of(data, name="look-1/comm_lib_trace_rank_0"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(data)
        (new,) = followed.new()
        return positions.feed(new)

    return of


def earlier(calls):
    dump = pickle.loads(DUMP.read_bytes())  # noqa: S301 - a fixture of ours
    dump["entries"] = dump["entries"][:-calls]
    return pickle.dumps(dump, protocol=2)


def test_a_later_dump_with_more_calls_is_progress_and_the_same_calls_are_none(told):
    assert not told(earlier(2))
    assert told(earlier(1), "look-2/comm_lib_trace_rank_0")
    assert not told(earlier(1), "look-3/comm_lib_trace_rank_0")


def test_a_dump_that_is_half_written_does_not_make_the_whole_one_progress(told):
    whole = DUMP.read_bytes()
    assert not told(whole)
    assert not told(whole[: len(whole) // 2], "look-2/comm_lib_trace_rank_0")
    assert not told(whole, "look-3/comm_lib_trace_rank_0")


@pytest.mark.skipif(not (PROCESSES / "self/fd").exists(), reason="no /proc")
def test_who_has_a_file_open_writes_to_it_unless_only_to_read(tmp_path):
    file = tmp_path / "rank_0.log"
    with file.open("w"):
        assert len(writers({str(file)})) == 1
    with file.open():
        assert writers({str(file)}) == []
    assert writers({str(file)}) == []


def test_where_the_system_does_not_tell_nothing_is_known(monkeypatch, tmp_path):
    monkeypatch.setattr("ncclforensics.watch.writers.PROCESSES", tmp_path / "none")
    assert writers({"x"}) is None
