"""Two sides beside each other: what differs is told, what is equal is not."""

from __future__ import annotations

import pytest

from ncclforensics import analysis
from ncclforensics.diff.compare import compare
from ncclforensics.diff.sides import Reading, Side, pair, side
from ncclforensics.diff.text import render
from ncclforensics.model.errors import UsageError
from ncclforensics.report.formats.as_json import render_json

NCCL = "gpu0001:41{rank}:41{rank} [{rank}] NCCL INFO "


def run(variable="eth0", version="2.27.5", more=""):
    """The logs of two ranks, as NCCL_DEBUG=INFO prints them."""
    lines = [
        f"NCCL version {version}+cuda12.9",
        f"NCCL_SOCKET_IFNAME set by environment to {variable}",
        "Using network Socket",
    ]
    return {
        f"rank_{rank}.log": "".join(f"{NCCL.format(rank=rank)}{x}\n" for x in lines)
        + f"I am rank {rank} of 2 on gpu0001\n"
        + more
        for rank in (0, 1)
    }


@pytest.fixture
def beside(tmp_path):
    def made(a, b):
        sides = []
        for name, files in (("a", a), ("b", b)):
            (tmp_path / name).mkdir()
            for file, text in files.items():
                (tmp_path / name / file).write_text(text)
            found = analysis.analyze([str(tmp_path / name)])
            sides.append(Side(name, found.report, found.frames))
        return compare(*sides)

    return made


def told(found):
    return {
        (d.topic, d.name): (d.a and d.a.text, d.b and d.b.text)
        for d in found.differences
    }


def test_equal_runs_differ_in_nothing(beside):
    found = beside(run(), run())
    assert found.differences == ()
    assert {s.topic: s.facts for s in found.same} == {
        "hosts": 1,
        "versions": 2,
        "environment": 1,
        "network": 1,
    }


def test_a_variable_and_a_version_are_told_with_their_line(beside):
    found = beside(run(), run("docker0", "2.28.9"))
    assert told(found) == {
        ("versions", "NCCL"): ("2.27.5", "2.28.9"),
        ("environment", "NCCL_SOCKET_IFNAME"): ("eth0", "docker0"),
    }
    (variable,) = (d for d in found.differences if d.topic == "environment")
    assert (variable.b.evidence.source, variable.b.evidence.line) == ("rank_0.log", 2)


def test_a_variable_that_one_rank_lacks_is_told_with_ranks(beside):
    less = run()
    lines = less["rank_1.log"].splitlines(keepends=True)
    less["rank_1.log"] = "".join(x for x in lines if "IFNAME" not in x)
    assert told(beside(run(), less)) == {
        ("environment", "NCCL_SOCKET_IFNAME"): ("eth0", "eth0 (rank 0)")
    }


def test_a_side_without_nccl_lines_tells_nothing_of_variables(beside):
    mute = dict.fromkeys(run(), "I am rank 0 of 2 on gpu0001\nstep 1 loss 0.5\n")
    found = beside(run(), mute)
    assert not {d.topic for d in found.differences} & {"environment", "versions"}
    sides = {u.topic: u.sides for u in found.untold}
    assert sides["environment"] == ("b",)
    assert sides["calls"] == ("a", "b")


def test_an_unset_variable_is_a_difference_where_nccl_tells_variables(beside):
    bare = {n: x.replace("NCCL_SOCKET_IFNAME set", "x set") for n, x in run().items()}
    assert told(beside(run(), bare)) == {
        ("environment", "NCCL_SOCKET_IFNAME"): ("eth0", None)
    }


def test_a_new_kind_of_line_is_told_once_and_with_its_first(beside):
    line = "RuntimeError: CUDA error: out of memory\n"
    found = beside(run(), run(more=f"Traceback (most recent call last):\n{line}"))
    rows = [d for d in found.differences if d.topic == "lines"]
    assert [d.a for d in rows] == [None] * len(rows)
    assert rows[0].b.evidence.source == "rank_0.log"
    assert rows[0].b.evidence.line == 6
    again = render(found, verbose=True)
    assert "rank_0.log:6" in again


def test_a_healthy_run_beside_a_hung_one(jobs, tmp_path):
    names = ("torch-healthy", "torch-missing-rank")
    paths = tuple(str(jobs / name / "evidence") for name in names)
    found = compare(*pair(paths, Reading(tmp_path)))
    assert (found.a.outcome, found.b.outcome) == ("no-failure", "failure")
    assert told(found)["progress", "default_pg"] == (
        "SeqNum=6",
        "SeqNum=4, waits in all_reduce SeqNum=5 (ranks 0-1,3); SeqNum=4 (rank 2)",
    )
    text = render(found)
    assert "missing-rank: rank 2" in text
    assert "c10d.gloo.timeout" in text
    assert max(map(len, render(found, width=80).splitlines())) <= 80


def test_groups_of_another_size_are_told(jobs, tmp_path):
    names = ("torch-healthy", "torch-missing-rank-two-hosts")
    paths = tuple(str(jobs / name / "evidence") for name in names)
    found = told(compare(*pair(paths, Reading(tmp_path))))
    assert found["groups", "default_pg"] == ("1 of 4 ranks", "1 of 8 ranks")
    assert found["job", "ranks"] == ("4", "8")


def test_one_path_stands_for_the_last_two_attempts_in_it(jobs, tmp_path):
    path = str(jobs / "torch-elastic-restart" / "evidence")
    a, b = pair((path,), Reading(tmp_path))
    assert (a.name, b.name) == (f"{path}#0", path)
    codes = told(compare(a, b))["exits", "exit code"]
    assert codes == ("1", "-15 (ranks 0,2-3); 1 (rank 1)")
    same = side(f"{path}#1", Reading(tmp_path))
    assert render_json(same.report) == render_json(b.report)


def test_parts_that_are_not_there_are_said(jobs, tmp_path):
    path = str(jobs / "torch-elastic-restart" / "evidence")
    with pytest.raises(UsageError, match=r"no job or attempt '7'.*it has 0, 1$"):
        side(f"{path}#7", Reading(tmp_path))
    with pytest.raises(UsageError, match="holds one run"):
        pair((str(jobs / "torch-healthy" / "evidence"),), Reading(tmp_path))


def test_a_folder_may_have_the_mark_in_its_name(tmp_path):
    folder = tmp_path / "run#1"
    folder.mkdir()
    for name, text in run().items():
        (folder / name).write_text(text)
    (tmp_path / "scratch").mkdir()
    assert side(str(folder), Reading(tmp_path / "scratch")).report.job.ranks_seen == 2


def test_a_saved_report_and_an_export_are_sides(jobs, tmp_path):
    import ncclforensics

    path = jobs / "torch-missing-rank" / "evidence"
    found = ncclforensics.analyze(path)
    saved, packed = found.save(tmp_path / "a.json"), found.save(tmp_path / "a.zip")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    reading = Reading(scratch)
    whole = compare(*pair((str(packed), str(path)), reading))
    assert whole.differences == ()
    bare = compare(*pair((str(saved), str(path)), reading))
    assert bare.differences == ()
    assert {"progress", "lines"} <= {u.topic for u in bare.untold}
