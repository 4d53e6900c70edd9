"""Each kind is decided by content, also where it is cut or the name lies."""

from __future__ import annotations

import json
import pickle
import random
import struct

import pytest

from ncclforensics.sources import discover
from ncclforensics.sources.kinds import KINDS, kind_of

ENTRY = {
    "pg_id": 0,
    "seq_id": 1,
    "profiling_name": "nccl:all_reduce",
    "time_created_us": 1,
    "input_sizes": [[4]],
    "state": "scheduled",
}
DUMP = {
    "version": "2.9",
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
    "pg_status": {"0": {"last_enqueued_collective": 5}},
    "entries": [{"record_id": 0, "collective_seq_id": 1, "profiling_name": "x"}],
}
OLD_DUMP = {"entries": [ENTRY], "version": "1.4", "pg_config": {0: [0, 1]}}
LINE = b"node07:4121:4302 [3] NCCL INFO Using network IB\n"
ERROR = {"message": {"message": "RuntimeError: boom", "extraInfo": {"timestamp": "1"}}}
REPORT = {"schema_version": 1, "tool": {"name": "ncclforensics", "version": "0.1.0"}}
NOISE = random.Random(0).randbytes(5000)

CASES = {
    "dump": (pickle.dumps(DUMP, protocol=2), "flight_recorder_pickle"),
    "dump of protocol 5": (pickle.dumps(DUMP, protocol=5), "flight_recorder_pickle"),
    "dump of torch 2.3": (pickle.dumps(OLD_DUMP, protocol=2), "flight_recorder_pickle"),
    "dump of torch 2.2": (pickle.dumps([ENTRY], protocol=2), "flight_recorder_pickle"),
    "dump without entries": (
        pickle.dumps({"entries": [], "version": "1.4"}, protocol=2),
        "flight_recorder_pickle",
    ),
    "JSON dump": (json.dumps(DUMP).encode(), "flight_recorder_json"),
    "JSON dump, sorted": (
        json.dumps(DUMP, sort_keys=True, indent=2).encode(),
        "flight_recorder_json",
    ),
    "JSON dump of Gloo": (
        b'{"comm_lib_version":"","entries":[{"collective_seq_id":3,"input',
        "flight_recorder_json",
    ),
    "JSON list of entries": (
        json.dumps([{"a": 1, "profiling_name": "x"}]).encode(),
        "flight_recorder_json",
    ),
    "error file": (json.dumps(ERROR).encode(), "error_json"),
    "report": (json.dumps(REPORT).encode(), "report"),
    "report, pretty": (json.dumps(REPORT, indent=2).encode(), "report"),
    "other tool's report": (json.dumps({**REPORT, "tool": {"name": "x"}}), "log"),
    "docker log": (
        json.dumps({"log": 'said {"pg_config": {}}\n', "stream": "stderr"}).encode(),
        "log",
    ),
    "JSON lines that quote a dump": (
        b'{"level":"info","data":{"pg_config":{}}}\n{"level":"info"}\n',
        "log",
    ),
    "bracketed log": (b"[rank0]:[E1120 10:00:00.1 x.cpp:1] pg_config\n", "log"),
    "empty": (b"", "empty"),
    "plain log": (LINE * 100, "log"),
    "one word": (b"ok", "log"),
    "colours and returns": (b"\x1b[36m(pid=1)\x1b[0m 10%\r20%\r\n" * 9, "log"),
    "bad bytes": (LINE * 20 + b"\xff\xfe\x80" + LINE * 20, "log"),
    "Chinese": ("进程组超时 等待其他节点\n".encode() * 20, "log"),
    "UTF-8 with mark": (b"\xef\xbb\xbf" + LINE, "log"),
    "UTF-16": (LINE.decode().encode("utf-16"), "log"),
    "UTF-16, the other way": (b"\xfe\xff" + LINE.decode().encode("utf-16-be"), "log"),
    "NUL tail": (LINE * 3 + b"\0" * 40000, "log"),
    "NUL head": (b"\0" * 4096 + LINE * 3, "log"),
    "only NUL": (b"\0" * 4096, "unknown"),
    "noise": (NOISE, "unknown"),
    "noise like a pickle": (b"\x80\x02" + NOISE, "unknown"),
    "one bad byte": (b"\xfe", "unknown"),
    "PNG": (b"\x89PNG\r\n\x1a\n" + NOISE, "unknown"),
    "JPEG": (b"\xff\xd8\xff\xe0\x00\x10JFIF" + NOISE, "unknown"),
    "ELF": (b"\x7fELF\x02\x01\x01" + bytes(64), "unknown"),
    "integers": (struct.pack("<500i", *range(500)), "unknown"),
    "other pickle": (pickle.dumps({"loss": [1.0, 2.0]}, protocol=4), "pickle"),
    "pickle of words": (
        pickle.dumps(["a" * 300, "entries", "version"], protocol=2),
        "pickle",
    ),
    "pickle that would run code": (
        b"\x80\x02cposix\nsystem\nX\x02\x00\x00\x00id\x85R.",
        "pickle",
    ),
}


def _bytes(content: bytes | str) -> bytes:
    return content.encode() if isinstance(content, str) else content


@pytest.mark.parametrize("case", CASES)
def test_kind_is_decided_by_content(case):
    content, kind = CASES[case]
    found = kind_of(_bytes(content))
    assert found.kind == kind, found
    assert found.kind in KINDS
    assert found.why
    assert found.why.isprintable()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["nccl_trace_rank_3", "x.json", "x.log", "x.png"])
def test_a_name_that_lies_changes_nothing(case, name, tmp_path):
    content, kind = CASES[case]
    (tmp_path / name).write_bytes(_bytes(content))
    (source,) = discover([str(tmp_path)], tmp_path / "scratch").sources
    assert source.kind == kind


@pytest.mark.parametrize("dump", [DUMP, OLD_DUMP, [ENTRY]])
@pytest.mark.parametrize("protocol", [2, 4])
def test_a_pickle_dump_cut_anywhere_is_known(dump, protocol):
    whole = pickle.dumps(dump, protocol=protocol)
    kinds = {kind_of(whole[:cut]).kind for cut in range(45, len(whole))}
    assert kinds == {"flight_recorder_pickle"}


def test_a_json_dump_cut_anywhere_is_known():
    whole = b'{"comm_lib_version":"","entries":[{"collective_seq_id":3,"x":1}]}'
    kinds = {kind_of(whole[:cut]).kind for cut in range(55, len(whole))}
    assert kinds == {"flight_recorder_json"}


def test_the_reason_is_told():
    assert kind_of(pickle.dumps(DUMP, protocol=2)).why == (
        "pickle protocol 2 holding pg_config, pg_status and entries"
    )
    assert kind_of(b"\x89PNG\r\n\x1a\n").why == "a PNG image"
    assert kind_of(LINE).why == "text: 100 % printable"
    why = kind_of(json.dumps(DUMP).encode()).why
    assert why == "JSON object with version and pg_config"


def test_text_behind_a_hole_larger_than_the_head_is_a_log(tmp_path):
    with (tmp_path / "sparse.log").open("wb") as file:
        file.truncate(10_000_000)
        file.seek(0, 2)
        file.write(LINE)
    (source,) = discover([str(tmp_path)], tmp_path / "scratch").sources
    assert source.kind == "log"
    assert "NUL" in source.why


def test_a_dump_of_the_real_recorder_is_known(tmp_path):
    torch_c10d = pytest.importorskip("torch._C._distributed_c10d")
    (tmp_path / "a").write_bytes(torch_c10d._dump_fr_trace())
    (tmp_path / "b").write_bytes(torch_c10d._dump_fr_trace_json())
    kinds = [s.kind for s in discover([str(tmp_path)], tmp_path / "s").sources]
    assert kinds == ["flight_recorder_pickle", "flight_recorder_json"]
