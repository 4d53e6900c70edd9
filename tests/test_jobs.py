"""Every job whose truth is known: the verdict is right and the report reads as before.

A class that no diagnoser knows yet cannot be named; of such a job it is asked that
nobody innocent is accused.
"""

import tomllib
from pathlib import Path

import pytest

from cites import cites, unresolved
from known_jobs import known
from ncclforensics.diagnosers import CLASSES
from ncclforensics.report.formats.by_name import render

JOBS = sorted(Path(__file__).parent.glob("fixtures/jobs/*/truth.toml"))


@pytest.fixture(params=JOBS, ids=[file.parent.name for file in JOBS], scope="module")
def job(request):
    truth = tomllib.loads(request.param.read_text("utf-8"))
    return request.param.parent, truth, known(request.param.parent.name)


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


def test_no_check_fails(job):
    _, _, found = job
    assert not [n.missing for n in found.ranked.not_checked if n.is_fault]


def test_every_cite_stands_where_it_says(job):
    folder, _, found = job
    for finding in found.report.findings:
        assert finding.evidence or finding.role == "witness"
    assert unresolved(cites(found.report), folder / "evidence") == []


def test_no_other_finding_accuses_an_innocent_rank(job):
    _, truth, found = job
    guilty = {*truth.get("ranks", ())}
    assert not {r for f in found.report.findings for r in f.culprits.ranks} - guilty


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
