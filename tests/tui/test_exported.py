"""Exports that strangers made: what is wrong in one is said, and ends nothing."""

from __future__ import annotations

import zipfile
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from ncclforensics import analysis
from ncclforensics.cli import commands
from ncclforensics.engine import untrusted
from ncclforensics.model.errors import UsageError
from ncclforensics.tui import exported as exports

JOBS = Path(__file__).parents[1] / "fixtures" / "jobs"
HUNG = JOBS / "torch-missing-rank-two-hosts" / "evidence"


@pytest.fixture
def read(tmp_path):
    def of(path):
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        return exports.read(path, scratch)

    return of


@pytest.fixture(scope="module")
def frames():
    return analysis.analyze([str(HUNG)]).frames


@pytest.mark.parametrize("name", ["run[1]/report.zip", "run[1]"])
def test_an_export_holds_what_the_analysis_knew(tmp_path, read, frames, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    verb = "report" if path.suffix else "export"
    assert commands.main([verb, str(HUNG), "-q", "-o", str(path)]) == 0
    found = read(path)
    assert found.report.verdict.slug == "missing-rank"
    assert_frame_equal(found.calls.collect(), frames["collectives"])
    assert_frame_equal(found.frames["groups"], frames["groups"])


def forged(folder, name, frame):
    assert commands.main(["export", str(HUNG), "-q", "-o", str(folder)]) == 0
    frame.write_parquet(folder / f"{name}.parquet")


def test_a_frame_that_takes_all_memory_ends_its_reader_alone(
    tmp_path, read, monkeypatch, capfd
):
    forged(tmp_path, "groups", pl.select(pl.repeat("x", 1 << 24).alias("source")))
    monkeypatch.setattr(untrusted, "MAX_SHARE_BYTES", 1 << 28)
    with pytest.raises(UsageError, match="the process that read it was ended by SIG"):
        read(tmp_path)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ["collectives", "ranks"])
def test_ranks_that_no_job_has_are_refused(tmp_path, read, frames, name):
    huge = frames[name].with_columns(rank=pl.lit(2**40))
    forged(tmp_path, name, huge)
    with pytest.raises(UsageError, match="it holds an impossible rank"):
        read(tmp_path)


def test_a_frame_of_another_schema_is_refused(tmp_path, read):
    forged(tmp_path, "collectives", pl.DataFrame({"stranger": [1]}))
    with pytest.raises(UsageError, match="has no column stranger"):
        read(tmp_path)


def test_a_damaged_zip_is_no_export(tmp_path, read):
    path = tmp_path / "report.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("report.json", '{"schema_version": 1}' * 100)
        archive.writestr("ranks.parquet", "x" * 1000)
    data = bytearray(path.read_bytes())
    data[50:60] = b"\xff" * 10
    path.write_bytes(data)
    assert read(path) is None
