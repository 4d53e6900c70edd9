"""Directories, files, patterns, stdin; links, devices and odd names."""

from __future__ import annotations

import gzip
import io
import os
import socket
import sys
import tarfile
from types import SimpleNamespace

import pytest

from ncclforensics.model.errors import UsageError
from ncclforensics.sources import discover


def _make(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"line of {name}\n")


def _names(scratch, *paths):
    return [source.name for source in discover(list(map(str, paths)), scratch).sources]


@pytest.fixture
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture
def root(tmp_path):
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs"


def test_a_directory_is_searched_to_the_bottom_in_order(root, scratch):
    _make(root, "b.log", "a/z/1.log", "a/2.log", ".hidden", ".git/config", "c/.git/x")
    assert _names(scratch, root) == [".hidden", "a/2.log", "a/z/1.log", "b.log"]


def test_several_roots_are_told_apart_by_their_own_names(root, scratch):
    _make(root, "x/logs/1.log", "y/logs/1.log", "y/2.log")
    names = _names(scratch, root / "x" / "logs", root / "y" / "logs", root / "y/2.log")
    assert names == ["x/logs/1.log", "y/2.log", "y/logs/1.log"]


def test_order_and_repetition_of_paths_do_not_matter(root, scratch):
    _make(root, "a/1.log", "b.log")
    once = _names(scratch, root / "a", root / "b.log")
    again = _names(scratch, root / "b.log", root / "a", root / "a" / "." / "1.log")
    assert once == again == ["a/1.log", "b.log"]


def test_a_pattern_that_the_shell_left_alone_is_expanded(root, scratch):
    _make(root, "rank_0.log", "rank_1.log", "other.txt", "deep/rank_2.log")
    assert _names(scratch, root / "rank_*.log") == ["rank_0.log", "rank_1.log"]
    names = _names(scratch, root / "**" / "*.log")
    assert names == ["rank_0.log", "rank_1.log", "rank_2.log"]


def test_a_name_that_looks_like_a_pattern_is_taken_as_it_is(root, scratch):
    _make(root, "log[1].txt", "log1.txt")
    assert _names(scratch, root / "log[1].txt") == ["log[1].txt"]


@pytest.mark.parametrize("path", ["absent", "absent*", "", "nul\0byte", "x" * 5000])
def test_a_path_that_matches_nothing_is_a_usage_error(path, root, scratch):
    with pytest.raises(UsageError):
        discover([str(root), str(root / path) if path else path], scratch)


def test_links_are_not_followed_in_circles_or_out(root, scratch):
    _make(root, "a/1.log", ".git/2.log")
    _make(root.parent, "outside.log")
    (root / "a" / "loop").symlink_to(root)
    (root / "same.log").symlink_to(root / "a" / "1.log")
    (root / "only.log").symlink_to(root / ".git" / "2.log")
    (root / "out.log").symlink_to(root.parent / "outside.log")
    (root / "dangling").symlink_to(root / "absent")
    (root / "self").symlink_to(root / "self")
    found = discover([str(root)], scratch)
    assert [source.name for source in found.sources] == ["a/1.log", "only.log"]
    assert {note.source: note.text for note in found.notes} == {
        "a/loop": "a link to a directory, not followed",
        "dangling": "a link to nothing, not followed",
        "out.log": "a link that leads out of the evidence, not followed",
        "self": "a link to nothing, not followed",
    }


def test_pipes_sockets_and_devices_are_never_opened(root, scratch, monkeypatch):
    _make(root, "a.log")
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("sock")
        found = discover([str(root), "/dev/null"], scratch)
    assert [source.name for source in found.sources] == ["logs/a.log"]
    assert {note.source: note.text for note in found.notes} == {
        "logs/pipe": "a named pipe, not opened",
        "logs/sock": "a socket, not opened",
        "null": "a device, not opened",
    }


def test_what_cannot_be_read_is_noted_and_listed(root, scratch, monkeypatch):
    _make(root, "a.log", "b.log")
    real = io.FileIO

    def refuse(path, *args, **options):
        if str(path).endswith("b.log"):
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **options)

    monkeypatch.setattr("ncclforensics.sources.compression.io.FileIO", refuse)
    found = discover([str(root)], scratch)
    assert [source.kind for source in found.sources] == ["log", "unknown"]
    assert found.sources[1].why == "cannot be read: Permission denied"
    assert [note.source for note in found.notes] == ["b.log"]


def test_odd_names_are_printable_and_stay_different(root, scratch):
    for name in [b"a\nb", b"a\\x0ab", b"\xff.log", "\u202e.log".encode(), b"a!b"]:
        (root / os.fsdecode(name)).write_text("text\n")
    names = _names(scratch, root)
    assert sorted(names) == sorted(
        ["a\\x0ab", "a\\\\x0ab", "\\xff.log", "\\u202e.log", "a!b"]
    )


def _stdin(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))


def test_stdin_is_kept_and_told_by_its_content(scratch, monkeypatch):
    _stdin(monkeypatch, b"a line\n")
    (source,) = discover(["-", "-"], scratch).sources
    assert (source.name, source.kind) == ("stdin", "log")
    assert source.open().read() == b"a line\n"


def test_stdin_may_be_compressed_or_an_archive(scratch, monkeypatch):
    _stdin(monkeypatch, gzip.compress(b"a line\n"))
    (source,) = discover(["-"], scratch).sources
    assert (source.name, source.compression) == ("stdin", "gzip")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        member = tarfile.TarInfo("rank_3.log")
        member.size = 2
        tar.addfile(member, io.BytesIO(b"x\n"))
    _stdin(monkeypatch, packed.getvalue())
    (source,) = discover(["-"], scratch).sources
    assert (source.name, source.rank) == ("stdin!rank_3.log", 3)


def test_nothing_given_or_found_is_no_error(root, scratch):
    assert discover([], scratch).sources == ()
    assert discover([str(root)], scratch).sources == ()
    assert not list(scratch.iterdir())


def test_the_given_directory_s_own_name_is_read(root, scratch):
    _make(root, "attempt_1/3/stderr.log")
    (source,) = discover([str(root / "attempt_1")], scratch).sources
    assert source.name == "3/stderr.log"
    assert (source.attempt, source.local_rank) == (1, 3)
