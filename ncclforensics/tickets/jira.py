"""Issues of Jira Cloud and Jira Data Center: comments in wiki markup, and attachments.

Version 2 of the REST API takes wiki markup on both. Wiki markup has no hidden comments,
so the mark is a grey last line. Cloud authenticates with an e-mail address and a token,
Data Center with a personal access token alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from ncclforensics.model.errors import UsageError
from ncclforensics.report.formats.jira_markup import escape, noformat, render_wiki
from ncclforensics.tickets import urls
from ncclforensics.tickets.model import Auth, Comment, Plan, Request
from ncclforensics.tickets.post import fitting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ncclforensics.tickets.model import Body, Level
    from ncclforensics.tickets.post import Post

LIMIT = 32_767
SERVERS = ("JIRA_URL", "JIRA_SERVER", "JIRA_BASE_URL")
_KEY = r"[A-Z][A-Z0-9_]+-[1-9]\d*"
_BROWSE = re.compile(rf"(.*)/browse/({_KEY})/?")
_QUEUE = re.compile(rf"(.*)/jira/.*/({_KEY})/?")
_SHORT = re.compile(rf"(?:jira:)?({_KEY})")


def plan(ticket: str, post: Post, env: Mapping[str, str]) -> Plan | None:
    """Return the plan for a ticket of Jira, None if it is not one."""
    place = _place(ticket, env)
    if place is None:
        return None
    site, key = place
    cloud = site.endswith(".atlassian.net")
    issue = f"{site}/rest/api/2/issue/{key}"
    page = f"{site}/browse/{key}"

    def comment(item: Any) -> Comment:
        author = item.get("author") or {}
        url = f"{page}?focusedCommentId={item['id']}"
        return Comment(str(item["id"]), item["body"], _person(author), url)

    def following(answer: Any, _: Mapping[str, str]) -> Request | None:
        start = answer["startAt"] + len(answer["comments"])
        if start >= answer["total"] or not answer["comments"]:
            return None
        return Request("GET", f"{issue}/comment", params={"startAt": str(start)})

    upload = {"X-Atlassian-Token": "no-check"}
    return Plan(
        service="Jira Cloud" if cloud else "Jira",
        where=key,
        url=ticket if "://" in ticket else page,
        auth=Auth(
            "Basic" if cloud else "Bearer or Basic",
            ("JIRA_API_TOKEN",) if cloud else ("JIRA_PAT", "JIRA_API_TOKEN"),
            user=("JIRA_EMAIL", "JIRA_USER", "JIRA_LOGIN"),
            bearer=("JIRA_PAT",),
            netrc=True,
        ),
        key=post.key,
        limit=LIMIT,
        bodies=fitting(_versions(post), LIMIT, room=1000),
        me=(Request("GET", f"{site}/rest/api/2/myself"), _person),
        first_page=Request("GET", f"{issue}/comment", params={"startAt": "0"}),
        comments=lambda answer: map(comment, answer["comments"]),
        next_page=following,
        create=lambda body, mark: Request(
            "POST", f"{issue}/comment", {"body": _text(body, mark)}
        ),
        revise=lambda old, body, mark: Request(
            "PUT", f"{issue}/comment/{old.id}", {"body": _text(body, mark)}
        ),
        made=comment,
        files=post.files(),
        attached=(
            Request("GET", issue, params={"fields": "attachment"}),
            lambda answer: {
                item["filename"]: f"[^{item['filename']}]"
                for item in answer["fields"].get("attachment") or ()
            },
        ),
        upload=lambda file: Request(
            "POST", f"{issue}/attachments", file=file, headers=upload
        ),
        uploaded=lambda answer: f"[^{answer[0]['filename']}]",
        mention=lambda refs: "Files: " + ", ".join(refs.values()),
    )


def _place(ticket: str, env: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the site and the key of the issue, None if it is not one of Jira."""
    parts = urls.split(ticket)
    if parts is None:
        if (found := _SHORT.fullmatch(ticket)) is None:
            return None
        site = next((env[name] for name in SERVERS if env.get(name)), None)
        if site is None:
            raise UsageError(f"{ticket}: set {SERVERS[0]} to the address of Jira")
        urls.split(site)
        return site.rstrip("/"), found[1]
    if found := _BROWSE.fullmatch(parts.path):
        return urls.base(parts) + found[1], found[2]
    chosen = parse_qs(parts.query).get("selectedIssue", [""])[0]
    if re.fullmatch(_KEY, chosen):
        return urls.base(parts), chosen
    if found := _QUEUE.fullmatch(parts.path):
        return urls.base(parts) + found[1], found[2]
    return None


def _versions(post: Post) -> Iterator[tuple[Level, str]]:
    report, details = post.paper.report, post.paper.details
    link = f"\n[full report|{post.link}]" if post.link else ""
    yield "full", render_wiki(report, details) + link
    yield "without excerpts", render_wiki(report, details, quotes=False) + link
    yield "headline and link", noformat(post.headline().split("\n")[:2]) + link


def _person(item: Any) -> str | None:
    """Return the identifier of a user: an account id on Cloud, a name on a server."""
    found = item.get("accountId") or item.get("key") or item.get("name")
    return None if found is None else str(found)


def _text(body: Body, mark: str) -> str:
    return f"{body.text}\n\n{{color:#8993a4}}{escape(mark)}{{color}}"
