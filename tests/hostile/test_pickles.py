"""Every bomb that a pickle can hold, given to the reader of dumps: plain rows or notes.

What breaks here ends the whole test process (a stack overflow) or never ends.
"""

from __future__ import annotations

import pickle
import pickletools

import pytest

from fuzz.targets import conforming, stored
from ncclforensics.parsers import limits
from ncclforensics.parsers.flight_recorder import dump_reader, unpickler

DEEP = 30_000
ENTRY = {
    "record_id": 0,
    "pg_id": 0,
    "process_group": ("0", "default_pg"),
    "collective_seq_id": 1,
    "profiling_name": "nccl:all_reduce",
    "time_created_ns": 1_758_610_505_592_849_034,
    "duration_ms": 1.5,
    "input_sizes": [[4]],
    "input_dtypes": ["Float"],
    "state": "scheduled",
    "time_discovered_started_ns": None,
    "retired": False,
    "timeout_ms": 600_000,
    "frames": [{"name": "f", "filename": "a.py", "line": 1}],
}
WHOLE = {
    "version": "2.10",
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 3]"}},
    "pg_status": {"0": {"last_enqueued_collective": 3}},
    "entries": [ENTRY],
}
SHAPES = {
    "a list in a list": b"]" * DEEP + b"a" * (DEEP - 1),
    "a tuple in a tuple": b")" + b"\x85" * DEEP,
    "a dict in a dict": b"}X\1\0\0\0a" * DEEP + b"N" + b"s" * DEEP,
    "itself": b"]q\x00h\x00a",
    "its own value": b"}q\x00X\1\0\0\0ah\x00s",
    "one list a trillion times": b"]q\x00"
    + b"".join(b"](" + b"h%c" % n * 200 + b"eq%c" % (n + 1) for n in range(6)),
}


def read(data: bytes):
    return conforming(dump_reader.read(stored(data, "flight_recorder_pickle")))


def text(word: str) -> bytes:
    return b"X" + len(word).to_bytes(4, "little") + word.encode()


def with_value(key: str, value: bytes, *, top: bool) -> bytes:
    """Pickle a dump in which `key`, of the dump or of its one entry, has a value."""
    member = b"}" + text(key) + value + b"s"
    if top:
        return b"\x80\x02" + member + b"."
    return b"\x80\x02}" + text("entries") + b"]" + member + b"as."


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("key", [*ENTRY, "thread_name"])
def test_a_field_of_any_shape_is_null_and_never_raises(key, shape):
    assert read(with_value(key, SHAPES[shape], top=False))["collectives"].height <= 1


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("key", WHOLE)
def test_a_part_of_any_shape_is_noted_and_never_raises(key, shape):
    assert read(with_value(key, SHAPES[shape], top=True))["notes"].height


TUPLE, PUSHED = b"\x80\x02})", b"K\x01s."
KEYS = {
    "deep": TUPLE + b"\x85" * 200_000 + PUSHED,
    "twice in each, sixty deep": b"\x80\x02})"
    + b"".join(b"q%c0h%ch%c\x86" % (n, n, n) for n in range(60))
    + PUSHED,
    "a thousand times in each, five deep": b"\x80\x02})"
    + b"".join(b"q%c0(" % n + b"h%c" % n * 1000 + b"t" for n in range(5))
    + PUSHED,
    "in a set": b"\x80\x04\x8f(" + b")" + b"\x85" * 200_000 + b"\x90.",
    "in a frozen set": b"\x80\x04()" + b"\x85" * 200_000 + b"\x91.",
}


@pytest.mark.parametrize("key", KEYS)
def test_a_key_that_hashes_without_end_ends_nothing_but_the_file(key, monkeypatch):
    monkeypatch.setattr(limits, "LOAD_SECONDS", 1)
    loaded = unpickler.load(KEYS[key])
    assert loaded.problem is not None
    assert loaded.problem.startswith("damaged: ")
    assert read(KEYS[key])["notes"].height


ARGUMENTS = (b"", b"\0", b"\xff" * 4, b"\x7f" + b"\xff" * 7, b"\0" * 8 + b"a\nb\n.")


@pytest.mark.parametrize("opcode", pickletools.opcodes, ids=lambda opcode: opcode.name)
@pytest.mark.parametrize("below", [b"", b"(", b"}", b"]", b")", b"N" * 4, b"(K\1K\1"])
@pytest.mark.usefixtures("trusted")  # what ended a child would end this process
def test_every_opcode_with_every_argument_gives_plain_values(opcode, below):
    plain = (dict, list, tuple, set, frozenset, str, bytes, bytearray, int, float)
    for argument in ARGUMENTS:
        data = b"\x80\x04" + below + opcode.code.encode("latin-1") + argument + b"."
        value = unpickler.load(data).value
        assert value is None or isinstance(value, plain)


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1, 10**4000, -1, 0])
@pytest.mark.parametrize("key", ["record_id", "pg_id", "time_created_ns", "timeout_ms"])
def test_a_number_that_no_column_holds_is_null(key, number):
    told = read(pickle.dumps(WHOLE | {"entries": [ENTRY | {key: number}]}))
    assert told["collectives"].height == 1


@pytest.mark.parametrize("time", [limits.MAX_TIME, 2**63 - 1, 0, -1])
def test_a_time_that_no_clock_shows_is_null(time):
    told = {"time_created_ns": time, "time_discovered_started_ns": time}
    found = read(pickle.dumps(WHOLE | {"entries": [ENTRY | told]}))["collectives"]
    assert found.select("t", "t_started").row(0) == (None, None)


def test_more_groups_than_a_job_has_are_noted():
    beyond = limits.MAX_GROUPS + 1
    config = {
        str(n): {"name": str(n), "desc": "", "ranks": "[0]"} for n in range(beyond)
    }
    told = read(pickle.dumps(WHOLE | {"pg_config": config}))
    assert told["groups"].height <= limits.MAX_GROUPS + 1
    assert any("100,000 groups" in text for text in told["notes"]["text"])


def test_a_dump_larger_than_its_limit_is_read_to_there_and_noted(monkeypatch):
    monkeypatch.setattr(dump_reader, "MAX_BYTES", 1 << 20)
    entries = [ENTRY | {"record_id": n} for n in range(40_000)]
    told = read(pickle.dumps(WHOLE | {"entries": entries}))
    assert 0 < told["collectives"].height < 40_000
    assert any("larger than 1 MiB" in text for text in told["notes"]["text"])


@pytest.mark.parametrize(("depth", "is_cut"), [(10, False), (2000, True)])
def test_a_stack_deeper_than_is_kept_is_noted(depth, is_cut):
    frames = [{"name": "f", "filename": "a.py", "line": n} for n in range(depth)]
    told = read(pickle.dumps(WHOLE | {"entries": [ENTRY | {"frames": frames}]}))
    assert told["stacks"].height == min(depth, limits.MAX_FRAMES)
    assert any("frames are kept" in text for text in told["notes"]["text"]) == is_cut


@pytest.mark.parametrize("length", [10, 9000])
@pytest.mark.parametrize("where", ["a stack", "a group"])
def test_a_text_longer_than_is_kept_is_noted(length, where):
    text = "f" * length
    frames = [{"name": text, "filename": "a.py", "line": 1}]
    told = {"entries": [ENTRY | {"frames": frames}]}
    if where == "a group":
        told = {"pg_config": {text: {"name": text, "desc": "", "ranks": "[0]"}}}
    found = read(pickle.dumps(WHOLE | told))
    is_said = any(
        "8,192 characters are kept" in each for each in found["notes"]["text"]
    )
    assert is_said == (length > limits.MAX_TEXT)


def test_a_bytearray_without_memory_prints_nothing_of_its_own(capfd):
    # of 23 in 9,000 such loads CPython printed a SystemError, as memory happened to lie
    for number in range(800):
        del (lie := [memoryview(bytearray(number % 40 + n)) for n in range(5)])[:]
        unpickler.load(b"\x962\0\0\0Q" + b"\0" * 8 + b"\xac.")
    assert capfd.readouterr().err == ""
    assert lie == []
