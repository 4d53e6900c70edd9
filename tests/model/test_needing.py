"""What is not run for lack of evidence would have found nothing.

Nor would what is computed once for frames without rows have found anything else.
"""

import pytest

from ncclforensics import analysis
from ncclforensics.model import frames
from ncclforensics.report.formats import as_json

JOBS = [
    "torch-missing-rank",  # dumps and logs
    "torch-missing-rank-two-looks",  # dumps alone
    "nccl-killed-rank",  # NCCL's lines
    "slurm-cancelled-after-hang",
]


@pytest.mark.parametrize("job", JOBS)
def test_same_report_if_every_question_is_asked(job, jobs, monkeypatch):
    evidence = [str(jobs / job / "evidence")]
    kept = as_json.render_json(analysis.analyze(evidence).report)
    lacking, empty = [], []

    def asked(given, needs, known=frames.can_answer):
        lacking.append(not known(given, needs))
        return True

    def computed(given, known=frames.are_empty):
        empty.append(known(given))
        return False

    monkeypatch.setattr(frames, "can_answer", asked)
    monkeypatch.setattr(frames, "are_empty", computed)
    assert as_json.render_json(analysis.analyze(evidence).report) == kept
    assert any(lacking)
    assert any(empty)
