"""Tokens: from the environment, the usual tool or a netrc file; shown to nobody."""

from __future__ import annotations

import base64

import pytest

from ncclforensics.tickets.model import PostingError
from ncclforensics.tickets.plans import plan
from ncclforensics.tickets.tokens import secret

SNOW = {"SERVICENOW_INSTANCE": "acme"}


def signed(post, ticket, env, host="h"):
    return secret(plan(ticket, post, env), host, env)


@pytest.mark.parametrize(
    ("ticket", "env", "value"),
    [
        ("acme/train#1", {"GH_TOKEN": "a", "GITHUB_TOKEN": "b"}, "Bearer a"),
        ("acme/train#1", {"GITHUB_TOKEN": "b"}, "Bearer b"),
        (
            "https://git.acme.com/a/b/issues/1",
            {"GH_TOKEN": "a", "GH_ENTERPRISE_TOKEN": "e"},
            "Bearer e",
        ),
        ("gitlab:a/b#1", {"GITLAB_TOKEN": "g"}, "Bearer g"),
        ("pd:Q1", {"PAGERDUTY_TOKEN": "p"}, "Token token=p"),
        ("slack:C0123ABCD", {"SLACK_BOT_TOKEN": "s"}, "Bearer s"),
        (
            "https://a.atlassian.net/browse/A1-1",
            {"JIRA_API_TOKEN": "j", "JIRA_EMAIL": "a@b.c"},
            "Basic " + base64.b64encode(b"a@b.c:j").decode(),
        ),
        ("https://j.acme.com/browse/A1-1", {"JIRA_PAT": "j"}, "Bearer j"),
        (
            "https://j.acme.com/browse/A1-1",
            {"JIRA_PAT": "j", "JIRA_EMAIL": "a@b.c"},
            "Bearer j",
        ),
        (
            "https://j.acme.com/browse/A1-1",
            {"JIRA_API_TOKEN": "j", "JIRA_EMAIL": "a@b.c"},
            "Basic " + base64.b64encode(b"a@b.c:j").decode(),
        ),
        (
            "INC0012345",
            {**SNOW, "SERVICENOW_TOKEN": "t", "SERVICENOW_USERNAME": "alice"},
            "Bearer t",
        ),
        (
            "INC0012345",
            {**SNOW, "SERVICENOW_PASSWORD": "p", "SERVICENOW_USERNAME": "alice"},
            "Basic " + base64.b64encode(b"alice:p").decode(),
        ),
    ],
)
def test_each_service_has_its_own_way(post, monkeypatch, ticket, env, value):
    monkeypatch.setenv("PATH", "")
    found = signed(post, ticket, env)
    assert (found.header, found.value) == ("Authorization", value)


def test_a_token_of_github_does_not_go_to_another_host(post, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(
        PostingError, match="set GH_ENTERPRISE_TOKEN, or log in with gh"
    ):
        signed(post, "https://git.evil.com/a/b/issues/1", {"GH_TOKEN": "a"})


def test_jira_cloud_needs_the_address_of_who_signs_in(post, tmp_path):
    env = {"JIRA_API_TOKEN": "j", "NETRC": str(tmp_path / "none")}
    with pytest.raises(PostingError, match="needs JIRA_EMAIL as well as the token"):
        signed(post, "https://a.atlassian.net/browse/A1-1", env)


def test_a_password_of_servicenow_is_never_sent_as_a_token(post):
    env = {**SNOW, "SERVICENOW_PASSWORD": "p"}
    with pytest.raises(PostingError, match="needs SERVICENOW_USERNAME as well as"):
        signed(post, "INC0012345", env)


def test_the_usual_tool_is_asked(post, monkeypatch, tmp_path):
    tool = tmp_path / "gh"
    tool.write_text(
        '#!/bin/sh\n[ "$*" = "auth token --hostname github.com" ] && echo t0k\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert signed(post, "acme/train#1", {}).value == "Bearer t0k"
    tool.write_text("#!/bin/sh\nexit 4\n")
    with pytest.raises(PostingError, match="set GH_TOKEN, or log in with gh"):
        signed(post, "acme/train#1", {})


def test_a_netrc_file_is_read(post, tmp_path):
    file = tmp_path / "netrc"
    file.write_text("machine j.acme.com login alice password p4ss\n")
    file.chmod(0o600)
    env = {"NETRC": str(file)}
    found = signed(post, "https://j.acme.com/browse/A1-1", env, "j.acme.com")
    assert found.value == "Basic " + base64.b64encode(b"alice:p4ss").decode()
    with pytest.raises(PostingError, match="set JIRA_PAT"):
        signed(post, "https://k.acme.com/browse/A1-1", env, "k.acme.com")


@pytest.mark.parametrize("token", ["a\nb", "a\r\nX-Evil: 1", "größe"])
def test_what_is_no_token_is_said_before_it_is_sent(post, token):
    with pytest.raises(PostingError, match="is malformed") as caught:
        signed(post, "acme/train#1", {"GH_TOKEN": token})
    assert token not in str(caught.value)


def test_a_secret_hides_itself_however_it_is_spelled(post):
    env = {"JIRA_API_TOKEN": "j+1/2", "JIRA_EMAIL": "a@b.c"}
    found = signed(post, "https://a.atlassian.net/browse/A1-1", env)
    both = base64.b64encode(b"a@b.c:j+1/2").decode()
    assert found.hide(f"j+1/2 j%2B1%2F2 {both}") == "*** *** ***"
    assert "j+1" not in repr(found)
    assert both not in repr(found)
