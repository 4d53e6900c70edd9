"""ncclras' JSON: the members that differ, those that are missing, and its own flaw."""

import json

import pytest

from ncclforensics.parsers import parse
from ncclforensics.sources import discover


def member(rank, calls, **more):
    return {
        "rank": rank,
        "host": f"10.0.0.{1 + rank // 2}",
        "pid": 700 + rank,
        "cuda_dev": rank % 2,
        "nvml_dev": rank % 2,
        "collective_counts": {"Broadcast": 1, "AllReduce": calls},
        **more,
    }


def report(ranks, missing=()):
    comm = {
        "hash": "0xae94423cfbb2ef4a",
        "secondary_hash": "0x1:0x2",
        "size": len(ranks) + len(missing),
        "ranks": ranks,
        "missing_ranks": list(missing),
    }
    return {
        "nccl_version": "2.29.1",
        "timestamp": "2026-12-19 13:06:53",
        "communicators_count": 1,
        "communicators": [comm],
    }


@pytest.fixture
def read(tmp_path):
    def run(text):
        (tmp_path / "ras.json").write_text(text)
        (source,) = discover([str(tmp_path)], tmp_path / "scratch").sources
        return source, parse(source)

    return run


def test_only_members_that_are_behind_are_listed(read):
    source, frames = read(
        json.dumps(report([member(r, 5 - (r == 2)) for r in range(4)]))
    )
    assert source.kind == "ras_json"
    rows = frames.message("ncclras.mismatch").select(
        "op", "operation", "ranks", "comm_rank"
    )
    assert rows.rows() == [
        ("AllReduce", 5, 3, None),
        ("AllReduce", 4, 1, None),
        ("AllReduce", 4, None, 2),
    ]


def test_equal_counts_are_no_mismatch(read):
    _, frames = read(json.dumps(report([member(r, 5) for r in range(4)])))
    assert frames.message("ncclras.mismatch").is_empty()
    assert frames.message("ncclras.job")["gpus"].to_list() == [4]


def test_the_comma_that_2_28_9_leaves_out_is_put_in(read):
    gone = {"rank": 1, "host": "10.0.0.1", "pid": 701, "cuda_dev": 1}
    text = json.dumps(report([member(0, 5)], [gone | {"status": {}}]), indent=2)
    flawed = text.replace(
        '"cuda_dev": 1,\n          "status"', '"cuda_dev": 1\n          "status"'
    )
    assert flawed != text
    _, frames = read(flawed)
    assert frames.message("ncclras.incomplete")["comm_rank"].to_list() == [1]


def test_damage_is_a_note(read):
    _, frames = read(json.dumps(report([member(0, 5)]))[:150])
    assert "not a status report" in frames["notes"]["text"][0]


def test_a_rank_behind_is_named_without_any_log(analyzed):
    text = json.dumps(report([member(r, 5 - 3 * (r == 2)) for r in range(4)]))
    from ncclforensics.correlate.traces import ras_members

    late = ras_members.reported(analyzed({"ras.json": text}).frames)
    assert late.filter(comm_rank=2)["rank"].to_list() == [2]
