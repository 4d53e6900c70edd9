"""Slurm's --json: states and nodes as scontrol's text gives them; damage is a note."""

import json

import pytest

from ncclforensics.model.hostlist import expanded
from ncclforensics.parsers import parse
from ncclforensics.sources import discover

JOB = {
    "account": "research",
    "job_id": 50917,
    "state": {"current": "CANCELLED", "reason": "None"},
    "time": {"end": 1787220000},
    "nodes": "gpu[0001-0002]",
    "kill_request_user": "alice",
}
# 23.02 and later, by the OpenAPI specification
NEWER = JOB | {
    "state": {"current": ["CANCELLED"], "reason": "None"},
    "time": {"end": {"set": True, "number": 1787220000}},
}
SHOWN = {
    "job_id": 50917,
    "job_state": ["CANCELLED"],
    "state_reason": "None",
    "end_time": {"set": True, "number": 1787220000},
    "nodes": "gpu[0001-0002]",
}
NODE = {
    "architecture": "x86_64",
    "name": "gpu0002",
    "state": "down",
    "state_flags": ["NOT_RESPONDING"],
    "reason": "Not responding",
    "reason_changed_at": 1787220000,
    "reason_set_by_user": "slurm",
}


@pytest.fixture
def read(tmp_path):
    def of(text):
        path = tmp_path / "out.json"
        path.write_text(text)
        return parse(discover([str(path)], tmp_path / "scratch").sources[0])

    return of


@pytest.mark.parametrize("job", [JOB, NEWER, SHOWN])
def test_a_job_that_was_ended(read, job):
    row = read(json.dumps({"jobs": [job], "meta": {}})).message("slurm.state")
    assert row["state"].to_list() == ["CANCELLED"]
    assert row["nodes"].to_list() == [["gpu0001", "gpu0002"]]
    assert row["t"].dt.epoch("s").to_list() == [1787220000]


def test_a_node_and_its_reason(read):
    row = read(json.dumps({"nodes": [NODE]})).message("slurm.node")
    assert row["host"].to_list() == ["gpu0002"]
    assert row["node_state"].to_list() == ["DOWN+NOT_RESPONDING"]
    assert row["reason"].to_list() == ["Not responding"]


def test_a_job_that_runs_is_no_row(read):
    job = JOB | {"state": {"current": "RUNNING", "reason": "None"}}
    assert read(json.dumps({"jobs": [job]})).message("slurm.state").is_empty()


def test_a_torn_document_is_a_note(read):
    notes = read(json.dumps({"jobs": [JOB]})[:-9])["notes"]
    assert notes["text"].str.contains("not output of Slurm").any()


@pytest.mark.parametrize(
    ("folded", "hosts"),
    [
        ("gpu0001", ["gpu0001"]),
        ("gpu[0001-0002,0007]", ["gpu0001", "gpu0002", "gpu0007"]),
        ("a[9-10]-ib,login", ["a9-ib", "a10-ib", "login"]),
        ("(null)", []),
        ("", []),
    ],
)
def test_folded_hosts(folded, hosts):
    assert expanded(folded) == hosts
