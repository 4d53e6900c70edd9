"""A real torch job hangs here and now, and what it leaves is analyzed."""

import subprocess
import sys
from pathlib import Path

from ncclforensics.analysis import analyze

HANG = Path(__file__).with_name("hang.py")


def test_the_sleeping_rank_of_a_real_job_is_named(tmp_path):
    subprocess.run([sys.executable, HANG, tmp_path], check=True, timeout=120)
    found = analyze([str(tmp_path)]).ranked
    assert (found.outcome, found.verdict.slug) == ("failure", "missing-rank")
    assert found.verdict.ranks == (1,)
    assert found.verdict.collective.op == "all_reduce"
    assert found.verdict.collective.seq == 3
