"""What is new in files that grow, rotate, shrink and appear."""

import pickle
import shutil

import pytest

from ncclforensics.model.errors import UsageError
from ncclforensics.watch import tails
from ncclforensics.watch.tails import Tails


def texts(followed):
    return "".join(new.data.decode() for new in followed.new())


@pytest.fixture
def log(tmp_path):
    file = tmp_path / "rank_0.log"
    file.write_text("step 1\n")
    return file


def add(file, text):
    with file.open("a") as stream:
        stream.write(text)


def test_only_what_was_added_is_read_and_a_line_when_it_is_whole(tmp_path, log):
    followed = Tails([str(tmp_path)])
    assert texts(followed) == "step 1\n"
    assert texts(followed) == ""
    add(log, "step 2\nste")
    assert texts(followed) == "step 2\n"
    add(log, "p 3\n")
    assert texts(followed) == "step 3\n"


def test_a_progress_bar_is_read_at_its_carriage_returns(tmp_path, log):
    followed = Tails([str(tmp_path)])
    texts(followed)
    add(log, "\r 1% 1/100\r 2% 2/100")
    assert texts(followed) == "\r 1% 1/100\r"


def test_a_line_that_grows_without_an_end_is_told_as_growth(tmp_path, log):
    followed = Tails([str(tmp_path)])
    texts(followed)
    add(log, "....")
    assert [new.data for new in followed.new()] == [b""]


def test_what_was_there_before_is_backlog_and_what_comes_later_is_not(tmp_path, log):
    followed = Tails([str(tmp_path)])
    assert [new.backlog for new in followed.new()] == [True]
    (tmp_path / "rank_1.log").write_text("step 1\n")
    assert [new.backlog for new in followed.new()] == [False]


def test_of_a_large_file_only_the_end_is_read_from_a_whole_line_on(
    tmp_path, log, monkeypatch
):
    monkeypatch.setattr(tails, "BACKLOG_BYTES", 20)
    monkeypatch.setattr(tails, "LEAST_BACKLOG", 20)
    log.write_text("".join(f"step {n}\n" for n in range(100)))
    assert texts(Tails([str(tmp_path)])) == "step 98\nstep 99\n"


def test_a_renamed_file_goes_on_and_the_new_one_begins(tmp_path, log):
    followed = Tails([str(tmp_path)])
    texts(followed)
    add(log, "step 2\n")
    log.rename(tmp_path / "rank_0.log.1")
    log.write_text("step 3\n")
    assert sorted(texts(followed).split("\n")) == ["", "step 2", "step 3"]


def test_copytruncate_repeats_nothing_and_loses_nothing(tmp_path, log):
    followed = Tails([str(tmp_path)])
    texts(followed)
    add(log, "step 2\n")
    shutil.copy(log, tmp_path / "rank_0.log.1")
    log.write_text("")
    assert texts(followed) == "step 2\n"
    add(log, "step 3\n")
    assert texts(followed) == "step 3\n"


def test_another_rank_that_begins_alike_is_no_copy(tmp_path, log):
    followed = Tails([str(tmp_path)])
    texts(followed)
    (tmp_path / "rank_1.log").write_text("step 1\nstep 2\n")
    assert texts(followed) == "step 1\nstep 2\n"


def test_a_truncated_file_that_grew_beyond_the_offset_is_read_anew(tmp_path, log):
    followed = Tails([str(tmp_path)])
    texts(followed)
    with log.open("r+") as stream:
        stream.truncate(0)
        stream.write("another job begins\n")
    assert texts(followed) == "another job begins\n"


def test_files_and_folders_may_come_later_also_a_path_itself(tmp_path):
    followed = Tails([str(tmp_path / "logs"), str(tmp_path / "*.out")])
    assert len(followed.waited_for) == 2
    assert texts(followed) == ""
    (tmp_path / "logs" / "node1").mkdir(parents=True)
    (tmp_path / "logs" / "node1" / "a.log").write_text("step 1\n")
    (tmp_path / "b.out").write_text("step 2\n")
    assert {new.data for new in followed.new()} == {b"step 1\n", b"step 2\n"}
    assert followed.waited_for == []


def test_a_file_that_was_empty_is_followed_once_it_has_content(tmp_path, log):
    log.write_text("")
    followed = Tails([str(tmp_path)])
    assert texts(followed) == ""
    log.write_text("step 1\n")
    assert texts(followed) == "step 1\n"


def test_what_is_no_log_is_not_read_and_what_went_away_is_forgotten(tmp_path, log):
    (tmp_path / "weights.pt").write_bytes(bytes(range(256)) * 40)
    followed = Tails([str(tmp_path)])
    assert texts(followed) == "step 1\n"
    log.unlink()
    assert texts(followed) == ""
    assert len(followed.tails) == 1


def test_a_dump_is_told_each_time_it_is_written(tmp_path):
    dump = tmp_path / "nccl_trace_rank_3"
    dump.write_bytes(pickle.dumps({"version": "2.10", "entries": []}))
    followed = Tails([str(tmp_path)])
    (new,) = followed.new()
    assert (new.tail.is_dump, new.tail.source.rank, new.data) == (True, 3, b"")
    assert list(followed.new()) == []
    dump.write_bytes(pickle.dumps({"version": "2.10", "entries": [], "pg_config": {}}))
    assert len(list(followed.new())) == 1


@pytest.mark.parametrize("path", ["-", "s3://bucket/logs"])
def test_what_cannot_be_followed_is_a_mistake_in_the_call(path):
    with pytest.raises(UsageError):
        Tails([path])
