"""Options and fixtures that all tests share."""

import gc
import os
import tomllib
from datetime import datetime
from functools import cache
from pathlib import Path

# workers share the processors: one thread each, set before polars is imported
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("POLARS_MAX_THREADS", "1")

# tests start hundreds of Pythons, each of which would compile all of the package anew
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# no test writes into the user's cache, or answers from it
os.environ["XDG_CACHE_HOME"] = os.devnull

import pytest
from hypothesis import settings

import known_jobs
from known_jobs import known
from site_fakes import fakes  # noqa: F401

# how long an example takes is the machine's affair: no test is timed
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

TESTS = Path(__file__).parent


def pytest_addoption(parser):
    parser.addoption(
        "--write-goldens",
        action="store_true",
        help="write the reports of the jobs anew; read them before they are committed",
    )


# a fork copies its parent's page tables, and a worker grows from test to test
FORKING = ("engine", "hostile", "parsers/flight_recorder")


def pytest_collection_modifyitems(items):
    """Run first what forks hundreds of children."""
    folders = tuple(TESTS / folder for folder in FORKING)
    items.sort(key=lambda item: not any(f in item.path.parents for f in folders))


def pytest_collection_finish():
    """Leave modules and collected tests out of every later garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _as_taken():
    """Give the looks of a job the time when they were taken, which git does not keep."""
    for file in TESTS.glob("fixtures/jobs/*two-looks/truth.toml"):
        for look in tomllib.loads(file.read_text("utf-8"))["taken"]:
            folder, _, time = look.partition(" ")
            seconds = datetime.fromisoformat(time).timestamp()
            for dump in (file.parent / "evidence" / folder).iterdir():
                os.utime(dump, (seconds, seconds))


@pytest.fixture(scope="session", autouse=True)
def _known_to_all_workers(tmp_path_factory):
    """Let the workers of one run share the analyses of `known_jobs`."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        known_jobs.shared = tmp_path_factory.getbasetemp().parent / "known_jobs"
        known_jobs.shared.mkdir(exist_ok=True)


@pytest.fixture
def jobs():
    """The folder of jobs with a known truth."""
    return TESTS / "fixtures" / "jobs"


@pytest.fixture(scope="session")
def thousand():
    """The timeline of 1,024 ranks of which rank 617 misses a call."""
    import simulate_timeline
    from ncclforensics.report.timeline.build import build

    job = simulate_timeline.Job(ranks=1024, calls=200, culprit=617)
    calls = simulate_timeline.collectives(job, 0, job.ranks)
    frames = simulate_timeline.frames(job, collectives=calls)
    return build(frames, simulate_timeline.report(job))


@pytest.fixture(scope="session")
def fixture_timeline():
    """Make the timeline of a job under fixtures/jobs, by its name."""
    from ncclforensics.report.timeline.build import build

    @cache
    def make(name):
        found = known(name)
        return build(found.frames, found.report), found.report

    return make


@pytest.fixture
def trusted(monkeypatch):
    """Load the dumps that a test wrote itself as a worker does, without a child each."""
    from ncclforensics.parsers.flight_recorder import pickle_probe

    monkeypatch.setattr(pickle_probe, "_expendable", True)


@pytest.fixture
def analyzed(tmp_path):
    """Analyze some files, given as name -> text or bytes, lying in one folder."""
    from ncclforensics.analysis import analyze

    def run(files, **options):
        folder = tmp_path / "evidence"
        for name, content in files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            data = content.encode() if isinstance(content, str) else content
            file.write_bytes(data)
        folder.mkdir(exist_ok=True)
        return analyze([str(folder)], **options)

    return run
