"""Every service, over a socket: post, update, leave alone, refuse, retry, hide."""

from __future__ import annotations

import pytest
from services import MARK, SERVICES, GitHub, GitLab, Jira, PagerDuty, ServiceNow, Slack

from ncclforensics.model.errors import ExitCode
from ncclforensics.tickets.http import LONGEST
from ncclforensics.tickets.model import PostingError
from ncclforensics.tickets.plans import plan

WRITES = {
    GitHub: ("POST", "/comments$"),
    GitLab: ("POST", "/notes$"),
    Jira: ("POST", "/comment$"),
    PagerDuty: ("POST", "/notes$"),
    ServiceNow: ("PATCH", "/incident/"),
    Slack: ("POST", "postMessage"),
}
KEEPS = (PagerDuty, ServiceNow)  # what is posted there cannot be changed


@pytest.fixture(params=SERVICES, ids=lambda kind: kind.__name__)
def service(request, start):
    return start(request.param)


def test_a_report_is_posted_once(service, attach, post):
    sent = attach(service, post)
    (text,) = service.posted()
    assert "rank 6 never joined all" in text.replace("\\", "")
    assert "gpu0002" in text
    assert service.token not in text
    assert sent.done[-1].startswith(("posted the report", "uploaded"))
    assert sent.warnings == []
    assert sent.url
    assert attach.waits == []


def test_a_second_run_repeats_nothing(service, attach, post):
    attach(service, post)
    (before,) = service.posted()
    writes = len([a for a in service.asked if a.method != "GET"])
    sent = attach(service, post)
    assert service.posted() == [before]
    assert sent.done == ["the same report is already there, unchanged"]
    again = [a for a in service.asked if a.method != "GET"][writes:]
    assert [a.path for a in again if "auth.test" not in a.path] == []


def test_a_changed_report_updates_its_own_comment(service, attach, post, other):
    attach(service, post)
    sent = attach(service, other)
    texts = service.posted()
    assert len(texts) == (2 if isinstance(service, KEEPS) else 1)
    assert "uses docker0" in texts[-1].replace("\\", "")
    verb = "posted" if isinstance(service, KEEPS) else "updated"
    assert any(d.startswith(f"{verb} the report") for d in sent.done)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_is_one_line_that_says_what_was_done(service, attach, post, status):
    method, path = WRITES[type(service)]
    service.fail(method, path, status, {"message": "no, not you"})
    with pytest.raises(PostingError) as caught:
        attach(service, post)
    told = str(caught.value)
    assert caught.value.code == ExitCode.POSTING_FAILED
    assert f"{status} " in told
    assert "no, not you" in told
    assert told.endswith("nothing was posted") or "before that: uploaded" in told
    assert "\n" not in told
    assert service.posted() == []


def test_a_page_to_sign_in_is_said_to_be_one(service, attach, post):
    page = b"<!doctype html><title>Sign in</title>"
    html = {"Content-Type": "text/html; charset=utf-8"}
    for method in ("GET", "POST"):
        service.fail(method, "", 200, page, html, times=9)
    with pytest.raises(
        PostingError, match="the answer is a web page, not JSON"
    ) as caught:
        attach(service, post)
    assert "Error" not in str(caught.value)
    assert str(caught.value).endswith("nothing was posted")


def test_a_wrong_token_is_said_and_never_shown(service, attach, post):
    wrong = "ghp_wr0ng"
    names = {"TOKEN", "PASSWORD", "PAT"}
    env = {
        name: wrong if name.rpartition("_")[2] in names else value
        for name, value in service.environment.items()
    }
    with pytest.raises(PostingError) as caught:
        attach(service, post, env=env)
    told = str(caught.value)
    assert "not accepted" in told or "invalid_auth" in told
    assert wrong not in told
    assert wrong not in repr(caught.value.__context__)


def test_an_echoed_token_is_hidden(service, attach, post):
    method, path = WRITES[type(service)]
    service.fail(method, path, 403, {"message": f"token {service.token} may not"})
    with pytest.raises(PostingError, match=r"token \*\*\* may not"):
        attach(service, post)


@pytest.mark.parametrize("status", [413, 422])
def test_what_is_too_large_is_posted_shorter(service, attach, post, status):
    method, path = WRITES[type(service)]
    service.fail(method, path, status, {"message": "too long"})
    sent = attach(service, post)
    (text,) = service.posted()
    assert "waits in all" not in text
    (warning,) = sent.warnings
    # where the whole of it was too long to begin with, there is one step less
    began = plan(service.ticket, post, service.environment).bodies[0].level
    shorter = {"full": "without excerpts"}.get(began, "headline and link")
    assert f"posting {shorter} instead" in warning
    # it is known again, although it is not the full text
    assert attach(service, post).done == ["the same report is already there, unchanged"]


def test_a_service_that_refuses_every_size_is_an_error(service, attach, post):
    method, path = WRITES[type(service)]
    service.fail(method, path, 413, {"message": "too long"}, times=9)
    with pytest.raises(PostingError, match="413 too large"):
        attach(service, post)
    assert service.posted() == []


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_honoured(service, attach, post, status):
    method, path = WRITES[type(service)]
    service.fail(method, path, status, {}, {"Retry-After": "7"})
    attach(service, post)
    assert attach.waits == [7]
    assert len(service.posted()) == 1


def test_a_wait_that_is_too_long_is_said(service, attach, post):
    method, path = WRITES[type(service)]
    service.fail(method, path, 429, {}, {"Retry-After": str(int(LONGEST) + 1)})
    with pytest.raises(PostingError, match="429 too many requests"):
        attach(service, post)
    assert attach.waits == []


@pytest.mark.parametrize("status", [500, 502, 504, 0])
def test_a_lost_answer_does_not_double_the_post(service, attach, post, status):
    method, path = WRITES[type(service)]
    service.fail(method, path, status, {}, late=True)
    attach(service, post)
    assert len(service.posted()) == 1


def test_a_failure_that_did_nothing_is_tried_again(service, attach, post):
    method, path = WRITES[type(service)]
    service.fail(method, path, 502, b"<html>Bad Gateway</html>")
    attach(service, post)
    assert len(service.posted()) == 1


def test_a_service_that_stays_down_is_said(service, attach, post):
    method, path = WRITES[type(service)]
    service.fail(method, path, 500, {}, times=99)
    with pytest.raises(PostingError, match="500 the service failed"):
        attach(service, post)


def test_nonsense_is_said_and_not_a_bug(service, attach, post):
    service.fail("GET", "", 200, [1, "x"], times=99)
    with pytest.raises(PostingError, match="sent an unexpected answer"):
        attach(service, post)


def test_nobody_there_is_said(service, attach, post):
    env = {
        name: value.replace(service.url, "http://127.0.0.1:9")
        for name, value in service.environment.items()
    }
    ticket = service.ticket.replace(service.url, "http://127.0.0.1:9")
    with pytest.raises(PostingError, match="nothing was posted"):
        attach(service, post, ticket, env)
    assert attach.waits == [1, 2, 4]


def test_a_redirect_does_not_take_the_token_along(service, attach, post, start):
    other = start(GitHub)
    service.fail("GET", "", 302, {}, {"Location": f"{other.url}/login"}, times=99)
    service.fail("POST", "auth", 302, {}, {"Location": f"{other.url}/login"}, times=99)
    with pytest.raises(PostingError, match="302 moved"):
        attach(service, post)
    assert other.asked == []


@pytest.mark.parametrize("kind", [GitLab, Jira, ServiceNow, Slack])
def test_files_are_uploaded_and_named(start, attach, post, kind):
    service = start(kind)
    attach(service, post)
    names = [f.name for f in post.files()]
    if kind is Slack:
        stamp = service.messages[0]["ts"]
        assert service.shared == [(name, "C0123ABCD", stamp) for name in names]
        return
    stored = service.uploads if kind is GitLab else service.files
    assert stored == [(f.name, f.media, f.data) for f in post.files()]
    (text,) = service.posted()
    assert all(name in text for name in names)


@pytest.mark.parametrize("kind", [GitLab, Jira, ServiceNow])
def test_a_file_that_is_refused_is_left_out_and_said(start, attach, post, kind):
    service = start(kind)
    service.fail("POST", "upload|attach", 413, {"message": "too big"})
    sent = attach(service, post)
    page, archive = (f.name for f in post.files())
    (warning,) = sent.warnings
    assert warning.startswith(f"{page} is left out: ")
    (text,) = service.posted()
    assert page not in text
    assert archive in text


@pytest.mark.parametrize("kind", [GitLab, Jira, ServiceNow])
def test_a_failure_in_the_middle_leaves_no_comment(start, attach, post, kind):
    service = start(kind)
    page, _ = (f.name for f in post.files())
    method, path = WRITES[kind]
    service.fail(method, path, 401, {})
    with pytest.raises(PostingError, match=f"before that: uploaded {page}, uploaded"):
        attach(service, post)
    assert service.posted() == []


@pytest.mark.parametrize("kind", [Jira, ServiceNow])
def test_a_file_that_is_there_is_not_uploaded_again(start, attach, post, kind):
    service = start(kind)
    method, path = WRITES[kind]
    service.fail(method, path, 401, {})
    with pytest.raises(PostingError):
        attach(service, post)
    attach(service, post)
    assert len(service.files) == 2


def test_the_mark_is_the_only_trace_of_the_tool_s_own(service, attach, post):
    attach(service, post)
    (text,) = service.posted()
    marks = MARK.findall(text)
    assert len(marks) == (0 if isinstance(service, Slack) else 1)
