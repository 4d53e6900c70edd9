"""The six services, as their published API descriptions say that they answer."""

from __future__ import annotations

import base64
import copy
import json
import re
from pathlib import Path

from server import Service

# the arguments of ours that Slack's own client knows (npm @slack/web-api 8.2.0, MIT)
MESSAGE = {"channel", "text", "blocks", "metadata"}
SLACK = {
    "chat.postMessage": MESSAGE | {"thread_ts", "unfurl_links", "unfurl_media"},
    "chat.update": MESSAGE | {"ts"},
}
GITHUB = json.loads((Path(__file__).parent / "github_openapi.json").read_text())


class GitHub(Service):
    """Comments of an issue; answers are made of the example in GitHub's description."""

    variables = ("GH_ENTERPRISE_TOKEN",)
    me = "octocat"

    def __init__(self):
        super().__init__()
        self.comments = []
        self.per_page = 100

    @property
    def ticket(self):
        return f"{self.url}/acme/train/issues/12"

    def posted(self):
        return [c["body"] for c in self.comments]

    def add(self, body, login=None):
        comment = copy.deepcopy(GITHUB["issue-comment"])
        number = len(self.comments) + 1
        url = f"{self.url}/acme/train/issues/12#issuecomment-{number}"
        comment |= {"id": number, "body": body, "html_url": url}
        comment["user"]["login"] = login or self.me
        self.comments.append(comment)
        return comment

    def user(self, asked):
        return 200, {"login": self.me}

    def listed(self, asked):
        assert set(asked.query) <= {"since", "per_page", "page"}
        page = int(asked.query.get("page", 1))
        start = (page - 1) * self.per_page
        shown = self.comments[start : start + self.per_page]
        more = {}
        if start + self.per_page < len(self.comments):
            here = f"{self.url}{asked.path}?page="
            more["Link"] = f'<{here}{page + 1}>; rel="next", <{here}9>; rel="last"'
        return 200, shown, more

    def _body(self, asked):
        schema = GITHUB["paths"]["/repos/{owner}/{repo}/issues/{issue_number}/comments"]
        assert set(asked.json) == set(schema["post"]["body"]["required"])
        return asked.json["body"]

    def create(self, asked):
        body = self._body(asked)
        if len(body) > 65_536:
            told = {"resource": "IssueComment", "code": "unprocessable"}
            told |= {"field": "data", "message": "Body is too long"}
            answer = {"message": "Validation Failed", "errors": [told]}
            return 422, answer | {"documentation_url": "https://docs.github.com"}
        return 201, self.add(body)

    def revise(self, asked, number):
        comment = self.comments[int(number) - 1]
        comment["body"] = self._body(asked)
        return 200, comment

    _ISSUE = "/api/v3/repos/acme/train/issues"
    routes = (
        ("GET", "/api/v3/user", user),
        ("GET", f"{_ISSUE}/12/comments", listed),
        ("POST", f"{_ISSUE}/12/comments", create),
        ("PATCH", rf"{_ISSUE}/comments/(\d+)", revise),
    )


class GitLab(Service):
    """Notes and uploads of a project whose path has a group in it."""

    variables = ("GITLAB_TOKEN",)

    def __init__(self):
        super().__init__()
        self.notes = []
        self.uploads = []

    @property
    def ticket(self):
        return f"{self.url}/acme/ml/train/-/issues/12"

    def posted(self):
        return [n["body"] for n in self.notes]

    def unsigned(self):
        return 401, {"message": "401 Unauthorized"}

    def user(self, asked):
        return 200, {"id": 1, "username": "alice", "state": "active"}

    def listed(self, asked):
        return 200, self.notes[::-1]

    def create(self, asked):
        note = {"id": 300 + len(self.notes), "body": asked.json["body"]}
        self.notes.append(note | {"author": {"username": "alice"}, "system": False})
        return 201, self.notes[-1]

    def revise(self, asked, number):
        note = self.notes[int(number) - 300]
        note["body"] = asked.json["body"]
        return 200, note

    def upload(self, asked):
        name, media, data = asked.part
        self.uploads.append((name, media, data))
        url = f"/uploads/66dbcd21ec5d24ed6ea225176098d52b/{name}"
        full = f"/-/project/1{url}"
        told = {"id": len(self.uploads), "alt": name, "url": url, "full_path": full}
        return 201, told | {"markdown": f"[{name}]({url})"}

    _HERE = "/api/v4/projects/acme%2Fml%2Ftrain"
    routes = (
        ("GET", "/api/v4/user", user),
        ("GET", f"{_HERE}/(?:issues|merge_requests)/12/notes", listed),
        ("POST", f"{_HERE}/(?:issues|merge_requests)/12/notes", create),
        ("PUT", rf"{_HERE}/(?:issues|merge_requests)/12/notes/(\d+)", revise),
        ("POST", f"{_HERE}/uploads", upload),
    )


class Jira(Service):
    """A server under a path of its own, with pages of two comments."""

    variables = ("JIRA_PAT",)

    def __init__(self):
        super().__init__()
        self.comments = []
        self.files = []

    @property
    def ticket(self):
        return f"{self.url}/jira/browse/OPS-417"

    def posted(self):
        return [c["body"] for c in self.comments]

    def unsigned(self):
        return 401, {"errorMessages": ["You are not authenticated."], "errors": {}}

    def myself(self, asked):
        return 200, {"key": "alice", "name": "alice"}

    def issue(self, asked):
        assert asked.query == {"fields": "attachment"}
        return 200, {
            "fields": {"attachment": [{"filename": n} for n, *_ in self.files]}
        }

    def listed(self, asked):
        start = int(asked.query["startAt"])
        shown = self.comments[start : start + 2]
        total = len(self.comments)
        told = {"startAt": start, "maxResults": 2, "total": total, "comments": shown}
        return 200, told

    def add(self, body, name="alice"):
        author = {"key": name, "name": name}
        comment = {"id": str(10_000 + len(self.comments)), "body": body}
        self.comments.append(comment | {"author": author})
        return self.comments[-1]

    def create(self, asked):
        body = asked.json["body"]
        if len(body) > 32_767:
            limit = (
                "The entered text is too long. It exceeds the allowed limit of 32,767"
            )
            return 400, {"errorMessages": [], "errors": {"comment": limit}}
        return 201, self.add(body)

    def revise(self, asked, number):
        comment = self.comments[int(number) - 10_000]
        comment["body"] = asked.json["body"]
        return 200, comment

    def attach(self, asked):
        if asked.headers.get("x-atlassian-token") != "no-check":
            return 403, b"XSRF check failed"
        self.files.append(asked.part)
        return 200, [{"id": "1", "filename": self.files[-1][0]}]

    _ISSUE = "/jira/rest/api/2/issue/OPS-417"
    routes = (
        ("GET", "/jira/rest/api/2/myself", myself),
        ("GET", _ISSUE, issue),
        ("GET", f"{_ISSUE}/comment", listed),
        ("POST", f"{_ISSUE}/comment", create),
        ("PUT", rf"{_ISSUE}/comment/(\d+)", revise),
        ("POST", f"{_ISSUE}/attachments", attach),
    )


class PagerDuty(Service):
    """Notes of an incident, which stay as they are.

    Requests and answers are those of PagerDuty/api-schema, reference/REST.
    """

    ticket = "https://acme.pagerduty.com/incidents/Q0ABC123"

    def __init__(self):
        super().__init__()
        self.notes = []

    @property
    def environment(self):
        api = {"PAGERDUTY_API_URL": self.url, "PAGERDUTY_FROM": "oncall@acme.com"}
        return {"PAGERDUTY_TOKEN": self.token, **api}

    def posted(self):
        return [n["content"] for n in self.notes]

    def signed(self, asked):
        return asked.headers.get("authorization") == f"Token token={self.token}"

    def unsigned(self):
        return 401, {"error": {"message": "Unauthorized", "code": 2006, "errors": []}}

    def listed(self, asked):
        assert asked.headers["accept"] == "application/vnd.pagerduty+json;version=2"
        return 200, {"notes": self.notes}

    def create(self, asked):
        assert asked.headers["from"] == "oncall@acme.com"
        assert asked.json.keys() == {"note"}
        assert asked.json["note"].keys() == {"content"}
        note = {
            "id": f"PWL7QX{len(self.notes)}",
            "user": {"id": "PXPGF42", "type": "user_reference"},
            "content": asked.json["note"]["content"],
            "created_at": "2013-03-06T15:28:51-05:00",
        }
        self.notes.append(note)
        return 200, {"note": note}

    routes = (
        ("GET", "/incidents/Q0ABC123/notes", listed),
        ("POST", "/incidents/Q0ABC123/notes", create),
    )


class ServiceNow(Service):
    """An incident, its journal and its attachments; signs in by name and password."""

    record = "d71f7935c0a8016700802b64c67c11c6"

    def __init__(self):
        super().__init__()
        self.journal = []
        self.files = []

    @property
    def environment(self):
        user = {"SERVICENOW_USERNAME": "alice"}
        return {**user, "SERVICENOW_PASSWORD": self.token}

    @property
    def ticket(self):
        form = f"incident.do%3Fsys_id%3D{self.record}"
        return f"{self.url}/now/nav/ui/classic/params/target/{form}"

    def posted(self):
        return [entry["value"] for entry in self.journal]

    def signed(self, asked):
        both = base64.b64encode(f"alice:{self.token}".encode()).decode()
        return asked.headers.get("authorization") == f"Basic {both}"

    def unsigned(self):
        told = {
            "message": "User Not Authenticated",
            "detail": "Required to provide Auth",
        }
        return 401, {"error": told, "status": "failure"}

    def found(self, asked, table):
        known = asked.query["sysparm_query"] == "number=INC0012345"
        return 200, {"result": [{"sys_id": self.record}] if known else []}

    def entries(self, asked):
        wanted = f"element_id={self.record}^element=work_notes^"
        assert asked.query["sysparm_query"].startswith(wanted)
        return 200, {"result": self.journal}

    def note(self, asked, table, record):
        assert record == self.record
        value = asked.json["work_notes"]
        self.journal.append({"sys_id": f"{len(self.journal):032x}", "value": value})
        return 200, {"result": {"sys_id": record}}

    def listed(self, asked):
        return 200, {"result": [{"file_name": name} for name, *_ in self.files]}

    def attach(self, asked):
        assert asked.query["table_sys_id"] == self.record
        name, media = asked.query["file_name"], asked.headers["content-type"]
        self.files.append((name, media, asked.body))
        return 201, {"result": {"sys_id": "1" * 32, "file_name": name}}

    routes = (
        ("GET", "/api/now/table/sys_journal_field", entries),
        ("GET", r"/api/now/table/(\w+)", found),
        ("PATCH", r"/api/now/table/(\w+)/([0-9a-f]{32})", note),
        ("GET", "/api/now/attachment", listed),
        ("POST", "/api/now/attachment/file", attach),
    )


def without_token(handler):
    """Mark a route as one that must not see the token."""
    handler.open = True
    return handler


class Slack(Service):
    """A channel; every answer is 200 and says in `ok` whether it did it."""

    ticket = "https://acme.slack.com/archives/C0123ABCD"

    def __init__(self):
        super().__init__()
        self.messages = []
        self.shared = []
        self.stored = {}

    @property
    def environment(self):
        return {"SLACK_BOT_TOKEN": self.token, "SLACK_API_URL": f"{self.url}/api"}

    def posted(self):
        return [json.dumps(m["blocks"]) for m in self.messages]

    def unsigned(self):
        return 200, {"ok": False, "error": "invalid_auth"}

    def me(self, asked):
        return 200, {"ok": True, "user_id": "U1", "user": "bot"}

    def history(self, asked):
        assert asked.query["include_all_metadata"] == "true"
        return 200, {"ok": True, "messages": self.messages[::-1], "has_more": False}

    def post(self, asked):
        told = asked.json
        assert told.keys() <= SLACK["chat.postMessage"]
        size = sum(len(json.dumps(b)) for b in told["blocks"])
        if len(told["blocks"]) > 50 or size > 13_200:
            return 200, {"ok": False, "error": "msg_too_long"}
        stamp = f"17000000{len(self.messages):02}.000100"
        self.messages.append({**told, "ts": stamp, "user": "U1"})
        return 200, {"ok": True, "channel": told["channel"], "ts": stamp}

    def update(self, asked):
        told = asked.json
        assert told.keys() <= SLACK["chat.update"]
        (message,) = [m for m in self.messages if m["ts"] == told["ts"]]
        message |= told
        return 200, {"ok": True, "ts": told["ts"], "text": told["text"]}

    def address(self, asked):
        number = f"F{len(self.stored)}"
        self.stored[number] = asked.form
        url = f"{self.url}/upload/v1/{number}?signature=abc"
        return 200, {"ok": True, "upload_url": url, "file_id": number}

    @without_token
    def upload(self, asked, number):
        assert "authorization" not in asked.headers
        assert len(asked.body) == int(self.stored[number]["length"])
        return 200, b"OK - 1"

    def share(self, asked):
        form = asked.form
        (file,) = json.loads(form["files"])
        self.shared.append((file["title"], form["channel_id"], form["thread_ts"]))
        return 200, {"ok": True, "files": [file]}

    routes = (
        ("POST", "/api/auth.test", me),
        ("GET", r"/api/conversations\.(?:history|replies)", history),
        ("POST", "/api/chat.postMessage", post),
        ("POST", "/api/chat.update", update),
        ("POST", "/api/files.getUploadURLExternal", address),
        ("POST", r"/upload/v1/(\w+)", upload),
        ("POST", "/api/files.completeUploadExternal", share),
    )


SERVICES = (GitHub, GitLab, Jira, PagerDuty, ServiceNow, Slack)
MARK = re.compile(r"ncclforensics:[\w.-]+:[0-9a-f]{12}")
