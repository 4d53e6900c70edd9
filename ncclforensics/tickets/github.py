"""Issues and pull requests of GitHub and GitHub Enterprise: comments, no files.

Pull requests take comments through the issues API. The REST API takes no files; a
comment has at most 65,536 characters.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ncclforensics.report.formats.markdown import render_markdown
from ncclforensics.tickets import urls
from ncclforensics.tickets.model import Auth, Body, Comment, Plan, Request
from ncclforensics.tickets.post import fitting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ncclforensics.tickets.model import Level
    from ncclforensics.tickets.post import Post

NAME = "GitHub"
LIMIT = 65_536
HEADERS = {
    "Accept": "application/vnd.github+json",
    "X-GitHub-Api-Version": "2022-11-28",
}
_SHORT = re.compile(r"(?:github:)?([\w.-]+)/([\w.-]+)#([1-9]\d*)")
_PATH = re.compile(r"/([\w.-]+)/([\w.-]+)/(?:issues|pull)/([1-9]\d*)(?:/.*)?")
_NEXT = re.compile(r'<([^>]+)>;\s*rel="next"')


def plan(ticket: str, post: Post, env: Mapping[str, str]) -> Plan | None:
    """Return the plan for a ticket of GitHub, None if it is not one."""
    parts = urls.split(ticket)
    found = (_PATH.fullmatch(parts.path) if parts else None) or _SHORT.fullmatch(ticket)
    if found is None:
        return None
    owner, repo, number = found.groups()
    site = urls.base(parts) if parts else f"https://{env.get('GH_HOST', 'github.com')}"
    host = site.partition("://")[2]
    own = f"{_api(site)}/repos/{owner}/{repo}/issues"
    public = host == "github.com" or host.endswith(".ghe.com")
    names = ("GH_TOKEN", "GITHUB_TOKEN")
    other = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
    return Plan(
        service=NAME if public else "GitHub Enterprise",
        where=f"{owner}/{repo}#{number}",
        url=ticket if parts else f"{site}/{owner}/{repo}/issues/{number}",
        auth=Auth(
            "Bearer",
            names if public else other,
            command=("gh", "auth", "token", "--hostname", host),
        ),
        key=post.key,
        limit=LIMIT,
        bodies=fitting(versions(post), LIMIT),
        headers=HEADERS,
        me=(Request("GET", f"{_api(site)}/user"), lambda answer: answer.get("login")),
        first_page=Request(
            "GET", f"{own}/{number}/comments", params={"per_page": "100"}
        ),
        comments=_comments,
        next_page=next_link,
        create=lambda body, mark: Request(
            "POST", f"{own}/{number}/comments", {"body": _text(body, mark)}
        ),
        revise=lambda comment, body, mark: Request(
            "PATCH", f"{own}/comments/{comment.id}", {"body": _text(body, mark)}
        ),
        made=_comment,
        no_files="GitHub's API takes no files",
    )


def versions(post: Post) -> Iterator[tuple[Level, str]]:
    """Yield the report as Markdown, from the full version to the headline."""
    report, details = post.paper.report, post.paper.details
    link = f"\n\n[full report]({post.link})" if post.link else ""
    yield "full", render_markdown(report, details).rstrip() + link
    yield "without excerpts", render_markdown(report, quotes=False).rstrip() + link
    first, second = post.headline().split("\n")[:2]
    yield "headline and link", f"```text\n{first}\n{second}\n```{link}"


def next_link(_: Any, headers: Mapping[str, str]) -> Request | None:
    """Return the request for the next page in the Link header, or None."""
    found = _NEXT.search(headers.get("link", ""))
    return Request("GET", found[1]) if found else None


def _api(site: str) -> str:
    scheme, _, host = site.partition("://")
    if host == "github.com":
        return "https://api.github.com"
    if host.endswith(".ghe.com"):
        return f"{scheme}://api.{host}"
    return f"{site}/api/v3"


def _text(body: Body, mark: str) -> str:
    return f"<!-- {mark} -->\n{body.text}"


def _comments(answer: Any) -> Iterator[Comment]:
    yield from map(_comment, answer)


def _comment(item: Any) -> Comment:
    author = (item.get("user") or {}).get("login")
    return Comment(str(item["id"]), item["body"] or "", author, item["html_url"])
