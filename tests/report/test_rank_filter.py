"""A narrowed report keeps the verdict and shows what concerns the question."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ncclforensics.report.formats.text import render_text
from ncclforensics.report.rank_filter import narrow

if TYPE_CHECKING:
    from ncclforensics.report.contract import Report


def test_nothing_asked_is_nothing_changed(report: Report) -> None:
    assert narrow(report) is report


def test_a_rank_keeps_its_files_and_findings(report: Report) -> None:
    asked = narrow(report, ranks=frozenset({617}))
    assert asked.verdict == report.verdict
    assert [finding.slug for finding in asked.findings] == ["missing-rank"]
    assert [file.source for file in asked.sources] == ["fr/nccl_trace_rank_617"]
    assert [note.text for note in asked.notes] == [
        "1 finding on rank 617; 1 other finding left out"
    ]
    echo = narrow(report, ranks=frozenset({5}))
    assert [finding.slug for finding in echo.findings] == [
        "missing-rank",
        "timeout-masking",
    ]


def test_a_group_goes_by_name_or_description(report: Report) -> None:
    for pg in ("35", "TENSOR_MODEL_PARALLEL_GROUP"):
        assert len(narrow(report, pg=pg).findings) == 1
    assert narrow(report, pg="35").sources == report.sources


def test_nothing_found_of_a_rank_or_group_is_said(report: Report) -> None:
    asked = narrow(report, ranks=frozenset({3, 4}), pg="nonexist")
    assert asked.notes[0].text.startswith(
        "0 findings on ranks 3-4, 0 findings on process group 'nonexist'"
    )
    assert "asked    0 findings on ranks 3-4" in render_text(asked)


def test_a_rank_that_the_job_does_not_have_is_an_error(report: Report) -> None:
    with pytest.raises(ValueError, match=r"no rank 1024 in this job of 1,024 ranks"):
        narrow(report, ranks=frozenset({5, 1024}))
