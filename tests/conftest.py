"""Options and fixtures that all tests share."""

from pathlib import Path

import pytest
from hypothesis import settings

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


@pytest.fixture
def jobs():
    """The folder of jobs with a known truth."""
    return TESTS / "fixtures" / "jobs"


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
