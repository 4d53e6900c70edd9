"""What torch itself writes on a machine without a GPU, and what the lab kept."""

import json
from pathlib import Path

import polars as pl
import pytest

from ncclforensics.parsers.flight_recorder.dump_reader import read
from ncclforensics.sources import discover
from ncclforensics.sources.model import Source

JOBS = Path(__file__).parents[2] / "fixtures" / "jobs"


@pytest.fixture(scope="module")
def dumps(tmp_path_factory, torch_dumps):
    where = tmp_path_factory.mktemp("torch")
    for name, data in torch_dumps.items():
        (where / name).write_bytes(data)
    return {
        kind: read(
            Source(f"rank_0{suffix}", where / f"rank_0{suffix}", kind, "", rank=0)
        )
        for kind, suffix in (
            ("flight_recorder_pickle", ""),
            ("flight_recorder_json", ".json"),
        )
    }


@pytest.mark.parametrize("kind", ["flight_recorder_pickle", "flight_recorder_json"])
def test_torch_dumps_are_read_whole(dumps, kind):
    frames = dumps[kind]
    rows = frames["collectives"]
    assert rows["record_id"].to_list() == list(range(2, 12))
    assert rows["seq"].to_list() == list(range(3, 13))
    assert rows["op"].to_list() == ["all_reduce", "all_gather"] * 5
    assert rows["backend"].unique().to_list() == ["gloo"]
    assert rows["in_sizes"].to_list()[:2] == [[[4, 8]], [[3]]]
    assert rows["in_dtypes"].to_list()[:2] == [["Float"], ["Long"]]
    assert rows["t"].is_sorted()
    assert rows["t"].dt.year().min() > 2020
    assert rows["t_completed"].null_count() == rows.height
    assert frames["positions"]["last_enqueued"].to_list() == [12]
    (text,) = frames["notes"]["text"].to_list()
    assert "record 2" in text


def test_torch_writes_the_same_in_both_forms(dumps):
    pickled, decoded = dumps.values()
    for name in ("collectives", "groups", "positions"):
        both = [
            frames[name].drop("stack", "source", strict=False)
            for frames in (pickled, decoded)
        ]
        assert both[0].equals(both[1])


def test_torch_stacks_lead_to_the_callers(dumps):
    frames = dumps["flight_recorder_pickle"]
    ids = frames["collectives"]["stack"].to_list()
    assert len(set(ids)) == 2
    callers = frames["stacks"].filter(pl.col("function") == "train")
    assert callers["file_line"].to_list() == [8, 9]
    assert callers["stack"].to_list() == ids[:2]
    assert frames["stacks"].filter(depth=0)["function"].to_list() == [
        "all_reduce",
        "all_gather",
    ]


@pytest.mark.usefixtures("trusted")
def test_every_dump_of_the_lab_is_read_without_a_complaint(tmp_path):
    sources = [
        source
        for source in discover([str(JOBS)], tmp_path).sources
        if source.kind.startswith("flight_recorder")
    ]
    assert sources
    for source in sources:
        frames = read(source)
        told = frames["notes"]["text"].to_list()
        if "truncated" in source.name:
            told = [text for text in told if not text.startswith("the dump is cut at")]
        assert [t for t in told if "unseen" not in t and "no entries" not in t] == []
        if source.kind == "flight_recorder_json" and source.compression is None:
            entries = json.loads(source.path.read_bytes()).get("entries", [])
            assert frames["collectives"].height == len(entries)
