"""Lines of a file by number: without loading it, and whatever its bytes are."""

import gzip

import pytest

from ncclforensics.sources import discover
from ncclforensics.tui import log_file
from ncclforensics.tui.log_file import GoneError, LogFile, copied, state


def source_of(path, tmp_path):
    (source,) = discover([str(path)], tmp_path / "scratch").sources
    return source


def opened(path):
    file = LogFile(path)
    for _ in file.indexed():
        pass
    return file


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
@pytest.mark.parametrize("block", [1, 7, 64, 1 << 20])
def test_every_line_is_found_by_its_number(tmp_path, monkeypatch, block, end):
    monkeypatch.setattr(log_file, "BLOCK", block)
    lines = ["first", "", "a longer third line", "", "", "x" * 50, "last"]
    path = tmp_path / "a.log"
    path.write_text("\n".join(lines) + end)
    expected = [*lines, ""] if end == "\n\n" else lines
    file = opened(path)
    assert file.count == len(expected)
    assert [file.lines(n, 1) for n in range(1, len(expected) + 1)] == [
        [line] for line in expected
    ]
    assert file.lines(3, 100) == expected[2:]
    assert file.lines(len(expected) + 1, 1) == []


def test_an_empty_file_has_no_lines(tmp_path):
    (tmp_path / "a.log").touch()
    file = opened(tmp_path / "a.log")
    assert (file.count, file.lines(1, 5)) == (0, [])


def test_a_line_near_the_end_is_read_without_what_is_before_it(tmp_path):
    path = tmp_path / "large.log"
    with path.open("wb") as out:
        for number in range(1, 400_001):
            out.write(b"%07d a line of a log that is long enough to count\n" % number)
    file = opened(path)
    read = []
    inner = file._file
    spy = type(
        "Spy",
        (),
        {
            "seek": lambda self, at: inner.seek(at),
            "read": lambda self, size: note(inner.read(size)),
            "readline": lambda self, size: note(inner.readline(size)),
        },
    )

    def note(data):
        read.append(len(data))
        return data

    file._file = spy()
    assert file.lines(399_990, 2)[1].startswith("0399991 ")
    assert path.stat().st_size > 20 << 20
    assert sum(read) <= 2 * log_file.BLOCK


def test_a_line_of_many_megabytes_is_cut_and_the_next_one_is_there(tmp_path):
    path = tmp_path / "a.log"
    path.write_bytes(b"a\n" + b"x" * (3 << 20) + b"\nafter it\n")
    file = opened(path)
    assert file.count == 3
    _, long, after = file.lines(1, 3)
    assert (len(long), long[-1], after) == (4000, "…", "after it")


def test_escape_sequences_and_direction_marks_are_removed(tmp_path):
    path = tmp_path / "a.log"
    path.write_bytes(b"  \x1b[2Jred\x1b]0;title\x07 \xe2\x80\xaeabc\xff\r\n")
    assert opened(path).lines(1, 1) == ["  red abc\ufffd"]


@pytest.mark.parametrize("form", ["gzip", "utf-16"])
def test_what_is_no_plain_text_is_copied_as_such(tmp_path, form):
    lines = "one\ntwo é\nthree\n" * 20
    path = tmp_path / "a.log"
    data = lines.encode() if form == "gzip" else lines.encode("utf-16")
    path.write_bytes(gzip.compress(data) if form == "gzip" else data)
    scratch = tmp_path / "copies"
    scratch.mkdir()
    *_, copy = copied(source_of(path, tmp_path), scratch)
    assert copy.parent == scratch
    assert opened(copy).lines(59, 5) == ["two é", "three"]


def test_a_plain_file_is_not_copied(tmp_path):
    path = tmp_path / "a.log"
    path.write_text("one\n")
    assert list(copied(source_of(path, tmp_path), tmp_path)) == [path]


def test_a_full_disk_ends_the_copy(tmp_path, monkeypatch):
    path = tmp_path / "a.log"
    path.write_bytes(gzip.compress(b"one\n" * 100))
    source = source_of(path, tmp_path)
    monkeypatch.setattr(log_file, "ROOM", 1 << 62)
    with pytest.raises(OSError, match="no room to unpack it"):
        list(copied(source, tmp_path))


def test_what_became_of_a_file_since_it_was_read(tmp_path):
    path = tmp_path / "a.log"
    path.write_text("one\ntwo\n")
    source = source_of(path, tmp_path)
    assert state(source) == ""
    with path.open("a") as out:
        out.write("three\n")
    assert state(source) == "longer than when it was read"
    path.write_text("1")
    assert state(source).startswith("shorter")
    path.write_text("one\nTWO\n")
    assert state(source).startswith("changed")
    path.unlink()
    with pytest.raises(GoneError, match=r"a\.log is gone"):
        state(source)


def test_a_dump_has_no_lines(jobs, tmp_path):
    folder = jobs / "torch-chain" / "evidence" / "fr"
    source = discover([str(folder)], tmp_path).sources[0]
    with pytest.raises(GoneError, match="has no lines"):
        state(source)
