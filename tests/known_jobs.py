"""Analyses of the jobs under fixtures/jobs, each made once for all tests.

For tests of what is made of an analysis; nothing in an analysis can be changed. The
workers of one run share them: `shared` is their folder, None for a process alone.
"""

import os
import pickle
from functools import cache
from pathlib import Path

JOBS = Path(__file__).parent / "fixtures" / "jobs"
shared = None


@cache
def known(name):
    """Return the analysis of a job, by the name of its folder."""
    from ncclforensics.analysis import analyze

    kept = shared and shared / f"{name}.pickle"
    if kept and kept.exists():
        return pickle.loads(kept.read_bytes())  # noqa: S301 - this run wrote it
    found = analyze([str(JOBS / name / "evidence")])
    if kept:
        draft = kept.with_suffix(f".{os.getpid()}")
        draft.write_bytes(pickle.dumps(found))
        draft.replace(kept)  # whole at once: the other workers may look
    return found
