"""Each limit, made small: what is beyond it is left out, and a note says so."""

from __future__ import annotations

import io
import json
import lzma
import pickle
import re
import tarfile
from pathlib import Path

import pytest

from fuzz.targets import conforming, stored
from hostile.test_pickles import ENTRY, WHOLE
from ncclforensics.parsers import error_json, limits, ras_json
from ncclforensics.parsers.flight_recorder import (
    dump_parts,
    dump_reader,
    fields,
    groups,
    recovery,
)
from ncclforensics.parsers.logs import grammar, log_reader, message_parsers, scan
from ncclforensics.parsers.logs.message_parsers import rank_set
from ncclforensics.sources import discover
from ncclforensics.sources import limits as sources_limits

TESTS = Path(__file__).parents[1]
MANY = [ENTRY | {"record_id": n, "collective_seq_id": n + 1} for n in range(8)]
GROUP = {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}


def dump(**told):
    return "flight_recorder_pickle", pickle.dumps(WHOLE | told)


def entry(**told):
    return dump(entries=[ENTRY | told, ENTRY])


ERROR = "error_json", json.dumps({"message": "RuntimeError: " + "x" * 99}).encode()
RAS = "ras_json", json.dumps({"nccl_version": "2.29", "communicators": []}).encode()
READERS = {
    "flight_recorder_pickle": dump_reader.read,
    "error_json": lambda source: error_json.read_all([source]),
    "ras_json": ras_json.read,
    "log": log_reader.read,
}
ODD = r"too long or of an odd type, read as null \(entries\): "
PARSED = {
    "entries": (
        *(dump_parts, "MAX_ENTRIES", 3, dump(entries=MANY)),
        "more than 3 entries: the first 5 are not read",
    ),
    "tensors": (
        *(fields, "MAX_TENSORS", 5, entry(input_sizes=[[4]] * 6)),
        ODD + r"input_sizes \(2\)",
    ),
    "members": (
        *(groups, "MAX_MEMBERS", 3, dump(pg_config={"0": GROUP})),
        "1 malformed group in pg_config: members unknown",
    ),
    "ranks": (
        *(groups, "MAX_RANK", 3, dump(pg_config={"0": GROUP})),
        "1 malformed group in pg_config: members unknown",
    ),
    "groups": (
        *(
            dump_parts,
            "MAX_GROUPS",
            3,
            dump(pg_config={str(n): GROUP for n in range(4)}),
        ),
        "more than 3 groups: the others are not read",
    ),
    "groups of entries": (
        *(dump_parts, "MAX_GROUPS", 3),
        dump(entries=[e | {"process_group": (str(e["record_id"]), "")} for e in MANY]),
        "entries of more than 3 groups: the first 5 are not read",
    ),
    "positions": (
        *(groups, "MAX_SEQ", 2, dump()),
        "1 malformed group in pg_status: skipped",
    ),
    "opcodes": (
        *(recovery, "MAX_OPCODES", 60),
        (dump(entries=MANY)[0], dump(entries=MANY)[1][:-1] + b"\xff"),
        "damaged: more than 60 opcodes",
    ),
    "bytes": (
        *(dump_reader, "MAX_BYTES", 300, dump(entries=MANY)),
        "larger than 0 MiB: the rest is not read",
    ),
    "an error file": (error_json, "MAX_ERROR_BYTES", 50, ERROR, "larger than 0 MiB"),
    "ncclras": (ras_json, "MAX_RAS_BYTES", 20, RAS, "larger than 0 MiB"),
}


def notes(kind, data):
    frames = conforming(READERS[kind](stored(data, kind)))
    return "\n".join(frames["notes"]["text"])


@pytest.mark.parametrize("what", PARSED)
def test_what_is_beyond_a_limit_is_noted(monkeypatch, what):
    module, name, small, evidence, told = PARSED[what]
    before = notes(*evidence)
    monkeypatch.setattr(module, name, small)
    after = notes(*evidence)
    assert re.search(told, after)
    assert not re.search(told, before)


@pytest.mark.parametrize(
    ("key", "most", "beyond"),
    [
        ("profiling_name", "x" * limits.MAX_NAME, "x" * (limits.MAX_NAME + 1)),
        ("input_dtypes", ["x" * limits.MAX_NAME], ["x" * (limits.MAX_NAME + 1)]),
        ("input_sizes", [[1] * limits.MAX_DIMENSIONS], [[1] * 65]),
    ],
)
def test_names_and_sizes_of_no_tensor_are_noted(key, most, beyond):
    assert ODD[:8] not in notes(*entry(**{key: most}))
    assert f"{key} (1)" in notes(*entry(**{key: beyond}))


DESYNC = next(m for m in grammar.load() if m.id == "c10d.desync_report")


@pytest.mark.parametrize(
    ("module", "name", "small"),
    [
        (limits, "MAX_STRUCTURES", 1),
        (limits, "MAX_STRUCTURE_ROWS", 1),
        (limits, "MAX_PARSED_CHARACTERS", 1),
        (message_parsers.limits, "MAX_STRUCTURE_LINES", 1),
        (message_parsers.limits, "MAX_STRUCTURE_CHARACTERS", 10),
    ],
)
def test_structures_beyond_a_limit_are_noted(monkeypatch, module, name, small):
    text = (DESYNC.samples[0]["line"] + "\n").encode() * 2
    told = "their details are incomplete"
    assert told not in notes("log", text)
    monkeypatch.setattr(module, name, small)
    assert told in notes("log", text)


@pytest.mark.parametrize(
    ("name", "small", "told"),
    [
        ("MAX_STREAM_BYTES", 1000, "it unpacks without end"),
        ("MAX_WINDOW_BYTES", 1000, "the stream is damaged"),
    ],
)
def test_a_stream_beyond_a_limit_says_so(tmp_path, monkeypatch, name, small, told):
    data = b"".join(b"step %d\n" % n for n in range(1000))
    (tmp_path / "rank_0.log.xz").write_bytes(lzma.compress(data))
    monkeypatch.setattr(sources_limits, name, small)
    found = discover([str(tmp_path / "rank_0.log.xz")], tmp_path)
    with found.sources[0].open() as stream:
        read = stream.read()
    assert len(read) < len(data)
    assert told in f"{stream.damage} {found.notes}"


def tarred(name: str, data: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    return packed.getvalue()


@pytest.mark.parametrize(
    ("name", "small", "told"),
    [
        ("MAX_PATH", 50, "refused: its path has 150 characters"),
        ("MAX_HEADER_BYTES", 50, "cut or damaged: a header without end"),
        ("MAX_DEPTH", 1, "tar archive inside an archive, not opened"),
    ],
)
def test_an_archive_beyond_a_limit_is_noted(tmp_path, monkeypatch, name, small, told):
    file = tmp_path / "evidence.tar"
    file.write_bytes(tarred("x" * 150, tarred("rank_0.log", b"step 1\n")))
    (source,) = discover([str(file)], tmp_path).sources
    assert source.open().read() == b"step 1\n"
    monkeypatch.setattr(sources_limits, name, small)
    found = discover([str(file)], tmp_path)
    assert told in found.notes[0].text
    assert [s.kind for s in found.sources] == ["archive"]


def test_lines_that_are_held_to_look_ahead_take_bounded_memory(monkeypatch):
    text = b"".join(b"%03d" % n + b"x" * 97 + b"\n" for n in range(200))
    monkeypatch.setattr(log_reader, "WINDOW_BYTES", 1000)
    most, told = {}, {}
    for held in (limits.MAX_HELD_BYTES, 1000):
        monkeypatch.setattr(limits, "MAX_HELD_BYTES", held)
        log = scan.Kept()
        windows = list(log_reader.windows(io.BytesIO(text), log))
        own = [line for lines, own in windows for line in lines["line"][:own]]
        assert own == list(range(1, 201))
        most[held] = max(lines.height for lines, _ in windows)
        told[held] = list(log.notes())
    assert most[1000] < 25 < most[16 << 20]
    assert told[16 << 20] == []
    assert [note.rpartition(": ")[2] for note in told[1000]] == [
        "what belongs under them is not read"
    ]


REPORT = DESYNC.samples[0]["line"]
TOO_WIDE = "\n\t - [0-{last}] finished collective #1, but didn't join collective #2\n"


@pytest.mark.parametrize("ranks", ["0-{last}", "7, 9-{last}"])
def test_a_set_of_ranks_wider_than_a_job_is_left_out_and_noted(ranks):
    text = REPORT + TOO_WIDE.replace("0-{last}", ranks)
    told = "their details are incomplete"
    assert told not in notes("log", text.format(last=1023).encode())
    assert told in notes("log", text.format(last=limits.MAX_RANKS + 10).encode())
    known = rank_set.ranks(ranks.format(last=10**8))
    assert known == ([7] if ranks.startswith("7") else [])


def test_a_traceback_that_goes_on_below_what_is_read_is_noted():
    head = "Traceback (most recent call last):\n"
    frame = '  File "/job/a.py", line 3, in f\n    f()\n'
    end = "RecursionError: maximum recursion depth exceeded\n"
    told = "their details are incomplete"
    assert told not in notes("log", (head + frame * 150 + end).encode())
    assert told in notes("log", (head + frame * 300 + end).encode())


LIMITS = sorted(
    name
    for module in (limits, sources_limits)
    for name in vars(module)
    if name.startswith("MAX_")
)


@pytest.mark.parametrize("name", LIMITS)
def test_a_test_reaches_each_limit(name):
    assert any(name in file.read_text() for file in TESTS.rglob("test_*.py"))
