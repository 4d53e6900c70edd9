"""Which ticket is meant, and what a plan tells before anything is sent."""

from __future__ import annotations

import msgspec
import pytest

from ncclforensics.model.errors import UsageError
from ncclforensics.tickets.model import mark, marked
from ncclforensics.tickets.plans import as_json, as_text, plan
from ncclforensics.tickets.tokens import told

ID = "d71f7935c0a8016700802b64c67c11c6"
ENV = {"JIRA_URL": "https://jira.acme.com", "SERVICENOW_INSTANCE": "acme"}


@pytest.mark.parametrize(
    ("ticket", "service", "where", "first"),
    [
        (
            "https://github.com/acme/train/issues/12#issuecomment-9",
            "GitHub",
            "acme/train#12",
            "https://api.github.com/repos/acme/train/issues/12/comments",
        ),
        (
            "https://github.com/acme/train/pull/12/files",
            "GitHub",
            "acme/train#12",
            "https://api.github.com/repos/acme/train/issues/12/comments",
        ),
        (
            "acme/train#12",
            "GitHub",
            "acme/train#12",
            "https://api.github.com/repos/acme/train/issues/12/comments",
        ),
        (
            "https://git.acme.com/ml/train/issues/3",
            "GitHub Enterprise",
            "ml/train#3",
            "https://git.acme.com/api/v3/repos/ml/train/issues/3/comments",
        ),
        (
            "https://acme.ghe.com/ml/train/issues/3",
            "GitHub",
            "ml/train#3",
            "https://api.acme.ghe.com/repos/ml/train/issues/3/comments",
        ),
        (
            "https://gitlab.com/acme/ml/train/-/merge_requests/5/diffs",
            "GitLab",
            "acme/ml/train!5",
            "https://gitlab.com/api/v4/projects/acme%2Fml%2Ftrain/merge_requests/5/notes",
        ),
        (
            "https://gitlab.acme.com/ml/train/-/work_items/7",
            "GitLab",
            "ml/train#7",
            "https://gitlab.acme.com/api/v4/projects/ml%2Ftrain/issues/7/notes",
        ),
        (
            "gitlab:acme/train#7",
            "GitLab",
            "acme/train#7",
            "https://gitlab.com/api/v4/projects/acme%2Ftrain/issues/7/notes",
        ),
        (
            "acme/ml/train!5",
            "GitLab",
            "acme/ml/train!5",
            "https://gitlab.com/api/v4/projects/acme%2Fml%2Ftrain/merge_requests/5/notes",
        ),
        (
            "https://acme.atlassian.net/browse/OPS-417?focusedCommentId=1",
            "Jira Cloud",
            "OPS-417",
            "https://acme.atlassian.net/rest/api/2/issue/OPS-417/comment",
        ),
        (
            "https://acme.atlassian.net/jira/software/projects/OPS/boards/1"
            "?selectedIssue=OPS-417",
            "Jira Cloud",
            "OPS-417",
            "https://acme.atlassian.net/rest/api/2/issue/OPS-417/comment",
        ),
        (
            "https://acme.atlassian.net/jira/servicedesk/projects/OPS/queues/custom/1/"
            "OPS-417",
            "Jira Cloud",
            "OPS-417",
            "https://acme.atlassian.net/rest/api/2/issue/OPS-417/comment",
        ),
        (
            "https://acme.com/jira/browse/OPS-417",
            "Jira",
            "OPS-417",
            "https://acme.com/jira/rest/api/2/issue/OPS-417/comment",
        ),
        (
            "OPS-417",
            "Jira",
            "OPS-417",
            "https://jira.acme.com/rest/api/2/issue/OPS-417/comment",
        ),
        (
            "https://acme.pagerduty.com/incidents/Q0ABC123",
            "PagerDuty",
            "incident Q0ABC123",
            "https://api.pagerduty.com/incidents/Q0ABC123/notes",
        ),
        (
            "https://acme.eu.pagerduty.com/incidents/Q0ABC123",
            "PagerDuty",
            "incident Q0ABC123",
            "https://api.eu.pagerduty.com/incidents/Q0ABC123/notes",
        ),
        (
            f"https://acme.service-now.com/nav_to.do?uri=incident.do?sys_id={ID}",
            "ServiceNow",
            f"incident {ID}",
            "https://acme.service-now.com/api/now/table/sys_journal_field",
        ),
        (
            f"https://acme.service-now.com/now/sow/record/incident/{ID}",
            "ServiceNow",
            f"incident {ID}",
            "https://acme.service-now.com/api/now/table/sys_journal_field",
        ),
        (
            "INC0012345",
            "ServiceNow",
            "task INC0012345",
            "https://acme.service-now.com/api/now/table/sys_journal_field",
        ),
        (
            "https://acme.slack.com/archives/C0123ABCD/p1700000000000200"
            "?thread_ts=1690000000.000100&cid=C0123ABCD",
            "Slack",
            "channel C0123ABCD, thread 1690000000.000100",
            "https://slack.com/api/conversations.replies",
        ),
        (
            "https://app.slack.com/client/T0123ABCD/C0123ABCD",
            "Slack",
            "channel C0123ABCD",
            "https://slack.com/api/conversations.history",
        ),
        (
            "slack:C0123ABCD",
            "Slack",
            "channel C0123ABCD",
            "https://slack.com/api/conversations.history",
        ),
    ],
)
def test_a_ticket_is_what_a_person_copies(post, ticket, service, where, first):
    planned = plan(ticket, post, ENV)
    assert (planned.service, planned.where) == (service, where)
    assert planned.first_page.url == first


@pytest.mark.parametrize(
    "ticket",
    [
        "https://example.com/what",
        "ops",
        "acme/train",
        "https://github.com/acme/train/discussions/3",
        "slack:#incidents",
        "",
    ],
)
def test_what_names_no_ticket_is_usage(post, ticket):
    with pytest.raises(UsageError, match="is not a ticket; give https://github"):
        plan(ticket, post, ENV)


@pytest.mark.parametrize(
    ("ticket", "message"),
    [
        ("http://github.com/acme/train/issues/12", "over https only"),
        ("http://10.0.0.1/browse/OPS-1", "over https only"),
        (
            "https://alice:pw@github.com/acme/train/issues/12",
            "leave user and password out",
        ),
        ("ftp://github.com/acme/train/issues/12", "not the URL of a ticket"),
    ],
)
def test_a_token_travels_nowhere_unsafe(post, ticket, message):
    with pytest.raises(UsageError, match=message):
        plan(ticket, post, ENV)


@pytest.mark.parametrize("name", ["SLACK_API_URL", "PAGERDUTY_API_URL"])
def test_an_address_from_the_environment_is_held_to_the_same(post, name):
    ticket = "slack:C0123ABCD" if name.startswith("SLACK") else "pd:Q1"
    with pytest.raises(UsageError, match="over https only"):
        plan(ticket, post, {name: "http://proxy.acme.com"})


@pytest.mark.parametrize("ticket", ["OPS-417", "INC0012345"])
def test_a_short_form_that_needs_an_address_says_which(post, ticket):
    with pytest.raises(UsageError, match=r"set (JIRA_URL|SERVICENOW_INSTANCE)"):
        plan(ticket, post, {})


@pytest.mark.parametrize("ticket", ["acme/train#1", "OPS-1", "slack:C0123ABCD"])
def test_the_plan_tells_all_and_holds_no_token(post, ticket):
    secrets = {"GH_TOKEN": "s3cret", "JIRA_PAT": "s3cret", "SLACK_BOT_TOKEN": "s3cret"}
    env = {**ENV, **secrets}
    planned = plan(ticket, post, env)
    shown = as_json(planned, env, "hosts")
    text = as_text(planned, env, "")
    assert shown["level"] == "full"
    assert 0 < shown["length"] <= shown["limit"]
    assert shown["token"].startswith("from ")
    assert shown["redacted"] == "hosts"
    assert "rank 6 on gpu0002" in text
    assert "--redact hosts,ips,users,paths hides names" in text
    assert text.endswith("Send it with --yes.\n")
    both = text + msgspec.json.encode(shown).decode() + repr(planned)
    assert "s3cret" not in both


def test_a_plan_is_the_same_each_time(post):
    plans = [as_json(plan("OPS-1", post, ENV), {}, "") for _ in range(2)]
    assert plans[0] == plans[1]


def test_where_no_token_is_the_plan_says_what_to_set(post, monkeypatch):
    monkeypatch.setenv("PATH", "")
    planned = plan("acme/train#1", post, {})
    assert told(planned.auth, {}) == "none: set GH_TOKEN"
    planned = plan("OPS-1", post, ENV)
    assert told(planned.auth, ENV) == "JIRA_PAT is not set; asks a netrc file"


def test_a_mark_is_known_at_either_end_only():
    own = mark("report", "text")
    digest = own.rpartition(":")[2]
    assert marked(f"<!-- {own} -->\nbody", "report") == digest
    assert marked(f"body\n\n{{color:#8993a4}}{own}{{color}}\n", "report") == digest
    assert marked(f"before\n> <!-- {own} -->\nafter", "report") is None
    assert marked(f"<!-- {own} -->", "other") is None
    assert mark("report", "text2") != own
