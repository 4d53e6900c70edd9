"""A path is not believed where the log's own lines speak against it."""

from __future__ import annotations

import pytest

from ncclforensics.sources import discover

NCCL = "{host}:{pid}:{pid} [0] NCCL INFO Bootstrap : Using eth0\n"


def _source(tmp_path, name, text):
    path = tmp_path / "evidence" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    found = discover([str(tmp_path / "evidence")], tmp_path / "scratch")
    return found.sources[0], found.notes


@pytest.mark.parametrize(
    "text",
    [
        "[rank1]:[W1] x\n[rank0]:[W1] y\n",
        "[default0]:x\n[default1]:y\n",
        NCCL.format(host="n", pid=11) + NCCL.format(host="n", pid=12),
    ],
)
def test_a_task_that_holds_several_ranks_gives_no_rank(tmp_path, text):
    source, notes = _source(tmp_path, "slurm-4242_0.out", text)
    assert source.rank is None
    assert "rank 0" in notes[0].text
    assert notes[0].source == "slurm-4242_0.out"


@pytest.mark.parametrize(
    "text",
    [
        "plain\n",
        "[rank3]:[W1] x\n",
        NCCL.format(host="n", pid=11) * 3,
        # the process was restarted and wrote on into the same file
        "[rank3]: x\n" + NCCL.format(host="n", pid=1) + NCCL.format(host="n", pid=2),
    ],
)
def test_a_rank_that_nothing_contradicts_is_kept(tmp_path, text):
    source, notes = _source(tmp_path, "slurm-4242_3.out", text)
    assert source.rank == 3
    assert not notes


def test_a_host_that_the_lines_contradict_is_dropped(tmp_path):
    text = NCCL.format(host="gpu0002", pid=11)
    source, notes = _source(tmp_path, "gpu0001/x.log", text)
    assert source.host is None
    assert "gpu0002" in notes[0].text


def test_a_fully_qualified_host_is_the_same_host(tmp_path):
    text = NCCL.format(host="gpu0001", pid=11)
    source, notes = _source(tmp_path, "nccl.gpu0001.example.org.11.log", text)
    assert (source.host, source.pid) == ("gpu0001.example.org", 11)
    assert not notes
