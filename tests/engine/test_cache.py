"""An analysis with other options reads what the first one parsed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ncclforensics import analysis
from ncclforensics.engine import answers, cache, reading
from ncclforensics.report.formats.as_json import render_json

JOBS = Path(__file__).parents[1] / "fixtures" / "jobs"


@pytest.fixture
def evidence(tmp_path, monkeypatch):
    """Evidence of which only the parsed frames are kept."""
    monkeypatch.setattr(cache, "PAYS_SECONDS", 0)
    monkeypatch.setattr(answers, "PAYS_SECONDS", 1e9)
    folder = tmp_path / "evidence"
    shutil.copytree(JOBS / "torch-missing-rank" / "evidence", folder)
    return folder


@pytest.fixture
def run(evidence, tmp_path, monkeypatch):
    """Analyze; returns the report as JSON, and whether anything was parsed."""
    parsed = []

    def read(*args):
        parsed.append(args)
        return real(*args)

    real = reading.read
    monkeypatch.setattr(reading, "read", read)

    def call(**options):
        parsed.clear()
        found = analysis.analyze([str(evidence)], kept=tmp_path / "root", **options)
        return render_json(found.report), bool(parsed)

    return call


def test_another_question_parses_nothing(run, evidence):
    told, parsed = run()
    assert parsed
    assert run() == (told, False)
    other, parsed = run(world_size=64)
    assert not parsed
    assert '"world_size": 64' in other


def test_a_file_that_changed_is_read_though_its_size_and_time_did_not(run, evidence):
    log = max(evidence.rglob("*.log"), key=lambda file: file.stat().st_size)
    run()
    before = log.stat()
    data = log.read_bytes()
    log.write_bytes(data.replace(b"Timed", b"Tamed").replace(b"rank", b"knar"))
    os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))
    changed, parsed = run()
    assert parsed
    assert changed == render_json(analysis.analyze([str(evidence)]).report)
    assert run() == (changed, False)


@pytest.mark.parametrize("damage", [b"", b"PAR1 and then nothing"])
def test_an_entry_that_cannot_be_read_is_no_entry(run, tmp_path, damage):
    told, _ = run()
    for file in (tmp_path / "root").rglob("*.parquet"):
        file.write_bytes(damage)
    assert run() == (told, True)
    assert run() == (told, False)


def test_what_parses_fast_is_not_kept(run, tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "PAYS_SECONDS", 1e9)
    assert run()[1]
    assert run()[1]
    assert not (tmp_path / "root").exists()
