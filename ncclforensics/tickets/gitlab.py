"""Issues and merge requests of GitLab: notes, and files uploaded to the project.

The response to an upload is the Markdown that links it, which works only within the
same project. A line of a note that starts with a slash is a GitLab quick action.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ncclforensics.tickets import github, urls
from ncclforensics.tickets.model import Auth, Comment, Plan, Request
from ncclforensics.tickets.post import fitting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ncclforensics.tickets.model import Body, Level
    from ncclforensics.tickets.post import Post

LIMIT = 1_000_000
_KINDS = {"work_items": "issues"}
_PATH = re.compile(r"/(.+?)/-/(issues|work_items|merge_requests)/([1-9]\d*)(?:/.*)?")
_SHORT = re.compile(r"(?:gitlab:)([\w./-]+)([#!])([1-9]\d*)|([\w./-]+/[\w.-]+)(!)(\d+)")
_COMMAND = re.compile(r"^([ \t]*)/", re.MULTILINE)
_FENCED = re.compile(r"(^`{3,}.*?^`{3,}$)", re.MULTILINE | re.DOTALL)


def plan(ticket: str, post: Post, env: Mapping[str, str]) -> Plan | None:
    """Return the plan for a ticket of GitLab, None if it is not one."""
    parts = urls.split(ticket)
    if parts:
        found = _PATH.fullmatch(parts.path)
        if found is None:
            return None
        site, (project, kind, number) = urls.base(parts), found.groups()
        kind = _KINDS.get(kind, kind)
    else:
        found = _SHORT.fullmatch(ticket)
        if found is None:
            return None
        host = env.get("GITLAB_HOST", "gitlab.com")
        site = host if "://" in host else f"https://{host}"
        urls.split(site)
        project, sign, number = (part for part in found.groups() if part)
        kind = "issues" if sign == "#" else "merge_requests"
    api = f"{site}/api/v4"
    here = f"{api}/projects/{urls.segment(project)}"
    notes = f"{here}/{kind}/{number}/notes"
    sign = "#" if kind == "issues" else "!"
    page = f"{site}/{project}/-/{kind}/{number}"

    def note(item: Any) -> Comment:
        author = (item.get("author") or {}).get("username")
        url = f"{page}#note_{item['id']}"
        return Comment(str(item["id"]), item["body"], author, url)

    order = {"per_page": "100", "sort": "desc", "activity_filter": "only_comments"}
    return Plan(
        service="GitLab",
        where=f"{project}{sign}{number}",
        url=ticket if parts else page,
        auth=Auth(
            "Bearer",
            ("GITLAB_TOKEN", "GITLAB_ACCESS_TOKEN"),
            command=("glab", "config", "get", "token", "--host", _host(site)),
        ),
        key=post.key,
        limit=LIMIT,
        bodies=fitting(_versions(post), LIMIT, room=2000),
        me=(Request("GET", f"{api}/user"), lambda answer: answer.get("username")),
        first_page=Request("GET", notes, params=order),
        comments=lambda answer: map(note, answer),
        next_page=github.next_link,
        create=lambda body, mark: Request("POST", notes, {"body": _text(body, mark)}),
        revise=lambda comment, body, mark: Request(
            "PUT", f"{notes}/{comment.id}", {"body": _text(body, mark)}
        ),
        made=note,
        files=post.files(),
        upload=lambda file: Request("POST", f"{here}/uploads", file=file),
        uploaded=lambda answer: str(answer["markdown"]),
        mention=lambda refs: "Files: " + " · ".join(refs.values()),
    )


def _versions(post: Post) -> Iterator[tuple[Level, str]]:
    """Yield the Markdown, with lines that look like quick actions escaped."""
    for level, text in github.versions(post):
        parts = _FENCED.split(text)
        yield (
            level,
            "".join(
                part if i % 2 else _COMMAND.sub(r"\1\\/", part)
                for i, part in enumerate(parts)
            ),
        )


def _host(site: str) -> str:
    return site.partition("://")[2]


def _text(body: Body, mark: str) -> str:
    return f"<!-- {mark} -->\n{body.text}"
