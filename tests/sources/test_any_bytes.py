"""Whatever lies there under whatever name: it is listed, and nothing raises."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ncclforensics.model.errors import UsageError
from ncclforensics.sources import discover
from ncclforensics.sources.kinds import KINDS
from ncclforensics.sources.names import printable


def _archives():
    tar, zipped = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for name in ("a.log", "b/c.log"):
            info = tarfile.TarInfo(name)
            info.size = 300
            archive.addfile(info, io.BytesIO(b"line\n" * 60))
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.log", b"line\n" * 60)
        archive.writestr("b.tar", tar.getvalue())
    dump = pickle.dumps({"version": "2.9", "pg_config": {}, "entries": []}, protocol=2)
    return [tar.getvalue(), zipped.getvalue(), gzip.compress(tar.getvalue()), dump]


WHOLE = _archives()


@st.composite
def damaged(draw):
    """Cut a real file, and overwrite some of its bytes."""
    content = bytearray(draw(st.sampled_from(WHOLE)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(content) - 1))
        patch = draw(st.binary(min_size=1, max_size=8))
        content[at : at + len(patch)] = patch
    return bytes(content[: draw(st.integers(0, len(content)))])


FILE_NAMES = st.binary(min_size=1, max_size=40).filter(
    lambda name: not set(name) & {0, ord("/")} and name not in (b".", b"..")
)


@settings(max_examples=300, deadline=None)
@given(content=st.binary(max_size=400) | damaged(), name=FILE_NAMES)
@example(content=b"", name=b"\xff\n")
@example(content=b"\0" * 70_000, name=b"-")
def test_every_file_is_listed_with_a_kind(content, name):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "in")
        root.mkdir()
        (root / os.fsdecode(name)).write_bytes(content)
        found = discover([str(root)], Path(folder, "scratch"))
        assert found.sources or name in (b".git", b".hg", b".svn", b".jj")
        for source in found.sources:
            assert source.kind in KINDS
            assert source.name.isprintable()
            assert source.name.startswith(printable(os.fsdecode(name)))
            with source.open() as reader:
                reader.read()
        names = [source.name for source in found.sources]
        assert names == sorted(set(names))
        again = discover([str(root)], Path(folder, "scratch"))
        assert [(s.name, s.kind, s.why) for s in again.sources] == [
            (s.name, s.kind, s.why) for s in found.sources
        ]
        assert again.notes == found.notes


@settings(max_examples=100, deadline=None)
@given(
    path=st.text(max_size=60).filter(
        lambda path: not path.startswith(("/", "..")) and "/.." not in path
    )
)
def test_any_path_that_is_not_there_is_a_usage_error(path):
    with tempfile.TemporaryDirectory() as folder:
        with pytest.raises(UsageError) as caught:
            discover([f"{folder}/absent/x{path}"], Path(folder, "scratch"))
        assert str(caught.value).isprintable()


@settings(max_examples=300, deadline=None)
@given(st.lists(st.text(st.characters(codec=None)), unique=True))
def test_different_names_stay_different(names):
    shown = [printable(name) for name in names]
    assert len(set(shown)) == len(names)
    assert all(name.isprintable() for name in shown)
