"""A simulated job as an export, and the application under a pilot."""

import hashlib
import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import simulate_timeline
from known_jobs import known, once
from ncclforensics.sources import discover
from ncclforensics.tui import load
from ncclforensics.tui.app import TimelineApp
from ncclforensics.tui.load import Request


@pytest.fixture
def _known_jobs(monkeypatch, jobs):
    """Show jobs under fixtures/jobs without another analysis, if nothing is chosen.

    Copies of a folder are analyzed once; what a test opens are the files of its own.
    """
    analyze = load._analyzed

    def analyzed(request, scratch, tick):
        path = Path(request.paths[0])
        if request != Request((str(path),)) or not path.is_dir():
            return analyze(request, scratch, tick)
        if path.parent.parent == jobs:
            return known(path.parent.name)
        found = once(digest(path), lambda: analyze(request, scratch, tick))
        return replace(found, sources=discover([str(path)], scratch).sources)

    monkeypatch.setattr(load, "_analyzed", analyzed)


def digest(folder):
    """Return the same for folders with the same files of the same times."""
    told = hashlib.sha256()
    for file in sorted(f for f in folder.rglob("*") if f.is_file()):
        name = file.relative_to(folder).as_posix()
        told.update(f"{name}\n{file.stat().st_mtime_ns}\n".encode())
        told.update(file.read_bytes())
    return told.hexdigest()


@pytest.fixture
def opened(tmp_path, _known_jobs):
    """Open the application on paths, and wait until it shows what it loaded."""

    @asynccontextmanager
    async def opening(*paths, size=(80, 24)):
        scratch = tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)
        app = TimelineApp(Request(tuple(str(path) for path in paths)), scratch)
        async with app.run_test(size=size) as pilot:
            for _ in range(2400):
                if app.loaded is not None or app.error is not None:
                    break
                await pilot.pause(0.05)
            await settled(pilot)
            yield app, pilot

    return opening


@pytest.fixture
def exported(tmp_path):
    """Write a simulated job as an export."""

    def write(ranks=1024, calls=60):
        folder = tmp_path / "export"
        folder.mkdir()
        simulate_timeline.export(str(folder), str(ranks), str(calls))
        return folder

    return write


async def settled(pilot):
    """Wait until the evidence of the place under the cursor is on screen."""
    for _ in range(200):
        await pilot.pause(0.15)
        app = pilot.app
        # where nothing fits there is no place to tell of
        tiny = app.screen.has_class("-tiny")
        told = app.timeline is None or app.evidence.lines or tiny
        if told and not any(worker.is_running for worker in app.workers):
            break
