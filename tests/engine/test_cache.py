"""A second analysis reads what the first one parsed, and is right all the same."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from pathlib import Path

import pytest

from ncclforensics import analysis
from ncclforensics.cli import commands
from ncclforensics.engine import cache
from ncclforensics.report.formats.as_json import render_json

JOBS = Path(__file__).parents[1] / "fixtures" / "jobs"
HUNG = JOBS / "torch-missing-rank" / "evidence"


@pytest.fixture
def evidence(tmp_path, monkeypatch):
    """Evidence that pays, and a cache folder of the test's own."""
    monkeypatch.setattr(cache, "PAYS_BYTES", 1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    folder = tmp_path / "evidence"
    shutil.copytree(HUNG, folder)
    return folder


@pytest.fixture
def root(tmp_path):
    """Where the commands keep what they parsed."""
    return tmp_path / "caches" / "ncclforensics"


def entries(root):
    return sorted(path for path in root.iterdir()) if root.is_dir() else []


def run(evidence, root):
    found = analysis.analyze([str(evidence)], kept=root)
    return render_json(found.report), found.is_from_cache


@pytest.mark.parametrize("slug", sorted(f.name for f in JOBS.iterdir())[::8])
def test_the_second_run_says_the_same(tmp_path, monkeypatch, slug):
    monkeypatch.setattr(cache, "PAYS_BYTES", 1)
    told, hit = run(JOBS / slug / "evidence", tmp_path)
    assert not hit
    assert run(JOBS / slug / "evidence", tmp_path) == (told, True)


def test_the_command_says_so_and_no_cache_is_honoured(evidence, root, capsys):
    command = ["analyze", "-f", "json", str(evidence)]
    assert commands.main([*command, "--no-cache"]) == 0
    fresh = capsys.readouterr()
    assert entries(root) == []
    commands.main(command)
    assert capsys.readouterr() == fresh
    assert len(entries(root)) == 1
    assert entries(root)[0].parent.stat().st_mode & 0o77 == 0
    commands.main(command)
    told = capsys.readouterr()
    assert told.out == fresh.out
    assert "read from the cache" in told.err
    commands.main([*command, "--no-cache"])
    assert capsys.readouterr() == fresh


def test_a_file_that_changed_is_read_though_its_size_and_time_did_not(evidence, root):
    log = max(evidence.rglob("*.log"), key=lambda file: file.stat().st_size)
    run(evidence, root)
    before = log.stat()
    data = log.read_bytes()
    log.write_bytes(data.replace(b"Timed", b"Tamed").replace(b"rank", b"knar"))
    os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert log.stat().st_size == before.st_size
    changed, hit = run(evidence, root)
    assert not hit
    assert changed == render_json(analysis.analyze([str(evidence)]).report)
    assert run(evidence, root) == (changed, True)
    assert len(entries(root)) == 1


def test_a_file_more_or_of_another_name_is_another_entry(evidence, root):
    run(evidence, root)
    (evidence / "fr").rename(evidence / "dumps")
    assert not run(evidence, root)[1]
    (evidence / "one.log").write_text("x\n")
    assert not run(evidence, root)[1]


@pytest.mark.parametrize("damage", [b"", b"PAR1 and then nothing"])
def test_an_entry_that_cannot_be_read_is_no_entry(evidence, root, damage):
    told, _ = run(evidence, root)
    for file in root.rglob("*.parquet"):
        file.write_bytes(damage)
    assert run(evidence, root) == (told, False)
    assert run(evidence, root) == (told, True)


def test_a_place_that_cannot_be_written_costs_nothing(evidence, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    assert run(evidence, file / "cache")[1] is False
    assert run(evidence, file / "cache")[1] is False


def test_small_evidence_leaves_no_trace(tmp_path):
    assert run(HUNG, tmp_path / "cache")[1] is False
    assert not (tmp_path / "cache").exists()


def test_the_cache_is_bounded_and_the_unused_go_first(evidence, root, monkeypatch):
    run(evidence, root)
    size = sum(file.stat().st_size for file in root.rglob("*") if file.is_file())
    monkeypatch.setattr(cache, "MOST_BYTES", int(size * 2.5))
    for number in range(3):
        (evidence / "one.log").write_text("x\n" * (number + 1))
        run(evidence, root)
    kept = entries(root)
    assert len(kept) == 2
    assert run(evidence, root)[1]


def _run(evidence, root):
    cache.PAYS_BYTES = 1
    return run(evidence, root)[0]


def test_runs_side_by_side_do_not_meet(evidence, root):
    alone = render_json(analysis.analyze([str(evidence)]).report)
    context = multiprocessing.get_context("spawn")
    with context.Pool(3) as pool:
        told = pool.starmap(_run, [(evidence, root)] * 6)
    assert set(told) == {alone}
    assert len(entries(root)) == 1
