"""What a store knows of a failure stands in every format, once, as text alone."""

import msgspec
import pytest

from ncclforensics.analysis import analyze
from ncclforensics.report.bundle import paper
from ncclforensics.report.formats.by_name import render
from ncclforensics.report.formats.html import render_html
from ncclforensics.report.formats.jira_markup import render_wiki
from ncclforensics.tickets import slack
from ncclforensics.tickets.post import Post

LINE = "third loss of gpu0002 in 30 days"


@pytest.fixture(scope="module")
def made():
    from pathlib import Path

    jobs = Path(__file__).parents[2] / "fixtures" / "jobs"
    report = analyze([str(jobs / "slurm-node-lost" / "evidence")]).report
    known = msgspec.structs.replace(report, earlier=(LINE, "the same <b>4</b> times"))
    return paper(known, None, (), {})


@pytest.mark.parametrize("form", ["text", "json", "markdown", "github"])
def test_each_format_tells_it(made, form):
    assert render(made.report, form).count(LINE) == 1
    assert render(made.report, form, verbose=True).count(LINE) == 1


def test_a_page_and_tickets_tell_it(made):
    page = render_html(made.report, made.details, made.doc)
    assert page.count(LINE) == 1
    assert "&lt;b&gt;4" in page
    assert LINE in render_wiki(made.report, made.details)
    post = Post(made)
    assert all(LINE in text for _, text in post.plain()[:2])
    planned = slack.plan("slack:C0123456789", post, {})
    assert LINE in str(planned.bodies[0].blocks)


def test_names_in_it_are_redacted(made):
    hidden = paper(made.report, None, (), {}, frozenset(("hosts",)))
    assert "gpu0002" not in str(hidden.report.earlier)
    assert hidden.report.earlier[0].startswith("third loss of host")
