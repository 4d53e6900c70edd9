"""Whole incidents: one verdict from all the evidence, and from what is left of it."""

import re

import pytest

import removal
from cites import cites, unresolved
from known_jobs import explained, parsed
from ncclforensics.report.formats.by_name import render

FOLDERS = sorted(f.parent for f in removal.INCIDENTS.glob("*/truth.toml"))


@pytest.fixture(params=FOLDERS, ids=[f.name for f in FOLDERS], scope="module")
def incident(request):
    _, ranked, report = explained(request.param)
    return request.param, parsed(request.param), ranked, report


def test_the_root_is_the_cause(incident):
    _, case, _, report = incident
    truth = case.truth
    assert report.outcome == truth["outcome"]
    if truth["outcome"] != "failure":
        assert report.verdict is None
        return
    verdict = report.verdict
    assert verdict.slug in {truth["class"], *truth["also_acceptable"]}
    if truth.get("may_name_nobody") and not verdict.culprits.ranks:
        return
    assert verdict.culprits.ranks in (tuple(truth["ranks"]), ())
    assert verdict.culprits.hosts == tuple(truth["hosts"])
    if "process_group" in truth:
        assert verdict.collective.process_group_desc == truth["process_group"]


def test_a_second_culprit_is_a_second_root(incident):
    _, case, _, report = incident
    roots = [(f.slug, f.culprits.ranks) for f in report.findings if f.role == "root"]
    if "second_class" not in case.truth:
        assert len(roots) <= 1
        return
    second = (case.truth["second_class"], (case.truth["second_rank"],))
    assert roots == [(case.truth["class"], tuple(case.truth["ranks"])), second]


def test_the_chain_leads_from_the_cause_to_what_was_seen(incident):
    _, _, _, report = incident
    parts = [step.part for step in report.chain]
    assert parts == sorted(parts, key=("cause", "spread", "seen").index)
    if report.outcome == "failure":
        assert report.chain[0].text == report.verdict.headline
        told = [(s.part, s.text, s.ranks_folded) for s in report.chain]
        assert len(set(told)) == len(told)


def test_the_first_two_lines_are_enough_to_act_on(incident):
    _, _, _, report = incident
    first, second = render(report, "text", width=80).splitlines()[:2]
    assert max(len(first), len(second)) <= 80
    if report.outcome != "failure":
        return
    verdict = report.verdict
    assert first.startswith(f"{verdict.slug}: ")
    for host in verdict.culprits.hosts:
        assert host in first
    for rank in verdict.culprits.ranks:
        assert re.search(rf"ranks? .*\b{rank}\b|-", first)
    call = verdict.collective
    if call is not None and call.seq is not None:
        assert f"SeqNum={call.seq}" in first + second


def test_every_cite_stands_where_it_says(incident):
    folder, _, _, report = incident
    assert unresolved(cites(report), folder / "evidence") == []


def test_no_other_finding_accuses_an_innocent_rank(incident):
    _, case, _, report = incident
    guilty = {*case.truth.get("ranks", ()), case.truth.get("second_rank")}
    assert not {r for f in report.findings for r in f.culprits.ranks} - guilty


def test_the_report_reads_as_its_golden_file(incident, request):
    folder, _, _, report = incident
    text = render(report, "text", width=80, verbose=True)
    golden = folder / "report.txt"
    if request.config.getoption("--write-goldens"):
        golden.write_text(text, "utf-8")
    assert text == golden.read_text("utf-8")


def test_without_any_one_source_nobody_else_is_accused(incident):
    """What is cited, and one file of each sort; benchmarks/confidence.py takes all."""
    _, case, _, report = incident
    cited = {c.source for f in report.findings for c in f.evidence}
    cited |= {step.evidence[0].source for step in report.chain if step.evidence}
    firsts = {removal.kind(name): name for name in reversed(case.names)}
    for name in sorted({*cited, *firsts.values()}):
        _, left = case.without((name,))
        assert removal.judged(case, report, left, (name,)) in removal.FINE, name
