"""The manifest of asked nodes: a silent node is told and suspected, never accused."""

import shutil

import pytest

from ncclforensics.analysis import analyze
from ncclforensics.evidence import silent_nodes
from ncclforensics.fleet import manifest
from ncclforensics.fleet.answers import Answer
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.parsers import fleet_json, parse
from ncclforensics.sources import discover

WHY = "ssh: connect to host gpu0002 port 22: Connection refused"
SILENT = Answer("gpu0002", "silent", WHY)
SHARE = Answer("gpu0001", "share", host="gpu0001", files=3)


@pytest.fixture
def read(tmp_path):
    def of(*answers):
        manifest.write(tmp_path, "ssh", 60, answers)
        path = str(tmp_path / manifest.NAME)
        (source,) = discover([path], tmp_path / "scratch").sources
        assert source.kind == "fleet_json"
        return parse(source)

    return of


def test_a_silent_node_is_a_row_with_its_reason(read):
    frames = read(SHARE, SILENT)
    (row,) = frames.message(fleet_json.SILENT).to_dicts()
    assert (row["host"], row["line"], row["why"]) == ("gpu0002", 2, WHY)
    assert row["text"] == "gpu0002 did not answer within 60 s"
    assert row["role"] == "neutral"


def test_each_kind_of_failure_is_noted_with_its_nodes(read):
    more = [Answer(f"gpu{n:04}", "silent", "no answer within 60 s") for n in (3, 4)]
    locked = Answer("gpu0009", "refused", "Permission denied (publickey).")
    texts = read(SHARE, *more, locked)["notes"]["text"].to_list()
    assert texts == [
        "2 of 4 nodes did not answer: gpu[0003-0004]: no answer within 60 s",
        "1 of 4 nodes sent nothing: gpu0009: Permission denied (publickey).",
    ]


def test_where_all_answered_nothing_is_said(read):
    frames = read(SHARE)
    assert frames["notes"].is_empty()
    assert frames.message(fleet_json.SILENT).is_empty()


def test_a_damaged_manifest_is_a_note(tmp_path):
    file = tmp_path / "fleet.json"
    file.write_text('{"ncclforensics_fleet": 1, "nodes": [{"no')
    frames = parse(discover([str(file)], tmp_path / "scratch").sources[0])
    assert "no manifest" in frames["notes"]["text"][0]


def test_what_ssh_said_is_not_taken_for_a_failure_of_the_job(tmp_path):
    manifest.write(tmp_path, "ssh", 60, [SHARE, SILENT])
    report = analyze([str(tmp_path)], kept=None).report
    assert report.verdict is None
    assert report.findings == ()


def told(jobs, tmp_path, answers):
    """The report on a job of two hosts, with what is there of the first alone."""
    folder = tmp_path / "evidence"
    shutil.copytree(jobs / "torch-missing-rank-two-hosts/evidence", folder)
    shutil.rmtree(folder / "logs/gpu0002", ignore_errors=True)
    for rank in (4, 5, 6, 7):
        (folder / f"fr/comm_lib_trace_rank_{rank}").unlink()
    if answers:
        manifest.write(folder, "ssh", 60, answers)
    return analyze([str(folder)], kept=None).report


def test_ranks_of_a_silent_node_are_suspects_for_that_too(jobs, tmp_path):
    with_it = told(jobs, tmp_path / "a", [SHARE, SILENT])
    without = told(jobs, tmp_path / "b", [])
    why = {s.rank: s.why for s in with_it.suspects}
    assert {4, 5, 6, 7} <= set(why)
    assert all("its node did not answer within 60 s" in why[r] for r in (4, 5, 6, 7))
    assert not any("did not answer" in s.why for s in without.suspects)
    # a reason to look, and no reason to accuse
    assert with_it.outcome == without.outcome
    assert (with_it.verdict and with_it.verdict.culprits) == (
        without.verdict and without.verdict.culprits
    )


@pytest.mark.parametrize(
    ("silent", "asked", "found"),
    [
        (["gpu0002"], 3, {1}),
        # another node was refused: the rank may be there
        (["gpu0002"], 4, set()),
    ],
)
def test_a_rank_that_no_node_has_is_on_the_silent_one(tmp_path, silent, asked, found):
    answers = [Answer(name, "silent") for name in silent]
    others = [Answer(f"n{n}", "share") for n in range(asked - len(silent))]
    manifest.write(tmp_path, "ssh", 60, [*answers, *others])
    path = str(tmp_path / manifest.NAME)
    told = parse(discover([path], tmp_path / "scratch").sources[0])
    ranks = tables.rows(
        "ranks",
        [
            {"rank": rank, "host": host, "source": "x", "line": 1}
            for rank, host in ((0, "gpu0001"), (2, "gpu0003"))
        ],
    )
    frames = Frames({**told.tables, "ranks": ranks}, told.messages)
    why = silent_nodes.ranks(frames)
    assert set(why) == found
    assert all("gpu0002 did not answer" in text for text, _ in why.values())


def test_where_no_node_answered_it_is_the_way_and_no_rank_is_suspected(jobs, tmp_path):
    both = [Answer("gpu0001", "silent", "x"), SILENT]
    report = told(jobs, tmp_path, both)
    assert not any("did not answer" in s.why for s in report.suspects)
