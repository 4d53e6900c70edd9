"""A second look gives the first one's answer, and never that to other evidence."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import polars as pl
import pytest

from ncclforensics import analysis
from ncclforensics.cli import commands
from ncclforensics.engine import answers, cache, reading, store
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.model.notes import INTERRUPTED, Note
from ncclforensics.report.formats.as_json import render_json
from ncclforensics.sources import discover

JOBS = Path(__file__).parents[1] / "fixtures" / "jobs"
HUNG = JOBS / "torch-missing-rank" / "evidence"
LOG = "logs/none_49si6tww/attempt_0/0/stderr.log"


@pytest.fixture
def evidence(tmp_path, monkeypatch, trusted):
    """Evidence whose analysis is always kept, and a cache folder of the test's own.

    Dumps and a log: the answer to more is kept in the same way.
    """
    monkeypatch.setattr(answers, "PAYS_SECONDS", 0)
    monkeypatch.setattr(cache, "PAYS_SECONDS", 1e9)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    folder = tmp_path / "evidence"
    shutil.copytree(HUNG / "fr", folder / "fr")
    (folder / LOG).parent.mkdir(parents=True)
    shutil.copy2(HUNG / LOG, folder / LOG)
    return folder


@pytest.fixture
def root(tmp_path):
    """Where the commands keep answers."""
    return tmp_path / "caches" / "ncclforensics"


def entries(root):
    return sorted(path for path in root.iterdir()) if root.is_dir() else []


def run(evidence, root, **options):
    found = analysis.analyze([str(evidence)], kept=root, **options)
    return render_json(found.report), found.cached is not None


def settled(monkeypatch):
    """Let the files of a test be older than those that are hashed."""
    monkeypatch.setattr(answers, "RECENT_NS", -(10**18))


@pytest.mark.parametrize("slug", sorted(f.name for f in JOBS.iterdir())[::8])
def test_the_second_look_has_the_same_report_frames_and_excerpts(
    tmp_path, monkeypatch, slug
):
    monkeypatch.setattr(answers, "PAYS_SECONDS", 0)
    paths = [str(JOBS / slug / "evidence")]
    first = analysis.analyze(paths, kept=tmp_path, quote=True)
    again = analysis.analyze(paths, kept=tmp_path, quote=True)
    assert first.cached is None
    assert again.cached is not None
    assert render_json(again.report) == render_json(first.report)
    assert (again.excerpts, again.sources) == (first.excerpts, first.sources)
    assert again.frames.tables.keys() == first.frames.tables.keys()
    assert again.frames.messages.keys() == first.frames.messages.keys()
    for name, frame in first.frames.tables.items():
        assert again.frames.tables[name].equals(frame), name
        assert again.frames.tables[name].schema == frame.schema, name
    for name, frame in first.frames.messages.items():
        assert again.frames.messages[name].equals(frame), name


def test_the_command_says_so_and_no_cache_is_honoured(evidence, root, capsys):
    command = ["analyze", "-f", "json", str(evidence)]
    assert commands.main([*command, "--no-cache"]) == 0
    fresh = capsys.readouterr()
    assert entries(root) == []
    commands.main(command)
    assert capsys.readouterr() == fresh
    assert len(entries(root)) == 1
    assert root.stat().st_mode & 0o77 == 0
    commands.main(command)
    told = capsys.readouterr()
    assert told.out == fresh.out
    assert " s parse, cached; --no-cache reads anew" in told.err
    commands.main([*command, "--no-cache"])
    assert capsys.readouterr() == fresh


def test_every_command_takes_the_answer_of_another(evidence, root, capsys, tmp_path):
    commands.main(["analyze", str(evidence)])
    assert "cached" not in capsys.readouterr().err
    for command in (
        ["evidence"],
        ["report", "-o", str(tmp_path / "a.html")],
        ["export", "-o", str(tmp_path / "frames")],
        ["attach", "acme/train#1"],
        ["diff", str(evidence)],
    ):
        commands.main([*command, str(evidence)])
        assert ("cached" in capsys.readouterr().err) is (command[0] != "diff")
    assert len(entries(root)) == 1


def test_the_answer_needs_neither_polars_nor_the_parsers(evidence, root):
    run(evidence, root)
    code = (
        "import sys\n"
        "from ncclforensics.cli import commands\n"
        f"commands.main(['analyze', {str(evidence)!r}])\n"
        "heavy = {'polars', 'ncclforensics.parsers', 'ncclforensics.diagnosers'}\n"
        "sys.exit(' '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "parse, cached" in done.stderr
    assert done.stdout.startswith("missing-rank: rank 2 ")


def test_another_question_is_another_answer(evidence, root):
    run(evidence, root)
    assert not run(evidence, root, world_size=64)[1]
    assert not run(evidence, root, select=frozenset({"straggler"}))[1]
    assert run(evidence, root, world_size=64)[1]
    assert len(entries(root)) == 3


def change(log):
    data = log.read_bytes()
    log.write_bytes(data.replace(b"Timed", b"Tamed").replace(b"rank", b"knar"))


def put_back(log, before):
    os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("recent", [True, False])
def test_a_file_that_changed_is_read_though_its_size_and_time_did_not(
    evidence, root, monkeypatch, recent
):
    if not recent:
        settled(monkeypatch)
    log = max(evidence.rglob("*.log"), key=lambda file: file.stat().st_size)
    run(evidence, root)
    assert run(evidence, root)[1]
    before = log.stat()
    time.sleep(0.05)  # a tick of the file system's clock
    change(log)
    put_back(log, before)
    assert log.stat().st_size == before.st_size
    changed, hit = run(evidence, root)
    assert not hit
    assert changed == render_json(analysis.analyze([str(evidence)]).report)
    assert run(evidence, root) == (changed, True)


def test_a_recent_file_that_changed_within_a_tick_is_read(evidence, root, monkeypatch):
    log = max(evidence.rglob("*.log"), key=lambda file: file.stat().st_size)
    seen = answers.look([str(evidence)], answers.asked())
    assert str(log) in seen.recent
    run(evidence, root)
    change(log)
    # the same key, as if no clock had moved
    monkeypatch.setattr(answers, "look", lambda *_: seen)
    assert not run(evidence, root)[1]


def test_a_file_that_replaced_another_is_read(evidence, root, monkeypatch):
    settled(monkeypatch)
    log = max(evidence.rglob("*.log"), key=lambda file: file.stat().st_size)
    copy = log.with_name("copy")
    shutil.copy2(log, copy)
    run(evidence, root, world_size=8)
    copy.unlink()
    run(evidence, root)
    shutil.copy2(log, copy)
    copy.replace(log)
    assert not run(evidence, root)[1]


def test_a_file_more_or_of_another_name_is_another_answer(evidence, root):
    run(evidence, root)
    (evidence / "fr").rename(evidence / "dumps")
    assert not run(evidence, root)[1]
    (evidence / "one.log").write_text("x\n")
    assert not run(evidence, root)[1]
    (evidence / "one.log").unlink()
    assert run(evidence, root)[1]


def test_another_version_answers_itself(evidence, root, monkeypatch):
    run(evidence, root)
    monkeypatch.setattr(store, "code", lambda: "another")
    assert not run(evidence, root)[1]


def test_the_members_of_an_archive_are_unpacked_again(evidence, root, monkeypatch):
    settled(monkeypatch)
    packed = evidence.with_suffix(".tar")
    with tarfile.open(packed, "w") as archive:
        archive.add(HUNG, "logs")  # it has lines that are quoted
    first = analysis.analyze([str(packed)], kept=root, quote=True)
    again = analysis.analyze([str(packed)], kept=root, quote=True)
    assert again.cached is not None
    assert again.excerpts == first.excerpts != ()
    assert render_json(again.report) == render_json(first.report)


@pytest.mark.parametrize(("sha256", "stage"), [(None, "parsers"), ("ab", INTERRUPTED)])
def test_what_was_not_read_whole_is_read_again(
    evidence, root, monkeypatch, sha256, stage
):
    def torn(*_):
        read = reading.parsed(discover([str(evidence)], root).sources)
        told = {
            "sources": read["sources"].with_columns(sha256=pl.lit(sha256, pl.String)),
            "notes": tables.noted([Note(stage, "a note")]),
        }
        return Frames({**read.tables, **told}, read.messages)

    monkeypatch.setattr(reading, "read", torn)
    run(evidence, root)
    assert entries(root) == []


@pytest.mark.parametrize("damage", [b"", b"PAR1 and then nothing", None])
@pytest.mark.parametrize("file", ["*.parquet", answers.INDEX])
def test_an_entry_that_is_damaged_is_no_entry(evidence, root, file, damage):
    told, _ = run(evidence, root)
    for damaged in root.rglob(file):
        data = damaged.read_bytes()
        # a digit of the report or of a frame
        other = data[:-200] + bytes([data[-200] ^ 1]) + data[-199:]
        damaged.write_bytes(other if damage is None else damage)
    assert run(evidence, root) == (told, False)
    assert run(evidence, root) == (told, True)


def test_the_folder_of_others_is_not_believed(evidence, root):
    run(evidence, root)
    root.chmod(0o777)
    assert not run(evidence, root)[1]
    root.chmod(0o700)
    assert run(evidence, root)[1]


def test_a_place_that_cannot_be_written_costs_nothing(evidence, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    assert run(evidence, file / "cache")[1] is False
    assert run(evidence, file / "cache")[1] is False


def test_what_is_fast_leaves_no_trace(tmp_path, monkeypatch):
    monkeypatch.setattr(answers, "PAYS_SECONDS", 1e9)
    monkeypatch.setattr(cache, "PAYS_SECONDS", 1e9)
    assert run(HUNG, tmp_path / "cache")[1] is False
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("limit", ["bytes", "entries"])
def test_the_cache_is_bounded_and_the_unused_go_first(
    evidence, root, monkeypatch, limit
):
    run(evidence, root)
    size = sum(file.stat().st_size for file in root.rglob("*") if file.is_file())
    if limit == "bytes":
        monkeypatch.setattr(store, "MOST_BYTES", int(size * 2.5))
    else:
        monkeypatch.setattr(store, "MOST_ENTRIES", 2)
    for number in range(3):
        (evidence / "one.log").write_text("x\n" * (number + 1))
        run(evidence, root)
    assert len(entries(root)) == 2
    assert run(evidence, root)[1]


def test_cache_clear_erases_all_of_it(evidence, root, capsys):
    commands.main(["analyze", str(evidence)])
    capsys.readouterr()
    assert commands.main(["cache", "clear"]) == 0
    assert "Removed 1 entry" in capsys.readouterr().err
    assert entries(root) == []
    assert commands.main(["cache", "clear"]) == 0
    assert "Removed 0 entries" in capsys.readouterr().err


def _run(evidence, root):
    answers.PAYS_SECONDS, cache.PAYS_SECONDS = 0, 1e9
    return run(evidence, root)[0]


def test_runs_side_by_side_do_not_meet(evidence, root):
    alone = render_json(analysis.analyze([str(evidence)]).report)
    context = multiprocessing.get_context("spawn")
    with context.Pool(3) as pool:
        told = pool.starmap(_run, [(evidence, root)] * 6)
    assert set(told) == {alone}
    assert len(entries(root)) == 1
