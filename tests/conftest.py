"""Options and fixtures that all tests share."""

from pathlib import Path

import pytest

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
