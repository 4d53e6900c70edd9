"""Every schema version, built here as Python objects after torch's own sources."""

import json
import pickle

import polars as pl
import pytest

from ncclforensics.model import tables
from ncclforensics.parsers.flight_recorder.dump_parts import parse_version
from ncclforensics.parsers.flight_recorder.dump_reader import read
from ncclforensics.sources.model import Source

NS = 1_758_610_505_592_849_034
FRAMES = [
    {"name": "all_reduce", "filename": "torch/distributed_c10d.py", "line": 3245},
    {"name": "step", "filename": "train.py", "line": 17},
]
VERSIONS = ["2.1", "2.4", "2.5", "2.6", "2.7", "2.8", "2.9", "2.10"]


def entry(record=0, **changes):
    return {
        "frames": FRAMES,
        "record_id": record,
        "pg_id": 3,
        "process_group": ("12", "TENSOR_MODEL_PARALLEL_GROUP"),
        "collective_seq_id": record + 1,
        "p2p_seq_id": 0,
        "op_id": record + 1,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": NS + record,
        "input_sizes": [[4, 1024], [7]],
        "input_dtypes": ["BFloat16", "Float"],
        "output_sizes": [[4, 1024], []],
        "output_dtypes": ["BFloat16", "Float"],
        "state": "started",
        "time_discovered_started_ns": NS + 5,
        "time_discovered_completed_ns": None,
        "retired": False,
        "is_p2p": False,
    } | changes


def p2p(record, name, **changes):
    return entry(record, profiling_name=name, is_p2p=True, p2p_seq_id=9, **changes)


def dump(version, *entries):
    minor = parse_version(version)[1]
    late = {"timeout_ms": 600_000} if minor >= 4 else {}
    late |= {"thread_id": "140", "thread_name": "python3"} if minor >= 9 else {}
    library = {} if minor < 6 else {"nccl_version": "2.27.3"}
    status = {
        "last_enqueued_collective": 7,
        "last_started_collective": -1,
        "last_completed_collective": 6,
    }
    group = {"name": "12", "desc": "TENSOR_MODEL_PARALLEL_GROUP", "ranks": "[1, 3]"}
    return {
        "version": version,
        "pg_config": {"12": group},
        **({"comm_lib_version": "2.27.3"} if minor >= 10 else library),
        **({"pg_status": {"3": status}} if minor >= 4 else {}),
        "entries": [each | late for each in entries],
    }


def as_json(value):
    """Write a dump as c10d's JSON does: no frames, 0 for no time, strings in status."""
    told = json.loads(json.dumps(value))
    for each in told["entries"]:
        del each["frames"]
        for key in [key for key in each if key.startswith("time_discovered")]:
            each[key] = each[key] or 0
    for status in told.get("pg_status", {}).values():
        status.update({key: str(number) for key, number in status.items()})
    if not told["entries"]:
        del told["entries"]
    return told


@pytest.fixture
def parse(tmp_path):
    def parse(value, rank=3, kind="pickle"):
        write = pickle.dumps if kind == "pickle" else lambda v: json.dumps(v).encode()
        path = tmp_path / "nccl_trace_rank_3"
        path.write_bytes(value if isinstance(value, bytes) else write(value))
        name = "fr/nccl_trace_rank_3"
        return read(Source(name, path, f"flight_recorder_{kind}", "", rank=rank))

    return parse


def notes(frames):
    return frames["notes"]["text"].to_list()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_schema_since_torch_2_4_fills_the_collectives(parse, version):
    frames = parse(dump(version, entry(0), entry(1)))
    assert notes(frames) == []
    for name, frame in frames.tables.items():
        assert frame.schema == pl.Schema(tables.SCHEMAS[name])
    row = frames["collectives"].row(1, named=True)
    times = [row.pop(key) for key in ("t", "t_started", "t_completed")]
    assert pl.Series(times[:2]).dt.epoch("ns").to_list() == [NS // 1000 * 1000] * 2
    assert times[2] is None
    assert frames["collectives"]["t"].dt.epoch("ns").to_list() == [NS, NS + 1]
    assert row.pop("stack") is not None
    assert row == {
        "rank": 3,
        "pg": "12",
        "pg_id": "3",
        "pg_desc": "TENSOR_MODEL_PARALLEL_GROUP",
        "group_rank": 1,
        "seq": 2,
        "p2p_seq": 0,
        "op_id": 2,
        "record_id": 1,
        "op": "all_reduce",
        "backend": "nccl",
        "is_p2p": False,
        "src": None,
        "dst": None,
        "in_sizes": [[4, 1024], [7]],
        "out_sizes": [[4, 1024], []],
        "in_dtypes": ["BFloat16", "Float"],
        "out_dtypes": ["BFloat16", "Float"],
        "state": "started",
        "retired": False,
        "duration_ms": None,
        "timeout_ms": 600_000 if version != "2.1" else None,
        "source": "fr/nccl_trace_rank_3",
        "line": 2,
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_json_gives_the_rows_that_the_pickle_gives(parse, version):
    value = dump(version, entry(0), p2p(1, "nccl:send 0->1"), entry(2))
    pickled, decoded = parse(value), parse(as_json(value), kind="json")
    assert notes(decoded) == []
    for name in ("collectives", "groups", "positions"):
        both = [
            frames[name].drop("stack", strict=False) for frames in (pickled, decoded)
        ]
        assert both[0].equals(both[1])
    assert decoded["stacks"].is_empty()
    assert decoded["collectives"]["stack"].null_count() == 3


def test_torch_2_2_writes_a_bare_list_with_one_counter_and_microseconds(parse):
    old = ("pg_id", "profiling_name", "input_sizes", "output_sizes", "state", "retired")
    kept = {key: value for key, value in entry().items() if key in old}
    micros = {"seq_id": 41, "time_created_us": NS // 1000, "frames": FRAMES}
    send = kept | micros | {"profiling_name": "nccl:send 1->0"}
    frames = parse([kept | micros, send])
    assert notes(frames) == []
    rows = frames["collectives"]
    assert rows["seq"].to_list() == [41, 41]
    assert rows["t"].dt.epoch("us").to_list() == [NS // 1000] * 2
    assert rows["is_p2p"].to_list() == [False, True]
    assert rows["pg"].to_list() == [None, None]
    assert frames["groups"].select("pg", "pg_id", "members").rows() == [
        (None, "3", None)
    ]


@pytest.mark.parametrize(("first", "records"), [(1, [0, 1, 2]), (8, [1, 2, 3])])
def test_entries_of_torch_2_2_are_counted_from_1_where_older_ones_are_gone(
    parse, first, records
):
    made = [
        {"pg_id": 0, "profiling_name": "nccl:all_reduce", "seq_id": first + number}
        for number in range(3)
    ]
    assert parse(made)["collectives"]["record_id"].to_list() == records


def test_torch_2_3_lists_its_groups_by_pg_id(parse):
    new = ("process_group", "collective_seq_id", "p2p_seq_id", "is_p2p", "input_dtypes")
    kept = {key: value for key, value in entry().items() if key not in new}
    value = {
        "version": "1.4",
        "pg_config": {3: [1, 3], 5: [3]},
        "entries": [kept | {"seq_id": 8, "op_id": 11, "duration_ms": 1.5}],
    }
    frames = parse(value)
    assert notes(frames) == []
    columns = ("pg", "pg_id", "members", "size", "group_rank", "line")
    assert frames["groups"].select(columns).rows() == [
        (None, "3", [1, 3], 2, 1, 1),
        (None, "5", [3], 1, 0, None),
    ]
    columns = ("seq", "op_id", "duration_ms", "group_rank")
    assert frames["collectives"].select(columns).rows() == [(8, 11, 1.5, 1)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nccl:send 0->3", ("nccl", "send", 0, 3)),
        ("nccl:recv 3<-0", ("nccl", "recv", 0, 3)),
        ("gloo:recv 3<-?", ("gloo", "recv", None, 3)),
        ("nccl:coalesced", ("nccl", "coalesced", None, None)),
        ("nccl:all_to_all", ("nccl", "all_to_all", None, None)),
        ("ncclx:_all_gather_base", ("ncclx", "_all_gather_base", None, None)),
        ("my own op", (None, "my own op", None, None)),
        ("send 1->2", (None, "send", 1, 2)),
        ("nccl:send 0->", ("nccl", "send 0->", None, None)),
    ],
)
def test_names_are_split_into_backend_op_and_ends(parse, name, expected):
    rows = parse(dump("2.10", entry(profiling_name=name)))["collectives"]
    assert rows.select("backend", "op", "src", "dst").row(0) == expected


def test_groups_join_pg_config_with_the_pg_ids_of_the_entries(parse):
    value = dump(
        "2.10", entry(0), entry(1, pg_id=4), entry(2, process_group=("9", "x"))
    )
    value["pg_config"]["1"] = {
        "name": "1",
        "desc": "default_pg",
        "ranks": "[0, 1, 2, 3]",
    }
    value["pg_config"][""] = {"name": "", "desc": "", "ranks": "[]"}
    frames = parse(value)
    assert notes(frames) == []
    columns = ("pg", "pg_id", "pg_desc", "group_rank", "members", "size", "line")
    desc = "TENSOR_MODEL_PARALLEL_GROUP"
    assert frames["groups"].select(columns).rows() == [
        ("12", "3", desc, 1, [1, 3], 2, 1),
        ("12", "4", desc, 1, [1, 3], 2, 2),
        ("9", "3", "x", None, None, None, 3),
        ("1", None, "default_pg", 3, [0, 1, 2, 3], 4, None),
        ("", None, "", None, None, None, None),
    ]


def test_a_name_with_another_description_is_another_group(parse):
    value = dump("2.10", entry(process_group=("12", "DATA_PARALLEL_GROUP")))
    groups = parse(value)["groups"]
    assert groups.select("pg_desc", "members").rows() == [
        ("DATA_PARALLEL_GROUP", None),
        ("TENSOR_MODEL_PARALLEL_GROUP", [1, 3]),
    ]


def test_positions_know_the_group_by_the_entries_and_not_the_unknown(parse):
    value = dump("2.10", entry())
    huge = dict.fromkeys(value["pg_status"]["3"], 2**41)
    value["pg_status"]["8"] = huge | {"last_enqueued_collective": "15"}
    frames = parse(value)
    columns = ("pg_id", "pg", "last_enqueued", "last_started", "last_completed")
    assert frames["positions"].select(columns).rows() == [
        ("3", "12", 7, None, 6),
        ("8", None, 15, None, None),
    ]


def test_positions_of_a_group_whose_last_call_is_p2p_count_something_else(parse):
    columns = ("pg", "last_enqueued", "last_completed")
    last_p2p = parse(dump("2.10", entry(0), p2p(1, "nccl:recv 1<-0")))
    assert last_p2p["positions"].select(columns).rows() == [("12", None, None)]
    last_collective = parse(dump("2.10", p2p(0, "nccl:recv 1<-0"), entry(1)))
    assert last_collective["positions"].select(columns).rows() == [("12", 7, 6)]


def test_stacks_are_interned_and_the_same_in_every_dump(parse):
    other = [FRAMES[0], {"name": "eval", "filename": "train.py", "line": 90}]
    value = dump(
        "2.10", entry(0), entry(1, frames=other), entry(2), entry(3, frames=[])
    )
    frames = parse(value)
    ids = frames["collectives"]["stack"].to_list()
    assert ids[0] == ids[2] != ids[1]
    assert ids[3] is None
    columns = ("stack", "depth", "function", "file", "file_line", "line")
    assert frames["stacks"].select(columns).rows() == [
        (ids[0], 0, "all_reduce", "torch/distributed_c10d.py", 3245, 1),
        (ids[0], 1, "step", "train.py", 17, 1),
        (ids[1], 0, "all_reduce", "torch/distributed_c10d.py", 3245, 2),
        (ids[1], 1, "eval", "train.py", 90, 2),
    ]
    alone = parse(
        json.dumps(dump("2.10", entry(5, frames=other))).encode(), kind="json"
    )
    assert alone["collectives"]["stack"].to_list() == [ids[1]]


def test_a_ring_that_wrapped_is_said(parse):
    (text,) = notes(parse(dump("2.10", entry(412), entry(413))))
    assert "record 412" in text
    assert "unseen, not absent" in text


@pytest.mark.parametrize("kind", ["pickle", "json"])
def test_no_entries_are_said_and_the_rest_is_read(parse, kind):
    value = dump("2.10")
    frames = parse(as_json(value) if kind == "json" else value, kind=kind)
    assert notes(frames) == ["no entries: what this rank called is unknown"]
    assert frames["positions"].select("pg_id", "pg", "last_enqueued").rows() == [
        ("3", None, 7)
    ]
    assert frames["groups"]["members"].to_list() == [[1, 3]]


def test_without_a_rank_in_the_name_the_rows_have_none(parse):
    frames = parse(dump("2.10", entry()), rank=None)
    assert frames["collectives"]["rank"].to_list() == [None]
    assert frames["groups"]["group_rank"].to_list() == [None]
    assert [text for text in notes(frames) if "no rank in the file's name" in text]


def test_versions_are_numbers_not_decimals():
    assert parse_version("2.10") > parse_version("2.9") == (2, 9)
    for odd in (None, 2.1, "2", "2.x", "", "٢.1", "1" * 30 + ".1"):
        assert parse_version(odd) is None


def test_a_schema_of_the_future_is_read_with_a_note(parse):
    frames = parse(dump("2.10", entry()) | {"version": "3.0"})
    assert frames["collectives"].height == 1
    assert notes(frames) == ["schema 3.0 is not known yet: read like 2.10"]
