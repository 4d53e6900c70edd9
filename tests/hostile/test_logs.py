"""Log text that was written to harm the reader: long, wide, dated, or full of ranks."""

from __future__ import annotations

import polars as pl
import pytest

from fuzz.targets import conforming, log, stored
from ncclforensics.parsers import limits
from ncclforensics.parsers.logs import (
    grammar,
    lines,
    log_reader,
    message_parsers,
    scan,
    small_logs,
)

HEAD = "gpu1:1:2 [0] NCCL INFO "
NET = f"{HEAD}Using network IB\n"
TIMEOUT = (
    "[rank{rank}]:[E602 18:37:01.833621509 ProcessGroupNCCL.cpp:1709] [PG ID 0 PG GUID "
    "{group}(default_pg) Rank 1] Watchdog caught collective operation timeout: WorkNCCL("
    "SeqNum=3, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for "
    "600001 milliseconds before timing out.\n"
)


def read(text: str | bytes):
    data = text.encode() if isinstance(text, str) else text
    return conforming(log_reader.read(stored(data, "log")))


def notes(frames) -> str:
    return "\n".join(frames["notes"]["text"])


@pytest.mark.parametrize(
    "between",
    [b"\0" * 10**6, b"\x1b]52;c;" + b"A" * 10**6, b"\r" * 10**6, b"[" * 10**6],
    ids=["NUL", "OSC 52 without end", "CR", "brackets"],
)
def test_what_stands_around_a_megabyte_of_anything_is_read(between):
    told = read(NET.encode() + between + b"\n" + NET.encode())
    assert told.message("nccl.net.selected")["line"].to_list() == [1, 3]


def test_a_line_longer_than_its_limit_is_cut_and_noted(monkeypatch):
    monkeypatch.setattr(small_logs, "MOST_BYTES", 0)
    monkeypatch.setattr(limits, "MAX_LINE", 1000)
    monkeypatch.setattr(limits, "MAX_REDRAWN", 1000)
    told = read(NET + "x" * 1001 + NET + NET)
    assert told.message("nccl.net.selected")["line"].to_list() == [1, 3]
    assert "1 lines, first line 2, are longer than 1,000 characters" in notes(told)


def test_a_line_longer_than_a_block_costs_a_block(monkeypatch):
    blocks = lines.blocks
    small = {"block_bytes": 4096, "longest": 4096}
    monkeypatch.setattr(scan, "blocks", lambda s, **more: blocks(s, **(more | small)))
    told = read(NET + "x" * 100_000 + "\n" + NET)
    assert told.message("nccl.net.selected")["line"].to_list() == [1, 3]
    assert "line 2 is longer than a block" in notes(told)


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_progress_bar_without_end_is_not_kept_whole(monkeypatch, end):
    monkeypatch.setattr(limits, "MAX_REDRAWN", 1000)
    bar = "step 1 of 2: x\r" * 500 + end
    told = read(NET + bar * 20 + "\n" + NET)
    lines = 22 + (20 if end else 0)
    assert told.message("nccl.net.selected").height == 2
    assert 0 < told.message("python.step").height <= scan.FIRST_LINES + lines


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_read_and_half_a_character_is_no_matter(encoding):
    mark = "\ufeff".encode(encoding)
    for end in (b"", b"\xd8", b"\x00\xd8", b"\xd8\x00"):
        told = read(mark + NET.encode(encoding) + end)
        assert told.message("nccl.net.selected").height == 1


YEARS = ("0000", "0001", "1677", "2262", "2263", "9999", "10000", "99999")


@pytest.mark.parametrize("year", YEARS)
def test_a_year_that_nanoseconds_do_not_reach_is_no_time(year):
    stamps = (
        f"[{year}-12-31 23:59:59] {NET}"
        f"{year}-12-31T23:59:59.999999999Z stderr F {NET}"
        f"[{year}-12-31 23:59:59,123] torch.distributed.elastic: [ERROR] failed\n"
        f"[Fri Dec 31 23:59:59 {year}] {NET}"
    )
    told = read(stamps)
    assert told["events"].height >= 2
    assert set(told["events"]["t"].drop_nulls().dt.year()) <= {int(year)}


def test_a_rank_that_no_column_holds_is_no_rank():
    for rank in (2**63, 2**64, 10**40):
        log(TIMEOUT.format(rank=rank, group=0).encode())
        text = f"{HEAD}comm 0x1 rank {rank} nranks {rank} cudaDev 0 busId 7000 commId "
        told = read(f"{text}0x{'f' * 40} - Init COMPLETE\n")
        # the one that is left is the path's
        assert set(told["events"]["rank"].drop_nulls()) <= {3}


def test_ranks_and_groups_without_number_are_rows_and_nothing_more():
    many = 20_000
    text = "".join(TIMEOUT.format(rank=n, group=n) for n in range(many))
    assert read(text)["events"]["rank"].n_unique() == many


def test_a_range_of_ranks_is_not_unfolded_for_ever():
    finished = "\n\t - [0-262143] finished collective #1, but didn't join collective #2"
    (report,) = (m for m in grammar.load() if m.id == "c10d.desync_report")
    told = read((report.samples[0]["line"] + finished * 60 + "\n") * 4)
    rows = max(frame.height for frame in told.messages.values())
    assert rows <= limits.MAX_STRUCTURE_ROWS + 4  # and one for each that was not read
    assert "their details are incomplete" in notes(told)


def test_a_report_longer_than_is_read_is_noted(monkeypatch):
    (report,) = (m for m in grammar.load() if m.id == "c10d.desync_report")
    text = report.samples[0]["line"] + "\n"
    assert "details are incomplete" not in notes(read(text))
    monkeypatch.setattr(message_parsers.limits, "MAX_STRUCTURE_CHARACTERS", 10)
    assert "their details are incomplete" in notes(read(text))


def test_a_fingerprint_longer_than_is_read_is_noted():
    (message,) = [m for m in grammar.load() if m.inner == "fingerprint"][:1]
    line = message.samples[0]["line"]
    assert "details are incomplete" not in notes(read(line + "\n"))
    long = line + " " * limits.MAX_FINGERPRINT + "\n"
    assert "their details are incomplete" in notes(read(long))


def test_digits_without_end_are_no_number():
    nines = "9" * 5000
    log(
        f"RuntimeError: Detected mismatch between collectives on ranks. Rank {nines} is "
        f"running collective: CollectiveFingerPrint(SequenceNumber={nines}, OpType=X, "
        f"TensorShape=[{nines}])\n".encode()
    )


def test_bytes_that_are_no_text_stay_in_their_line():
    told = read(b"\x80\xfd" + NET.encode() + b"\x80\n" + NET.encode())
    assert told.message("nccl.net.selected").height >= 1
    assert "invalid UTF-8 on 2 lines" in notes(told)


def test_a_log_of_nothing_but_line_ends_is_empty():
    told = read("\n" * 300_000)
    assert told["events"].is_empty()
    assert told["sources"]["lines"].to_list() == [300_000]
    assert isinstance(told["events"], pl.DataFrame)


def test_long_lines_are_recognised_some_at_a_time(monkeypatch):
    text = (TIMEOUT.format(rank=1, group=0) + NET) * 200
    together = log_reader.TOGETHER_BYTES
    told = {}
    for size in (together, 1000):
        monkeypatch.setattr(log_reader, "TOGETHER_BYTES", size)
        lines = pl.DataFrame({"line": range(1, 401), "raw": text.splitlines()})
        portions = list(log_reader._portions(lines, lines["line"]))
        assert pl.concat(portions).to_list() == list(range(1, 401))
        assert (len(portions) > 50) == (size == 1000)
        told[size] = read(text)
    for name in told[together].tables:
        assert told[1000][name].equals(told[together][name]), name
