"""The culprit's last own line stands in every format, with the lines around it."""

import pytest

from ncclforensics import Incident
from ncclforensics.analysis import analyze
from ncclforensics.diagnosers import CLASSES
from ncclforensics.report.bundle import paper
from ncclforensics.report.formats.annotations import render_github
from ncclforensics.report.formats.html import render_html
from ncclforensics.report.formats.jira_markup import render_wiki
from ncclforensics.report.formats.markdown import render_markdown
from ncclforensics.report.formats.text import render_text
from ncclforensics.tickets.plans import as_json, plan
from ncclforensics.tickets.post import Post
from ncclforensics.tui.model.entries import entries

SAID = "saving checkpoint to /job/ckpt"
BEFORE = "step 3 loss 0.6250"
JOB = "tests/fixtures/jobs/torch-missing-rank-two-hosts/evidence"
TICKETS = ["acme/train#12", "slack:C0123456789", "OPS-417", "pd:ABC"]
ENV = {"JIRA_URL": "https://jira.example"}


@pytest.fixture(scope="module")
def found():
    return analyze([JOB], quote=True)


@pytest.fixture(scope="module")
def made(found):
    return paper(found.report, found.frames, found.excerpts, CLASSES)


@pytest.mark.parametrize("render", [render_markdown, render_html, render_wiki])
def test_long_formats_have_it_with_what_stands_around_it(made, render):
    text = render(made.report, made.details)
    assert text.count(BEFORE) == 1
    assert text.index(SAID) < text.index("What to do")
    assert SAID in render(made.report, type(made.details)())  # a saved report


@pytest.mark.parametrize("render", [render_text, render_github])
def test_short_formats_have_the_line(made, render):
    assert SAID in render(made.report)


@pytest.mark.parametrize("ticket", TICKETS)
def test_tickets_have_it(made, ticket):
    assert SAID in str(as_json(plan(ticket, Post(made), ENV), ENV, ""))


def test_the_timeline_and_the_api_have_it(found):
    (entry,) = [e for e in entries(found.report) if e.label == "last"]
    assert SAID in entry.text
    assert entry.cite == found.report.last_line
    assert Incident(found).last_line == found.report.last_line


def test_redaction_reaches_the_lines_around_it(found):
    kinds = frozenset({"hosts", "paths"})
    hidden = paper(found.report, found.frames, found.excerpts, CLASSES, kinds)
    text = render_markdown(hidden.report, hidden.details)
    assert BEFORE in text
    assert "/job/ckpt" not in text
    assert "gpu0002" not in text


def test_without_a_culprit_there_is_none(found):
    healthy = analyze(["tests/fixtures/jobs/torch-first-timeout-only/evidence"])
    assert not [e for e in entries(healthy.report) if e.label == "last"]
    assert "Its last line" not in render_markdown(healthy.report)
