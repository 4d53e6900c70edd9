"""A compressed log is read as far as it goes, and says why it ends."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random

import pytest
import zstandard

from ncclforensics.sources import discover

WORDS = random.Random(1)
TEXT = b"".join(b"%x line\n" % WORDS.getrandbits(64) for _ in range(20_000))
PACKERS = {
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "zstd": zstandard.compress,
}


@pytest.fixture
def source(tmp_path):
    def find(content):
        (tmp_path / "rank_3.log.x").write_bytes(content)
        (found,) = discover([str(tmp_path / "rank_3.log.x")], tmp_path / "s").sources
        return found

    return find


@pytest.mark.parametrize("name", PACKERS)
def test_it_is_unpacked_whatever_its_name(source, name):
    found = source(PACKERS[name](TEXT))
    assert (found.kind, found.compression) == ("log", name)
    reader = found.open()
    assert reader.read() == TEXT
    assert reader.damage is None


@pytest.mark.parametrize("name", PACKERS)
def test_frames_behind_each_other_are_one_text(source, name):
    reader = source(PACKERS[name](TEXT) + PACKERS[name](b"more\n")).open()
    assert reader.read() == TEXT + b"more\n"
    assert reader.damage is None


@pytest.mark.parametrize("name", PACKERS)
def test_a_cut_stream_gives_what_is_readable(source, name):
    packed = PACKERS[name](TEXT)
    reader = source(packed[: len(packed) * 3 // 4]).open()
    content = reader.read()
    assert TEXT.startswith(content)
    assert reader.damage == f"{name}: the stream is cut"
    if name in ("gzip", "zstd"):
        assert len(content) > len(TEXT) // 2


@pytest.mark.parametrize("name", PACKERS)
def test_a_corrupt_stream_ends_with_its_damage_told(source, name):
    packed = bytearray(PACKERS[name](TEXT))
    middle = len(packed) // 2
    packed[middle : middle + 64] = bytes(64)
    reader = source(bytes(packed)).open()
    assert len(reader.read()) < len(TEXT) + 1
    assert reader.damage.startswith(f"{name}: ")


def test_what_follows_the_stream_is_told(source):
    reader = source(gzip.compress(TEXT) + b"trailing text").open()
    assert reader.read() == TEXT
    assert "left out" in reader.damage


def test_padding_behind_the_stream_is_no_damage(source):
    reader = source(gzip.compress(TEXT) + bytes(512)).open()
    assert reader.read() == TEXT
    assert reader.damage is None


def test_lines_are_read_as_from_any_file(source):
    with source(gzip.compress(TEXT)).open() as reader:
        assert reader.readline() == TEXT[: TEXT.index(b"\n") + 1]
        assert sum(1 for _ in reader) == 19_999


def test_a_stream_within_a_stream_is_named_not_opened(source):
    found = source(gzip.compress(gzip.compress(TEXT)))
    assert (found.kind, found.why) == ("unknown", "a compressed stream in another")


def test_a_stream_that_gives_nothing_is_noted(tmp_path):
    (tmp_path / "a.gz").write_bytes(b"\x1f\x8b\x08" + b"\xff" * 50)
    found = discover([str(tmp_path)], tmp_path / "s")
    assert found.sources[0].kind == "unknown"
    assert found.sources[0].why.startswith("gives nothing, gzip: the stream is damaged")
    assert [note.source for note in found.notes] == ["a.gz"]
