"""Blocks, spans, threads and the search leave no trace in what is read of a log."""

import gzip
import io
import random

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_lines import timeout, traceback, xid
from nccl_lines import init, warn
from ncclforensics.model.frames import join
from ncclforensics.parsers import limits, parse, parse_all
from ncclforensics.parsers.logs import (
    lines,
    log_reader,
    needles,
    scan,
    search_terms,
    small_logs,
    tag_lines,
)
from ncclforensics.parsers.logs.lines import BLOCK_BYTES, blocks, decoded
from ncclforensics.sources import Source

CHATTER = "gpu1:7:7 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
STEP = "INFO train step {} loss 2.1\n"
MESSAGES = (
    timeout(3),
    traceback(1, "RuntimeError: boom"),
    xid(79, "GPU has fallen off the bus."),
    init("gpu1", 0, 8),
    warn("gpu1", "Call to connect failed : Connection refused"),
    "\n",
    "é step 3\r 50%|##| step=4\r\n",
)


@pytest.fixture(autouse=True)
def every_log_is_large(monkeypatch):
    monkeypatch.setattr(small_logs, "MOST_BYTES", 0)


@pytest.fixture
def log(tmp_path):
    def write(data, name="a.log", **known):
        path = tmp_path / name
        path.write_bytes(data)
        return Source(name, path, "log", "", bytes=len(data), **known)

    return write


def read(source):
    found = log_reader.read(source)
    return {**found.tables, **found.messages}


def same(one, other, but=("python.step",)):
    """Compare all but routine messages, sampled by span, and hashes.

    A log that is scanned in several places at once is hashed elsewhere.
    """
    for name in (one.keys() | other.keys()) - {*but}:
        rows = [
            tables[name]
            .drop("sha256", strict=False)
            .filter(~pl.col("message").is_in(but) if name == "events" else True)
            .rows()
            for tables in (one, other)
        ]
        assert rows[0] == rows[1], name


def job(chance, count):
    pieces = [CHATTER, STEP.format(chance.randrange(9)), *MESSAGES]
    weights = [20, 20, *(1 for _ in MESSAGES)]
    return "".join(chance.choices(pieces, weights, k=count)).encode()


@pytest.mark.parametrize("size", [1, 37, 512, 4096])
def test_blocks_of_any_size_give_what_the_whole_gives(log, monkeypatch, size):
    source = log(job(random.Random(size), 300))
    whole = read(source)
    assert whole["events"].height > 20
    monkeypatch.setattr(blocks, "__defaults__", (size, 1 << 24, None, 0))
    same(read(source), whole, but=())


@pytest.mark.parametrize("size", [1, 512, 1 << 20])
def test_steps_that_are_kept_stand_in_order(log, monkeypatch, size):
    """The last one, far below the first lines, and a line without a newline."""
    monkeypatch.setattr(blocks, "__defaults__", (size, 1 << 24, None, 0))
    steps = [STEP.format(i) for i in range(600)]
    connected = "gpu1:7:7 [0] NCCL INFO Connected all rings\n"
    for end in (connected, connected + CHATTER[:-1], timeout(3).rstrip("\n")):
        events = log_reader.read(log("".join([*steps, end]).encode()))["events"]
        assert events["line"].is_sorted()
        told = events.filter(pl.col("message") == "python.step")["line"].to_list()
        assert told == [*range(1, scan.FIRST_LINES + 1), 600]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from([CHATTER, STEP.format(5), *MESSAGES]), max_size=30),
    st.integers(1, 3000),
)
def test_no_line_is_lost_or_doubled_at_a_seam_of_blocks_or_spans(pieces, size):
    data = "".join(pieces).encode()
    whole = [row[0] for row in decoded(data, 1).lines.select("raw").iter_rows()]
    found = list(blocks(io.BytesIO(data), size, 1 << 20, size * 2))
    assert [raw for block in found for raw in block.lines["raw"]] == (
        whole if data else []
    )
    begins = [block.offset // (size * 2) for block in found]
    assert begins == sorted(begins)


@pytest.mark.parametrize("span", [200, 1000, 5000])
def test_spans_read_side_by_side_are_those_read_in_order(log, monkeypatch, span):
    data = job(random.Random(span), 400)
    plain = log(data)
    monkeypatch.setattr(scan, "SPAN_BYTES", span)
    packed = log(gzip.compress(data), "a.log.gz", compression="gzip")
    side_by_side, in_order = read(plain), read(packed)
    for frames in (side_by_side, in_order):
        for name, frame in frames.items():
            if "source" in frame.columns:
                frames[name] = frame.drop("source")
    same(side_by_side, in_order)


@pytest.mark.parametrize("span", [100, 1000, 5000])
def test_a_line_that_two_spans_keep_is_one_event(log, monkeypatch, span):
    source = log("".join(map(timeout, range(100))).encode())
    whole = read(source)
    assert whole["events"]["line"].to_list() == list(range(1, 101))
    monkeypatch.setattr(scan, "SPAN_BYTES", span)
    monkeypatch.delitem(whole, "sources")  # a log in spans has no hash yet
    same(whole, {name: read(source)[name] for name in whole})


def test_logs_read_together_give_what_each_gives_alone(log):
    chance = random.Random(1)
    sources = [
        log(job(chance, 60), f"{i}.log", rank=i, host=None if i % 2 else "gpu9")
        for i in range(5)
    ]
    together = parse_all(sources)
    alone = join(map(parse, sources))
    assert together["events"]["source"].n_unique() == 5
    same({**together.tables, **together.messages}, {**alone.tables, **alone.messages})


def test_both_searches_find_the_same_places():
    pytest.importorskip("hyperscan")
    sought = [b"step ", b"NCCL WARN", b"Traceback (most", b"Trace", "é".encode()]
    data = decoded(job(random.Random(3), 500), 1).data
    quick, plain = needles._Hyperscan([*sought, b"absent"]), needles._Polars(sought)
    assert quick.present(data) == plain.present(data) == set(range(5))
    # the usual ones are looked for apart, also where they are missing, and however many
    for usual in (*({n, 5} for n in range(5)), {0, 1}, {2}, {3}, {4}, set(range(6))):
        assert quick.present(data, frozenset(usual)) == set(range(5))
    for wanted in ([0, 4], range(5)):
        found = plain.places(data, wanted)
        assert sum(map(len, found.values())) > 50
        again = quick.places(data, wanted)
        assert {n: at.tolist() for n, at in again.items()} == {
            n: at.tolist() for n, at in found.items()
        }


def test_of_many_steps_those_around_other_messages_are_read(log):
    steps = [STEP.format(i) for i in range(20_000)]
    steps.insert(15_000, timeout(3))
    found = log_reader.read(log("".join(steps).encode()))
    read_steps = found.message("python.step")["step"].to_list()
    assert {0, 14_999, 15_000, 19_999} <= set(read_steps)
    assert len(read_steps) < 1000


def test_neutral_lines_beyond_a_limit_are_counted_in_a_note(log, monkeypatch):
    monkeypatch.setattr(search_terms, "QUIET_LINES", 10)
    search_terms.search.cache_clear()
    try:
        connected = "gpu1:7:7 [0] NCCL INFO Connected all rings\n"
        found = log_reader.read(log(connected.encode() * 25 + timeout(3).encode()))
    finally:
        search_terms.search.cache_clear()
    assert found.message("nccl.init.connected").height == 10
    assert found.message("c10d.watchdog.timeout").height == 1
    assert found["notes"]["text"].to_list() == [
        "15 more lines with 'Connected' are not read"
    ]


def test_lines_that_hold_a_needle_twice_are_counted_once(log, monkeypatch):
    monkeypatch.setattr(search_terms, "QUIET_LINES", 10)
    search_terms.search.cache_clear()
    try:
        twice = f"Connected all rings, Connected all trees {'.' * 60}\n" * 30_000
        assert len(twice) > 2 * BLOCK_BYTES
        found = log_reader.read(log(twice.encode()))
    finally:
        search_terms.search.cache_clear()
    assert found["notes"]["text"].to_list() == [
        "29,995 more lines with 'Connected' are not read"
    ]


def test_a_traceback_goes_on_behind_its_span(log, monkeypatch):
    text = CHATTER * 20 + traceback(1, "ValueError: late") + CHATTER * 20
    source = log(text.encode())
    whole = read(source)
    monkeypatch.setattr(scan, "SPAN_BYTES", len(CHATTER) * 20 + 50)
    assert whole["python.traceback"].height == 1
    same(read(source), whole)


def test_kept_lines_do_not_hold_their_whole_block():
    block = decoded("".join(f"{'x' * 99}{i}\n" for i in range(10_000)).encode(), 1)
    for _ in range(2):
        few = block.pick(np.array([0, 1, 9_999]))
        assert few.rows() == [block.lines.row(i) for i in (0, 1, 9_999)]
        assert few.estimated_size() < 1000
    assert limits.MAX_LINE < lines.LONGEST_BYTES


def test_of_a_warning_without_end_the_first_and_the_last_ones_are_read(
    log, monkeypatch
):
    monkeypatch.setattr(search_terms, "QUIET_LINES", 10)
    monkeypatch.setattr(search_terms, "LOUD_LINES", 20)
    monkeypatch.setattr(scan, "FEW_TAGS", 5)
    monkeypatch.setattr(scan, "LAST_LINES", 5)
    search_terms.search.cache_clear()
    try:
        found = log_reader.read(log("".join(map(timeout, range(100))).encode()))
    finally:
        search_terms.search.cache_clear()
    ranks = found.message("c10d.watchdog.timeout")["rank"].to_list()
    assert ranks == [*range(20), *range(95, 100)]
    assert all("80 more lines" in note for note in found["notes"]["text"])
    assert found["notes"].height


def test_of_the_times_of_steps_a_sample_over_the_whole_log_is_read(log, monkeypatch):
    monkeypatch.setattr(search_terms, "PACED_LINES", 300)
    search_terms.search.cache_clear()
    line = (
        " iteration {:8d}/ 9000 | elapsed time per iteration (ms): {}.0 | loss: 2 |\n"
    )
    times = [100] * 4000 + [900] * 4000
    steps = [line.format(step, ms) for step, ms in enumerate(times)]
    try:
        found = log_reader.read(log("".join(steps).encode()))
    finally:
        search_terms.search.cache_clear()
    read_steps = found.message("launchers.megatron.iteration")
    assert read_steps["step"].to_list()[:300] == list(range(300))
    assert read_steps["step"][-1] == 7999
    assert {100.0, 900.0} == {*read_steps["step_ms"]}
    assert 300 < read_steps.height < 310
    (note,) = found["notes"]["text"]
    left_out = len(steps) - read_steps.height
    assert note.startswith(f"{left_out:,} more lines with 'elapsed time per iteration")


def test_of_tags_in_line_after_line_a_few_of_each_rank_are_read(log, monkeypatch):
    monkeypatch.setattr(scan, "FEW_TAGS", 10)
    lines_ = [f"[rank {i % 3}] part {i} is done\n" for i in range(3000)]
    lines_[1000] = "[rank 7] it is my only line\n"
    lines_[2000] = timeout(3)
    lines_[2500] = "took rank 2 from the list\n"
    found = log_reader.read(log("".join(lines_).encode()))
    tagged = found.message("python.tagged")
    assert tagged["rank"].value_counts().sort("rank").rows() == [
        *((rank, tag_lines.TAG_LINES + 1) for rank in range(3)),
        (7, 1),
    ]
    assert {2997, 2998, 2999} < {line - 1 for line in tagged["line"]}
    assert found.message("c10d.watchdog.timeout").height == 1
    assert found["notes"].is_empty()
