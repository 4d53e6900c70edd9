"""Logs whose names number the processes of each host."""

from __future__ import annotations

from ncclforensics.sources import discover


def told(tmp_path, texts):
    """Return rank and local rank by file name, and the notes."""
    folder = tmp_path / "evidence"
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    found = discover([str(folder)], tmp_path / "scratch")
    return {s.name: (s.rank, s.local_rank) for s in found.sources}, found.notes


def test_numbers_that_begin_at_0_on_every_host_are_local_ranks(tmp_path):
    names = [f"log_node0{host}_{number}" for host in (1, 2) for number in range(3)]
    ranks, notes = told(tmp_path, dict.fromkeys(names, "plain\n"))
    assert ranks == {name: (None, int(name[-1])) for name in names}
    assert not notes


def test_lines_of_another_rank_agree_with_a_local_rank(tmp_path):
    texts = {
        f"log_node0{host}_{number}": f"[rank{4 * (host - 1) + number}]: plain\n"
        for host in (1, 2)
        for number in range(4)
    }
    ranks, notes = told(tmp_path, texts)
    assert ranks["log_node02_3"] == (None, 3)
    assert not notes


def test_numbers_of_the_whole_job_stay_ranks(tmp_path):
    names = [f"log_node0{1 + rank // 4}_{rank}" for rank in range(8)]
    ranks, _ = told(tmp_path, dict.fromkeys(names, "plain\n"))
    assert ranks == {name: (int(name[-1]), None) for name in names}


def test_one_host_alone_shows_no_difference(tmp_path):
    names = [f"log_node01_{rank}" for rank in range(4)]
    ranks, _ = told(tmp_path, dict.fromkeys(names, "plain\n"))
    assert ranks["log_node01_3"] == (3, None)


def test_a_rank_that_moved_to_another_host_is_no_second_first_one(tmp_path):
    names = ["log_node01_0", "log_node01_1", "log_node02_1", "log_node02_2"]
    ranks, _ = told(tmp_path, dict.fromkeys(names, "plain\n"))
    assert ranks["log_node02_2"] == (2, None)


def test_a_file_of_several_ranks_is_of_no_local_rank(tmp_path):
    names = [f"log_node0{host}_{number}" for host in (1, 2) for number in range(2)]
    texts = dict.fromkeys(names, "plain\n")
    texts["log_node02_1"] = "[rank2]: x\n[rank3]: y\n"
    ranks, notes = told(tmp_path, texts)
    assert ranks["log_node02_1"] == (None, None)
    assert "lines are those of rank 2, 3" in notes[0].text
