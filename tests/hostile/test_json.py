"""JSON that nests a million times, or whose numbers no column holds."""

from __future__ import annotations

import json

import pytest

from fuzz.targets import dump_json, error_file, ras_json

LEVELS = 10**6
LISTS = b"[" * LEVELS + b"]" * LEVELS
OBJECTS = b'{"a":' * LEVELS + b"1" + b"}" * LEVELS
WRAPPED = {
    "bare": b"%s",
    "entries": b'{"version": "2.10", "entries": %s}',
    "in an entry": b'{"entries": [{"record_id": 1, "frames": %s}]}',
    "pg_config": b'{"version": "2.10", "pg_config": %s}',
    "message": b'{"message": %s}',
    "inner message": b'{"message": {"message": %s}}',
    "communicators": b'{"nccl_version": "2.29", "communicators": %s}',
    "ranks": b'{"nccl_version": "2.29", "communicators": [{"hash": "1", "ranks": %s}]}',
}


@pytest.mark.parametrize("parser", [dump_json, error_file, ras_json])
@pytest.mark.parametrize("place", WRAPPED)
@pytest.mark.parametrize("levels", [LISTS, OBJECTS, LISTS[:LEVELS]], ids="lo[")
def test_a_million_levels_end_no_parser(parser, place, levels):
    parser(WRAPPED[place].replace(b"%s", levels))


ODD = (2**63, 2**70, -(2**70), 1e300, None, "x", "9" * 5000, [1], {"a": 1}, "\ud800")


@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize(
    "key", ["rank", "pid", "host", "cuda_dev", "AllReduce", "time"]
)
def test_a_member_of_ncclras_report_may_hold_anything(key, value):
    member = {"rank": 0, "host": "h", "pid": 1, "cuda_dev": 0, key: value}
    counts = {"AllReduce": value if key == "AllReduce" else 3}
    members = [member | {"collective_counts": counts}]
    members.append(member | {"rank": 1, "collective_counts": {"AllReduce": 4}})
    comm = {"hash": "0x1", "ranks": members, "missing_ranks": [member]}
    told = {"nccl_version": "2.29", "timestamp": value, "communicators": [comm]}
    ras_json(json.dumps(told).encode())


@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("key", ["message", "extraInfo", "py_callstack", "timestamp"])
def test_an_error_file_may_hold_anything(key, value):
    extra = {"py_callstack": "x", "timestamp": "1"} | {key: value}
    inner = {"message": "RuntimeError: x", "extraInfo": extra} | {key: value}
    error_file(json.dumps({"message": inner}).encode())
    error_file(json.dumps({"message": value}).encode())
