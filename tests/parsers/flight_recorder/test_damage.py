"""Damage: nothing raises, every damage is a note, what was readable is read."""

import json
import pickle
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncclforensics.parsers.flight_recorder.dump_reader import read
from ncclforensics.sources.model import Source


def entry(number, **changes):
    return {
        "record_id": number,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number + 1,
        "p2p_seq_id": 0,
        "op_id": number + 1,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": 1_758_610_505_592_849_034,
        "input_sizes": [[4, number]],
        "input_dtypes": ["Float"],
        "output_sizes": [[4, number]],
        "output_dtypes": ["Float"],
        "state": "scheduled",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": False,
        "timeout_ms": 600_000,
        "is_p2p": False,
    } | changes


def dump(*entries, **changes):
    return {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
        "pg_status": {"0": {"last_enqueued_collective": 3}},
        "entries": list(entries),
    } | changes


def parse(data, kind="pickle"):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "dump_1")
        path.write_bytes(data)
        return read(Source("dump_1", path, f"flight_recorder_{kind}", "", rank=1))


def notes(frames):
    return frames["notes"]["text"].to_list()


WHOLE = dump(*(entry(n) for n in range(3)))
FORMS = {"pickle": pickle.dumps(WHOLE, 2), "json": json.dumps(WHOLE).encode()}


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.usefixtures("trusted")
def test_cut_at_any_byte_the_entries_before_it_are_kept(kind):
    data = FORMS[kind]
    whole = parse(data, kind)
    assert notes(whole) == []
    heights = []
    for end in range(1, len(data), 3):
        frames = parse(data[:end], kind)
        rows = frames["collectives"].drop("group_rank")
        assert rows.equals(whole["collectives"].drop("group_rank").head(rows.height))
        word = "entry" if rows.height == 1 else "entries"
        cut = f"cut at byte {end}: {rows.height} {word} before"
        assert [text for text in notes(frames) if cut in text]
        heights.append(rows.height)
    assert heights == sorted(heights)
    assert set(heights) == set(range(4))


@pytest.mark.parametrize("kind", FORMS)
@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_any_bytes_changed_never_raise(kind, data):
    changed = bytearray(FORMS[kind])
    places = st.integers(0, len(changed) - 1)
    at_places = data.draw(st.lists(places, min_size=1, max_size=4))
    for at in at_places:
        changed[at] = data.draw(st.integers(0, 255))
    frames = parse(bytes(changed), kind)
    # a brace where none was may begin one more
    assert frames["collectives"].height <= 3 + len(at_places)


@pytest.mark.parametrize("kind", FORMS)
@given(st.binary(max_size=200))
def test_noise_never_raises(kind, noise):
    frames = parse(noise, kind)
    assert frames["collectives"].height == 0
    assert notes(frames)


def test_damage_in_the_middle_keeps_what_was_before():
    data = FORMS["pickle"]
    at = data.rindex(b"]")  # the last entry's output_dtypes
    frames = parse(data[:at] + b"\xff" + data[at + 1 :])
    assert frames["collectives"]["record_id"].to_list() == [0, 1]
    (text,) = notes(frames)
    assert "damaged: an unknown opcode: 2 entries before that were read" in text


def test_an_empty_file_and_bytes_behind_the_end_are_said():
    assert notes(parse(b"")) == ["an empty file: the dump was not written"]
    frames = parse(FORMS["pickle"] + b"xyz")
    assert frames["collectives"].height == 3
    assert notes(frames) == ["3 bytes follow the dump's end: not read"]


def test_odd_values_are_null_and_counted():
    odd = entry(1, record_id="1", retired=1, state=5, input_sizes=[[1, "2"]], frames=7)
    missing = entry(2)
    del missing["profiling_name"]
    surrogate = entry(3, profiling_name="nccl:\ud800")
    value = dump(entry(0), odd, missing, 5, None, surrogate, entry(6, record_id=2**70))
    frames = parse(pickle.dumps(value))
    rows = frames["collectives"]
    assert rows["line"].to_list() == [1, 2, 3, 6, 7]
    assert rows["record_id"].to_list() == [0, None, 2, 3, None]
    assert rows["retired"].to_list() == [False, None, False, False, False]
    assert rows["state"].null_count() == 1
    assert rows["in_sizes"].to_list()[:2] == [[[4, 0]], None]
    assert rows["op"].to_list() == ["all_reduce"] * 2 + [None] * 2 + ["all_reduce"]
    skipped, fields = notes(frames)
    assert skipped == "not a dict, skipped: 2 entries"
    for counted in ("record_id (2)", "retired (1)", "profiling_name (2)", "frames (1)"):
        assert counted in fields


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (dump(entries={"a": 1}), "its entries are a dict, not a list"),
        (dump(entry(0), pg_config=[1]), "1 malformed group in pg_config"),
        (
            dump(entry(0), pg_config={"0": {"ranks": "[0, x]"}}),
            "1 malformed group in pg_config",
        ),
        (
            dump(entry(0), pg_status={"0": 4, (1,): {}}),
            "2 malformed groups in pg_status",
        ),
        (dump(entry(0), version=2.1), "no readable schema version"),
        ({"a": 1}, "has none of the keys of a dump"),
        ("text", "holds a str, not a dump"),
        (None, "holds nothing, not a dump"),
    ],
)
def test_parts_of_the_wrong_type_are_said(value, said):
    assert [text for text in notes(parse(pickle.dumps(value))) if said in text]


def laughs(of=list):
    bomb = of((1,))
    for _ in range(60):
        bomb = of((bomb, bomb))
    return bomb


@pytest.mark.parametrize("field", [*entry(0), "frames"])
@pytest.mark.parametrize("of", [list, tuple])
def test_values_that_unfold_without_end_are_null(field, of):
    value = dump(entry(0), *(entry(n, **{field: laughs(of)}) for n in (1, 2)))
    frames = parse(pickle.dumps(value, 2))
    assert frames["collectives"].height == 3
    if field != "frames":
        assert f"{field} (2)" in notes(frames)[-1]


def test_tables_that_unfold_without_end_are_skipped():
    bomb = laughs()
    config = {"0": {"name": bomb, "ranks": bomb}, "1": bomb}
    status = {"0": {"last_enqueued_collective": bomb}, "1": bomb}
    frames = parse(pickle.dumps(dump(entry(0), pg_config=config, pg_status=status), 2))
    assert frames["positions"]["last_enqueued"].to_list() == [None]
    assert frames["groups"]["members"].to_list() == [None] * frames["groups"].height


def test_one_wide_value_shared_by_all_entries_is_not_multiplied():
    wide = list(range(100_000))
    frame = [{"name": "f", "filename": "f.py", "line": 1}] * 100_000
    shared = {
        "input_sizes": [wide],
        "input_dtypes": ["F" * 100] * 5000,
        "frames": frame,
    }
    value = dump(*(entry(n, **shared) for n in range(5000)))
    frames = parse(pickle.dumps(value, 2))
    assert frames["collectives"]["in_sizes"].null_count() == 5000
    assert frames["stacks"].height == 512


def test_json_too_deep_or_with_numbers_too_long_is_said():
    for text in ('{"entries":' + "[" * 100_000, '{"entries":[' + "9" * 10_000 + "]}"):
        assert [t for t in notes(parse(text.encode(), "json")) if "damaged" in t]
