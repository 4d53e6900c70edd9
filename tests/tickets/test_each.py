"""What is particular to one service."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from msgspec.structs import replace as with_
from services import GITHUB, GitHub, GitLab, Jira, ServiceNow, Slack

from ncclforensics.report.contract import Suspect
from ncclforensics.report.details import Details
from ncclforensics.report.formats.markdown import render_markdown
from ncclforensics.tickets.model import PostingError, size
from ncclforensics.tickets.plans import plan
from ncclforensics.tickets.post import Post


def suspecting(post, many=8, why="nothing of it was collected", **changed):
    """A post that suspects ranks, beside what else it tells."""
    suspects = tuple(Suspect(n, f"gpu{n}", 0.1, why, ()) for n in range(many))
    report = with_(post.paper.report, suspects=suspects, **changed)
    doc = None if report.verdict is None else post.paper.doc
    return replace(post, paper=replace(post.paper, report=report, doc=doc))


def long_post(post, cites=0, name=300, explanation=0):
    """A post with very long texts."""
    report = post.paper.report
    cite = with_(report.verdict.evidence[0], source="n" * name, text="t" * 400)
    verdict = with_(
        report.verdict,
        evidence=(cite,) * cites,
        explanation=("😀" * explanation) or report.verdict.explanation,
    )
    finding = with_(report.findings[0], headline="h" * 300)
    others = (report.findings[0], *(finding,) * 60)
    changed = with_(report, verdict=verdict, findings=others)
    return replace(post, paper=replace(post.paper, report=changed))


@pytest.mark.parametrize(
    "ticket",
    [
        "https://github.com/acme/train/issues/12",
        "https://gitlab.com/acme/train/-/issues/12",
        "https://acme.atlassian.net/browse/OPS-417",
        "https://acme.pagerduty.com/incidents/Q0ABC123",
        "https://acme.service-now.com/incident.do?sys_id=" + "a" * 32,
        "https://acme.slack.com/archives/C0123ABCD",
    ],
)
@pytest.mark.parametrize("bulk", [0, 4_000, 20_000, 40_000, 70_000])
def test_every_version_fits_its_service(post, ticket, bulk):
    told = suspecting(long_post(post, 50, explanation=bulk // 2), why="😀" * 400)
    planned = plan(ticket, told, {})
    for body in planned.bodies:
        assert 0 < size(body) <= planned.limit
        assert len(body.blocks or ()) <= 50
    levels = [body.level for body in planned.bodies]
    assert levels[-1] == "headline and link"
    for body in planned.bodies:
        assert bool(body.left_out) == (body.level != "full")


@pytest.mark.parametrize(
    "ticket", ["a/b#12", "gitlab:a/b#12", "OPS-417", "pd:Q1", "slack:C0123ABCD"]
)
def test_a_ticket_tells_suspects_and_accuses_nobody(post, ticket):
    env = {"JIRA_URL": "https://jira.acme.com"}
    nobody = {"outcome": "inconclusive", "verdict": None, "findings": (), "chain": ()}
    planned = plan(ticket, suspecting(post, **nobody), env)
    full, *_, last = (f"{body.text} {body.blocks}" for body in planned.bodies)
    assert "suspected: rank 0 on gpu0 (10 %), rank 1 on gpu1 (10 %), …" in last
    assert full.count("nothing of it was collected") >= 3
    assert "culprit" not in full
    named = plan(ticket, suspecting(post), env).bodies[0]
    text = f"{named.text} {named.blocks}"
    assert text.index("rank 6 on gpu0002") < text.index("rank 0 on gpu0")
    # rank 6 is accused
    assert "rank 6 on gpu6" not in text


def described(path):
    """What GitHub's description has for a path, by method."""
    for template, methods in GITHUB["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            return methods
    raise AssertionError(f"GitHub has no {path}")


def test_github_speaks_as_its_description_says(start, attach, post, other):
    service = start(GitHub)
    attach(service, post)
    attach(service, other)
    assert set(GITHUB["required"]) <= service.comments[0].keys()
    assert {asked.method for asked in service.asked} == {"GET", "POST", "PATCH"}
    for asked in service.asked:
        operation = described(asked.path.removeprefix("/api/v3"))[asked.method.lower()]
        assert set(asked.query) <= set(operation["query"])
        if operation["body"] is None:
            assert asked.body == b""
        else:
            assert set(operation["body"]["required"]) <= asked.json.keys()
            assert asked.json.keys() <= operation["body"]["properties"].keys()
            assert all(isinstance(value, str) for value in asked.json.values())
        assert asked.headers["accept"] == "application/vnd.github+json"
        assert asked.headers["x-github-api-version"]
        assert asked.headers["user-agent"].startswith("ncclforensics/")


def test_github_looks_through_all_pages(start, attach, post, other):
    service = start(GitHub)
    service.per_page = 2
    attach(service, post)
    for i in range(5):
        service.add(f"me too {i}", "bob")
    service.comments = service.comments[1:] + service.comments[:1]
    for i, comment in enumerate(service.comments, 1):
        comment["id"] = i
    attach(service, other)
    assert "uses docker0" in service.posted()[-1]
    assert len(service.posted()) == 6


def test_somebody_else_s_comment_is_never_changed(start, attach, post, other):
    service = start(GitHub)
    attach(service, post)
    (copied,) = service.posted()
    service.comments.clear()
    service.add(copied, "mallory")
    attach(service, other)
    assert service.posted()[0] == copied
    assert len(service.posted()) == 2


def test_an_app_s_token_that_has_no_user_still_updates(start, attach, post, other):
    service = start(GitHub)
    for _ in range(2):
        service.fail("GET", "/user$", 403, {"message": "Resource not accessible"})
    attach(service, post)
    attach(service, other)
    assert len(service.posted()) == 1


def test_github_s_own_limit_is_waited_for(start, attach, post, monkeypatch):
    service = start(GitHub)
    monkeypatch.setattr("ncclforensics.tickets.http.time.time", lambda: 1000.0)
    lifted = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1030"}
    service.fail("POST", "/comments", 403, {"message": "rate limit"}, lifted)
    attach(service, post)
    assert attach.waits == [30.0]


def test_a_date_in_retry_after_is_a_time(start, attach, post, monkeypatch):
    service = start(GitHub)
    monkeypatch.setattr("ncclforensics.tickets.http.time.time", lambda: 1445412470.0)
    date = {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}
    service.fail("POST", "/comments", 503, {}, date)
    attach(service, post)
    assert attach.waits == [10.0]


def test_a_comment_of_its_own_for_this_evidence(start, attach, post, other):
    service = start(GitHub)
    attach(service, replace(post, key=post.paper.fingerprint()))
    attach(service, replace(other, key=other.paper.fingerprint()))
    attach(service, replace(other, key=other.paper.fingerprint()))
    assert len(service.posted()) == 2


def test_a_line_of_a_note_is_no_command_to_gitlab(start, attach, post):
    service = start(GitLab)
    report = post.paper.report
    verdict = with_(report.verdict, headline="/close", explanation="a\n /assign @bob")
    evil = with_(report, verdict=verdict)
    paper = replace(post.paper, report=evil, details=Details())
    attach(service, replace(post, paper=paper))
    (note,) = service.posted()
    assert "\n\\/close\n" in note
    assert "\n \\/assign" in note


def test_gitlab_takes_merge_requests(start, attach, post):
    service = start(GitLab)
    attach(service, post, f"{service.url}/acme/ml/train/-/merge_requests/12#note_4")
    assert service.sent("POST", "merge_requests/12/notes")


def test_jira_finds_its_comment_on_a_later_page(start, attach, post, other):
    service = start(Jira)
    for i in range(3):
        service.add(f"me too {i}", "bob")
    attach(service, post)
    attach(service, other)
    assert len(service.posted()) == 4
    assert "uses docker0" in service.posted()[3]


def test_jira_s_own_limit_is_met_with_less(start, attach, post):
    service = start(Jira)
    told = {"errorMessages": [], "errors": {"comment": "exceeds the limit of 2,000"}}
    service.fail("POST", "/comment$", 400, told)
    sent = attach(service, post)
    assert "exceeds the limit of 2,000; posting without" in sent.warnings[0].replace(
        f" (POST {service.url}/jira/rest/api/2/issue/OPS-417/comment)", ""
    )
    assert len(service.posted()) == 1


def test_a_log_line_is_no_macro_of_jira(start, attach, post):
    service = start(Jira)
    report = post.paper.report
    evil = "{noformat} {code} [~bob] !x.png! [a|http://e.vil] {html}"
    cite = with_(report.verdict.evidence[0], text=evil)
    verdict = with_(report.verdict, headline=evil, evidence=(cite,))
    changed = replace(post.paper, report=with_(report, verdict=verdict))
    attach(service, replace(post, paper=changed))
    (text,) = service.posted()
    parts = re.split(r"^\{noformat\}$", text, flags=re.MULTILINE)
    assert len(parts) % 2 == 1
    shown = r"\{noformat\} \{code\} \[\~bob\] \!x.png\! \[a\|http://e.vil\]"
    assert shown in "".join(parts[::2])
    assert all("{noformat" not in quoted for quoted in parts[1::2])


def test_a_number_of_servicenow_is_looked_up(start, attach, post):
    service = start(ServiceNow)
    env = {**service.environment, "SERVICENOW_INSTANCE": service.url}
    attach(service, post, "INC0012345", env)
    assert len(service.posted()) == 1
    assert len(service.files) == 2
    with pytest.raises(PostingError, match="no such record"):
        attach(service, post, "INC0099999", env)


def test_a_note_of_servicenow_holds_no_code_tag(start, attach, post):
    service = start(ServiceNow)
    report = post.paper.report
    verdict = with_(report.verdict, headline="x [code]<b>y</b>[/code]")
    changed = replace(post.paper, report=with_(report, verdict=verdict))
    attach(service, replace(post, paper=changed))
    assert "[code]" not in service.posted()[0]
    assert "[ code]" in service.posted()[0]


def test_slack_answers_in_the_thread_that_the_url_names(start, attach, post):
    service = start(Slack)
    url = "https://acme.slack.com/archives/C0123ABCD/p1700000000000200"
    attach(service, post, url)
    assert service.messages[0]["thread_ts"] == "1700000000.000200"
    assert service.sent("GET", "replies")[0].query["ts"] == "1700000000.000200"
    assert {ts for _, _, ts in service.shared} == {"1700000000.000200"}


def test_slack_s_markup_in_a_log_stays_text(start, attach, post):
    service = start(Slack)
    report = post.paper.report
    verdict = with_(report.verdict, headline="<!channel> <@U1> <http://e.vil|x> & all")
    changed = replace(post.paper, report=with_(report, verdict=verdict))
    attach(service, replace(post, paper=changed))
    shown = [b for b in service.messages[0]["blocks"] if b["type"] == "section"]
    assert all(b["text"]["verbatim"] for b in shown)
    text = json.dumps(shown)
    assert "&lt;!channel&gt; &lt;@U1&gt; &lt;http://e.vil|x&gt; &amp; all" in text


@pytest.mark.parametrize(
    ("error", "needed"), [("not_in_channel", None), ("missing_scope", "chat:write")]
)
def test_slack_s_word_for_it_is_told(start, attach, post, error, needed):
    service = start(Slack)
    told = {"ok": False, "error": error, **({"needed": needed} if needed else {})}
    service.fail("POST", "postMessage", 200, told)
    with pytest.raises(PostingError) as caught:
        attach(service, post)
    assert error in str(caught.value)
    assert (needed or "") in str(caught.value)


def test_slack_s_files_that_fail_do_not_undo_the_message(start, attach, post):
    service = start(Slack)
    service.fail("POST", "getUploadURL", 200, {"ok": False, "error": "missing_scope"})
    sent = attach(service, post)
    assert len(service.messages) == 1
    assert len(service.shared) == 1
    assert "missing_scope" in sent.warnings[0]


def test_the_link_is_in_every_version(post):
    link = "https://ci.acme.com/report.html"
    for ticket in ("acme/train#1", "pd:Q1", "slack:C0123ABCD"):
        planned = plan(ticket, Post(post.paper, link), {})
        for body in planned.bodies:
            assert link in body.text + json.dumps(body.blocks)


def test_full_markdown_is_what_a_report_file_holds(post):
    planned = plan("acme/train#1", post, {})
    text = render_markdown(post.paper.report, post.paper.details)
    assert planned.bodies[0].text == text.strip()
