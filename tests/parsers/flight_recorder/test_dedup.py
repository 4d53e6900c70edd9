"""A pickle without its repeats says the same as the whole, or is left alone."""

import importlib.util
import pickle
import pickletools
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from ncclforensics.parsers.flight_recorder import (
    dedup,
    dump_parts,
    dump_reader,
    entry_layouts,
    opcodes,
    pickle_probe,
    unpickler,
)
from ncclforensics.parsers.flight_recorder.opcodes import Walks
from ncclforensics.sources import Source

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
spec = importlib.util.spec_from_file_location("dumps", BENCHMARKS / "dumps.py")
dumps = importlib.util.module_from_spec(spec)
spec.loader.exec_module(dumps)

RANKS, ABSENT = 16, 9
PICKLERS = ["c10d", 2, 3, 4, 5]


def job(entries, pickler):
    told = dumps.told(3, RANKS, entries, ABSENT)
    return told if pickler == "c10d" else dumps.plain(told)


def pickled(told, pickler):
    if pickler != "c10d":
        return pickle.dumps(told, protocol=pickler)
    writer = dumps.Pickler()
    writer.write(told)
    return b"".join(writer.parts) + b"."


def same_frames(path, data, *before):
    """Read a pickle with and without a look for repeats; say if there were any.

    Beside it stands a usual one, whose entries are as long as some of its own, and what
    was read `before`, which may be laid out like it.
    """
    path.write_bytes(data)
    usual = path.with_name("rank_4")
    if not usual.exists():
        usual.write_bytes(pickled(job(40, "c10d"), "c10d"))
    others = [path.with_name(f"rank_{10 + n}") for n, _ in enumerate(before)]
    for other, content in zip(others, before, strict=True):
        other.write_bytes(content)
    sources = [
        Source(file.name, file, "flight_recorder_pickle", "", rank=rank)
        for rank, file in enumerate((usual, *others, path))
    ]
    whole, short = dump_reader.FEWEST_BYTES, []
    try:
        dump_reader.FEWEST_BYTES = len(data) + 1
        expected = dump_reader.read_all(sources)
        dump_reader.FEWEST_BYTES = 0
        short = dump_reader.read_all(sources)
    finally:
        dump_reader.FEWEST_BYTES = whole
    assert short.names == expected.names
    for name in short.tables:
        assert_frame_equal(short[name], expected[name])
    return dedup.shortened(data, Walks(), [])


@pytest.mark.parametrize("pickler", PICKLERS)
def test_repeats_are_taken_out_of_every_picklers_dump(tmp_path, pickler):
    told = job(700, pickler)
    found = same_frames(tmp_path / "rank_3", pickled(told, pickler))
    assert found is not None
    assert len(found.repeats) == 700
    assert len(found.kept) < 100


OTHER = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**40), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.lists(st.integers(0, 3), max_size=2),
)
KEYS = ["record_id", "pg_id", "collective_seq_id", "time_created_ns", "state", "frames"]


@pytest.mark.usefixtures("trusted")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    pickler=st.sampled_from(PICKLERS),
    changes=st.lists(
        st.tuples(
            st.integers(0, 199), st.sampled_from([*KEYS, "duration_ms", "new"]), OTHER
        ),
        max_size=12,
    ),
    gone=st.lists(st.tuples(st.integers(0, 199), st.sampled_from(KEYS)), max_size=3),
)
def test_odd_values_change_nothing_of_that(tmp_path, pickler, changes, gone):
    usual = pickled(job(200, pickler), pickler)
    told = job(200, pickler)
    for entry, key, value in changes:
        told["entries"][entry][key] = value
    for entry, key in gone:
        told["entries"][entry].pop(key, None)
    try:
        data = pickled(told, pickler)
    except (OverflowError, KeyError):  # c10d writes no such numbers and tuples
        return
    same_frames(tmp_path / "rank_3", data, usual)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    pickler=st.sampled_from(PICKLERS),
    flips=st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=4
    ),
    cut=st.floats(0.5, 1),
)
@example(pickler="c10d", flips=[], cut=0.9)
def test_damage_is_read_as_it_is_in_the_whole(tmp_path, pickler, flips, cut):
    usual = pickled(job(120, pickler), pickler)
    data = bytearray(usual)
    for where, byte in flips:
        data[int(where * len(data))] = byte
    same_frames(tmp_path / "rank_3", bytes(data[: int(cut * len(data))]), usual)


@pytest.mark.parametrize("pickler", PICKLERS)
def test_a_dump_laid_out_like_one_before_is_cut_up_as_that_was(monkeypatch, pickler):
    made = []
    monkeypatch.setattr(
        dedup,
        "_laid_out",
        lambda *asked, known=dedup._laid_out: made.append(1) or known(*asked),
    )
    first, later = job(700, pickler), job(700, pickler)
    for n, entry in enumerate(later["entries"]):
        entry["record_id"] += 300_000  # as wide as before where it was wide
        entry["time_created_ns"] += n
    layouts = []
    for told in (first, first, later):
        data = pickled(told, pickler)
        found = dedup.shortened(data, Walks(), layouts)
        alone = dedup.shortened(data, Walks(), [])
        assert found.data == alone.data
        assert found.repeats.tolist() == alone.repeats.tolist()
        for own, other in zip(found.numbers, alone.numbers, strict=True):
            assert own.values.tolist() == other.values.tolist()
    assert len(made) == 3 + len(layouts)
    assert len(layouts) == 2


def test_no_more_layouts_are_kept_than_pay():
    layouts = []
    for entries in range(700, 700 + 2 * entry_layouts.MOST):
        data = pickled(job(entries, "c10d"), "c10d")
        assert dedup.shortened(data, Walks(), layouts) is not None
    assert len(layouts) == entry_layouts.MOST


def entry(number, inside=b""):
    """Return the opcodes of an entry; texts 0 to 2 are kept as q0 to q2."""
    return b"}(h\x00K%ch\x01h\x03%sh\x02K\x05u" % (number, inside)


def written(*entries):
    first = b"}(X\x09\0\0\0record_idq\x00K\x00X\x06\0\0\0framesq\x01]q\x03"
    first += b"X\x05\0\0\0pg_idq\x02K\x05u"
    return b"\x80\x02}(X\x07\0\0\0entries](" + first + b"".join(entries) + b"eu."


def test_an_entry_that_adds_to_a_list_of_others_is_no_repeat(tmp_path):
    adding = [entry(n, inside=b"(K\x01e") for n in range(1, 40)]
    assert unpickler.load(written(*adding)).value["entries"][0]["frames"] == [1] * 39
    assert same_frames(tmp_path / "rank_3", written(*adding)) is None
    assert same_frames(tmp_path / "rank_3", written(*map(entry, range(40))))


def test_a_place_of_the_memo_that_is_written_twice_makes_no_repeats(tmp_path):
    twice = [entry(n) for n in range(1, 100)]
    twice[50] = b"}(h\x00K\x07h\x01]q\x03h\x02K\x05u"
    assert same_frames(tmp_path / "rank_3", written(*twice)) is None
    twice[50] = b"}(h\x00K\x07h\x01]q\x04h\x02K\x05u"
    assert same_frames(tmp_path / "rank_3", written(*twice))


def test_what_stands_between_entries_is_counted_as_in_the_whole(tmp_path):
    text = b"X\x01\0\0\0a"
    entries = [text, *map(entry, range(1, 100))]
    same_frames(tmp_path / "rank_3", written(*entries))


def test_a_stack_that_is_the_list_of_entries_is_as_long_as_that(tmp_path):
    entries = [entry(n) for n in range(1, 100)]
    entries[50] = entries[50].replace(b"h\x03", b"h\x09")
    data = written(*entries).replace(b"entries](", b"entries]q\x09(")
    same_frames(tmp_path / "rank_3", data)


def test_bytes_behind_the_end_are_counted_as_in_the_whole(tmp_path):
    data = pickled(job(100, 4), 4)
    assert same_frames(tmp_path / "rank_3", data)
    assert same_frames(tmp_path / "rank_3", data + b"]\x94]\x94.") is None


@pytest.mark.parametrize("odd", [b"]]](aae", b"]]](aau"])
def test_what_closes_more_than_was_opened_is_not_walked(odd):
    with pytest.raises(opcodes.IrregularError):
        opcodes.walk(odd, 0, len(odd))


def test_the_benchmarks_dumps_have_the_opcodes_of_torchs(torch_dumps):
    def shape(data):
        """Return the opcodes of a late entry, whatever its numbers' width."""
        names = [op.name.rstrip("12") for op, _, _ in pickletools.genops(data)]
        starts = [
            i
            for i in range(len(names) - 3)
            if names[i : i + 4] == ["EMPTY_DICT", "MARK", "BINGET", "EMPTY_LIST"]
        ]
        body = names[starts[-3] : starts[-2]]
        while "BINGET" in body and body[5:7] == ["BINGET", "BINGET"]:
            del body[5]  # frames of a stack, as many as there are
        return body

    ours = job(30, "c10d")
    for told in ours["entries"]:
        told["time_discovered_completed_ns"] = None  # Gloo does not tell
    assert shape(pickled(ours, "c10d")) == shape(torch_dumps["reduced"])


@pytest.mark.parametrize("bare", [True, False])
@pytest.mark.parametrize("oldest", [1, 300])
def test_entries_without_a_number_are_counted_in_their_order(tmp_path, oldest, bare):
    entries = job(400, 2)["entries"]
    calls = Counter()
    for entry in entries:
        del entry["record_id"], entry["collective_seq_id"]
        entry["seq_id"] = oldest + calls[entry["pg_id"]]
        calls[entry["pg_id"]] += 1
    path = tmp_path / "rank_3"
    told = entries if bare else {"version": "1.3", "entries": entries}
    found = same_frames(path, pickle.dumps(told, protocol=2))
    assert (found is None) == bare
    source = Source(path.name, path, "flight_recorder_pickle", "", rank=3)
    first = int(oldest > 1)
    told = dump_reader.read_all([source])["entries"]["record_id"]
    assert told.to_list() == list(range(first, first + 400))


def test_a_length_that_the_bytes_do_not_have_takes_no_memory():
    tracemalloc.start()
    try:
        with pytest.raises(opcodes.IrregularError):
            opcodes.walk(b"X\xff\xff\xff\x0f", 0, 5)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def entries_of(data):
    """Return a pickle's entries; None where it is damaged."""
    loaded = unpickler.load(data)
    return None if loaded.problem else dump_parts.parts(loaded.value).entries


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of odd escapes
@pytest.mark.parametrize("pickler", ["c10d", 4])
def test_a_byte_that_differs_is_no_layout_of_before(monkeypatch, pickler):
    monkeypatch.setattr(pickle_probe, "_expendable", True)  # no child for each
    usual = pickled(job(40, pickler), pickler)
    walks, layouts = Walks(), []
    assert dedup.shortened(usual, walks, layouts) is not None
    laid_out_so = 0
    for at in range(0, len(usual), 7):
        data = bytearray(usual)
        data[at] ^= 1
        found = dedup.shortened(bytes(data), walks, layouts[-1:])
        kept = found and entries_of(found.data)
        whole = entries_of(bytes(data))
        if not kept or not found.agrees(kept) or not whole:
            continue  # it is read as a whole, or its frames are of another length
        told = [dict(kept[number]) for number in found.repeats]
        for own in found.numbers:
            for entry, value in zip(own.entries, own.values.tolist(), strict=True):
                told[entry][own.key] = value
        assert repr(told) == repr(whole)  # a list may hold itself
        laid_out_so += 1
    assert laid_out_so > 50  # a time or a number is another
