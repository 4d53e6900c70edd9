"""Evidence that vanishes, grows or cannot be read: a note, and the rest is analyzed."""

from __future__ import annotations

import errno
import io
import os
import shutil
import socket
from pathlib import Path

import pytest

from ncclforensics import analysis
from ncclforensics.report.opening_lines import opening
from ncclforensics.sources import compression

JOBS = Path(__file__).parents[1] / "fixtures" / "jobs"
HUNG = JOBS / "torch-missing-rank" / "evidence"


@pytest.fixture
def evidence(tmp_path):
    """A copy of a hung job's evidence, with a file of each kind that is read."""
    folder = tmp_path / "evidence"
    shutil.copytree(HUNG, folder)
    return folder


def notes(found) -> dict[str, str]:
    rows = found.frames["notes"].drop_nulls("source").rows(named=True)
    return {row["source"]: row["text"] for row in rows}


def between(monkeypatch, change):
    """Call `change` when all files are found and none is parsed."""
    discover = analysis.discover

    def found(*args):
        sources = discover(*args)
        change()
        return sources

    monkeypatch.setattr(analysis, "discover", found)


def test_files_that_vanish_are_noted_and_the_rest_is_read(evidence, monkeypatch):
    whole = analysis.analyze([str(evidence)])
    gone = sorted(file for file in evidence.rglob("*") if file.is_file())[::4]
    between(monkeypatch, lambda: [file.unlink() for file in gone])
    found = analysis.analyze([str(evidence)])
    told = notes(found)
    for file in gone:
        assert "No such file" in told[str(file.relative_to(evidence))]
    assert found.frames["collectives"].height > 0
    assert found.frames["sources"].height == whole.frames["sources"].height


@pytest.mark.parametrize(
    "kind", ["a pipe", "a socket", "a folder", "a device", "itself"]
)
def test_what_has_come_to_a_files_place_is_noted(evidence, monkeypatch, kind):
    taken = sorted(file for file in evidence.rglob("*") if file.is_file())[::4]

    def change():
        for file in taken:
            file.unlink()
            match kind:
                case "a pipe":
                    os.mkfifo(file)
                case "a socket":
                    monkeypatch.chdir(file.parent)
                    with socket.socket(socket.AF_UNIX) as bound:
                        bound.bind(file.name)
                case "a folder":
                    file.mkdir()
                case "a device":
                    file.symlink_to("/dev/zero")
                case _:
                    file.symlink_to(file)

    between(monkeypatch, change)
    found = analysis.analyze([str(evidence)], quote=True)
    told = notes(found)
    assert all(str(file.relative_to(evidence)) in told for file in taken)
    assert found.frames["collectives"].height > 0


def test_a_file_that_grows_is_noted(evidence, monkeypatch):
    log = next(file for file in evidence.rglob("*") if file.suffix in (".log", ".err"))
    line = b"gpu1:1:2 [0] NCCL INFO Using network IB\n"
    with log.open("ab") as writer:
        between(monkeypatch, lambda: (writer.write(line), writer.flush()))
        found = analysis.analyze([str(evidence)])
    told = notes(found)[str(log.relative_to(evidence))]
    size = log.stat().st_size
    assert told.startswith(f"had {size - len(line):,} bytes when it was found and has")
    monkeypatch.undo()
    again = notes(analysis.analyze([str(evidence)]))
    assert not any(text.startswith("had ") for text in again.values())


class Refusing(io.FileIO):
    """A file that the kernel does not hand out, or not to its end."""

    def __init__(self, path, number, after):
        self.number, self.left = number, after
        if not after:
            raise OSError(number, os.strerror(number))
        super().__init__(path)

    def readinto(self, buffer):
        if self.left <= 0:
            raise OSError(self.number, os.strerror(self.number))
        count = super().readinto(memoryview(buffer)[: self.left])
        self.left -= count
        return count


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE])
@pytest.mark.parametrize("after", [0, 100])
def test_what_cannot_be_read_is_noted_and_the_rest_is_read(
    evidence, monkeypatch, number, after
):
    files = sorted(str(file) for file in evidence.rglob("*") if file.is_file())
    refused = set(files[::5])
    plain = io.FileIO

    def opened(path, **options):
        if str(path) in refused:
            return Refusing(path, number, after)
        return plain(path, **options)

    monkeypatch.setattr(compression.io, "FileIO", opened)
    found = analysis.analyze([str(evidence)])
    monkeypatch.undo()
    told = notes(found)
    for file in refused:
        assert os.strerror(number) in told[str(Path(file).relative_to(evidence))]
    assert found.frames["sources"].height == len(files)
    assert found.frames["collectives"].height


def test_a_folder_that_cannot_be_listed_is_noted(evidence, monkeypatch):
    scandir = os.scandir

    def listed(path):
        if str(path).endswith("fr"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return scandir(path)

    (evidence / "fr").mkdir(exist_ok=True)
    monkeypatch.setattr(os, "scandir", listed)
    found = analysis.analyze([str(evidence)])
    assert "the directory cannot be read: Permission denied" in notes(found).values()


@pytest.mark.parametrize(
    ("job", "unread", "outcome"),
    [
        ("nccl-killed-rank", "nccl.gpu000?.798[24].log", "inconclusive"),
        ("nccl-healthy-single-node", "dmesg.log", "no-failure"),
    ],
)
def test_health_is_told_only_where_the_jobs_own_files_were_read(
    tmp_path, monkeypatch, job, unread, outcome
):
    shutil.copytree(JOBS / job / "evidence", tmp_path, dirs_exist_ok=True)
    (tmp_path / "dmesg.log").write_text("[1.0] usb 1-1: new device\n")

    def close():
        for file in list(tmp_path.glob(unread)):
            file.unlink()
            file.mkdir()

    between(monkeypatch, close)
    report = analysis.analyze([str(tmp_path)]).report
    assert any(source.sha256 is None for source in report.sources)
    assert report.outcome == outcome
    assert ("could not be read" in opening(report)[0]) == (outcome == "inconclusive")
