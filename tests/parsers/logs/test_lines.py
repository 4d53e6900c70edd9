"""Bytes to numbered lines: every line once, whatever its bytes are."""

import io
import random

import numpy as np
import pytest
from polars.testing import assert_frame_equal

from ncclforensics.parsers.logs import lines
from ncclforensics.parsers.logs.lines import blocks, decoded


def read(data, size=1 << 20, longest=1 << 20):
    found = list(blocks(io.BytesIO(data), size, longest))
    rows = [row for block in found for row in block.lines.rows()]
    return rows, found, found[-1].whole if found else None


def test_lines_are_numbered_from_1_as_grep_does():
    rows, found, whole = read(b"a\n\nb\n")
    assert rows == [(1, "a"), (2, ""), (3, "b")]
    assert ([block.bad for block in found], whole) == ([0], True)


def test_an_empty_file_has_no_lines():
    assert read(b"") == ([], [], None)


def test_a_last_line_without_an_end_is_read_and_not_whole():
    rows, _, whole = read(b"a\nb")
    assert (rows, whole) == ([(1, "a"), (2, "b")], False)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_the_size_of_blocks_changes_nothing_but_pieces_of_one_number(size):
    chance = random.Random(7)
    lines = ["x" * chance.randrange(40) for _ in range(60)]
    rows, _, _ = read("".join(f"{line}\n" for line in lines).encode(), size, size)
    together = {}
    for number, text in rows:
        together[number] = together.get(number, "") + text
    assert list(together.values()) == lines


def test_a_line_that_is_too_long_comes_in_pieces_of_one_number():
    rows, found, _ = read(b"a\n" + b"y" * 50 + b"\nz\n", 16, 16)
    assert {number for number, _ in rows} == {1, 2, 3}
    assert "".join(text for number, text in rows if number == 2) == "y" * 50
    assert {block.pieces for block in found} == {None, 2}


def test_bad_bytes_are_replaced_and_counted():
    rows, found, _ = read(b"good\n\xff\xfebad\nalso \xc3\n")
    assert rows[0] == (1, "good")
    assert rows[1] == (2, "\ufffd\ufffdbad")
    assert [(block.bad, block.first_bad) for block in found] == [(2, 2)]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_told_by_its_mark(encoding):
    text = "gpu0001 ä\nrank 3 …\n"
    data = ("\ufeff" + text).encode(encoding)
    rows, found, _ = read(data)
    assert "".join(t for _, t in rows) == text.replace("\n", "")
    assert not any(block.bad for block in found)


def test_nul_bytes_stay_inside_their_line():
    rows, _, _ = read(b"a\0\0b\nc\n")
    assert rows == [(1, "a\0\0b"), (2, "c")]


def test_a_long_line_is_cut_where_a_progress_bar_redraws():
    rows, _, _ = read(b"aaaa\rbbbb\rcccc\rdd\n", 12, 12)
    assert [text for _, text in rows] == ["aaaa\rbbbb", "cccc\rdd"]


@pytest.mark.parametrize("ends", [b"\n", b"\n\n", b" the end"])
@pytest.mark.parametrize("size", [1, 40, 700])
def test_the_last_lines_are_those_of_all(monkeypatch, ends, size):
    monkeypatch.setattr(lines, "TAIL_BYTES", size)
    data = b"".join(b"line %d\n" % n for n in range(60)) + ends
    for count in (0, 1, 3, 50, 100):
        expected = decoded(data, 7).lines.tail(count)
        assert_frame_equal(decoded(data, 7).last(count), expected)


@pytest.mark.parametrize("head", [b"x^", b"x\x01", b"\x1f\x8b\x08", b"(\xb5/\xfd"])
def test_text_that_begins_like_a_compressed_file_is_text(head):
    rows, *_ = read(head + b"2\nthe second\n")
    assert [line for line, _ in rows] == [1, 2]
    assert rows[1][1] == "the second"
    assert rows[0][1].endswith("2")


@pytest.mark.parametrize("end", [b"", b"\n", b"no line end"])
def test_single_lines_of_a_block_are_those_of_the_whole_block(end):
    size = lines.FEW_BYTES // 8
    data = b"".join(b"x" * (n % 13) + b" %d \xc3\xa9\n" % n for n in range(size)) + end
    whole = decoded(data, 7).lines
    last = whole.height - 1
    for some in ([0], [last], [0, 1, 5, last - 1, last], range(0, last, 3)):
        picked = decoded(data, 7).pick(np.array(some, np.int64))
        assert_frame_equal(picked, whole[list(some)])
    ats = []
    for row in (0, 1, last // 2, last):
        at = len("".join(f"{raw}\n" for raw in whole["raw"][:row]).encode())
        for read_ends in (False, True):
            block = decoded(data, 7)
            assert not read_ends or block.ends.size == whole.height
            assert [*block.lines_at([at])] == [whole.row(row)]
            assert block.rows_of(np.array([at])).tolist() == [row]
            assert block.row_of(at) == row
            assert_frame_equal(block.rows(row, row + 4), whole[row : row + 4])
        ats.append(at)
    rows = [0, 1, last // 2, last]
    assert [*decoded(data, 7).lines_at(ats)] == [whole.row(row) for row in rows]


@pytest.mark.parametrize("size", [1, lines.ROOM])
@pytest.mark.parametrize(
    ("data", "raw"),
    [
        (b"a\rb\rc\n", ["a\rb\rc"]),
        (b"a\rb\r\nc\r\n", ["a\rb", "c"]),
        (b"\r\n\r\n", ["", ""]),
        (b"caf\xc3\xa9 \r 50%\n", ["caf\u00e9 \r 50%"]),
    ],
)
def test_only_a_cr_before_an_lf_ends_a_line(size, data, raw):
    block = decoded(data * size, 1)
    assert block.count == len(raw) * size
    assert block.lines["raw"].head(len(raw)).to_list() == raw
    assert block.ends.size == block.count
