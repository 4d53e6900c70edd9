"""Every job whose truth is known: the verdict is right and the report reads as before.

A class that no diagnoser knows yet cannot be named; of such a job it is asked that
nobody innocent is accused.
"""

import tomllib
from pathlib import Path

import pytest

from ncclforensics.analysis import analyze
from ncclforensics.diagnosers import CLASSES
from ncclforensics.report.formats.by_name import render

JOBS = sorted(Path(__file__).parent.glob("fixtures/jobs/*/truth.toml"))


@pytest.fixture(params=JOBS, ids=[file.parent.name for file in JOBS], scope="module")
def job(request):
    truth = tomllib.loads(request.param.read_text("utf-8"))
    return (
        request.param.parent,
        truth,
        analyze([str(request.param.parent / "evidence")]),
    )


def test_the_verdict_is_the_truth(job):
    _, truth, found = job
    verdict = found.ranked.verdict
    classes = {truth.get("class"), *truth["also_acceptable"]}
    if not classes & CLASSES.keys():
        return
    if truth["outcome"] != "failure":
        assert found.ranked.outcome == truth["outcome"]
        return
    assert found.ranked.outcome == "failure"
    assert verdict.slug in classes
    assert verdict.ranks == tuple(truth["ranks"])
    # a rank that never spoke has no host in the evidence
    assert verdict.hosts in ((), tuple(truth["hosts"]))
    if "seq" in truth:
        assert verdict.collective.seq == truth["seq"]
    if "process_group" in truth:
        call = verdict.collective
        assert truth["process_group"] in (call.process_group, call.process_group_desc)


def test_nobody_innocent_is_accused(job):
    _, truth, found = job
    verdict = found.ranked.verdict
    if found.ranked.outcome != "failure":
        return
    assert truth["outcome"] == "failure", verdict.headline
    assert set(verdict.ranks) <= set(truth["ranks"])
    assert set(verdict.hosts) <= set(truth["hosts"])


def test_every_claim_cites_a_line_that_is_there(job):
    folder, _, found = job
    logs = {source.source for source in found.report.sources if source.kind == "log"}
    for finding in found.report.findings:
        assert finding.evidence or finding.role == "witness"
        for cite in finding.evidence:
            source = folder / "evidence" / cite.source
            assert source.is_file()
            if cite.source in logs and cite.line is not None:
                assert 1 <= cite.line <= len(source.read_bytes().split(b"\n"))


def test_the_report_reads_as_its_golden_file(job, request):
    folder, _, found = job
    text = render(found.report, "text", width=80, verbose=True)
    golden = folder / "report.txt"
    if request.config.getoption("--write-goldens"):
        golden.write_text(text, "utf-8")
    assert text == golden.read_text("utf-8")


def test_the_first_two_lines_fit_80_columns(job):
    lines = render(job[2].report, "text", width=80).splitlines()
    assert all(len(line) <= 80 for line in lines[:2])


def test_the_answer_fits_on_a_screen(job):
    assert len(render(job[2].report, "text", width=80).splitlines()) <= 20
