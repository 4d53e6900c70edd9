"""Analyses of the jobs under fixtures/jobs, each made once in a process for all tests.

For tests of what is made of an analysis; nothing in an analysis can be changed.
"""

from functools import cache
from pathlib import Path

JOBS = Path(__file__).parent / "fixtures" / "jobs"


@cache
def known(name):
    """Return the analysis of a job, by the name of its folder."""
    from ncclforensics.analysis import analyze

    return analyze([str(JOBS / name / "evidence")])
