"""Incidents of PagerDuty: notes, which are plain text, short, and cannot be edited.

So a second run posts nothing unless the report changed. An account-level token needs
the e-mail address of the poster, in PAGERDUTY_FROM.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ncclforensics.tickets import urls
from ncclforensics.tickets.model import Auth, Body, Comment, Plan, Request
from ncclforensics.tickets.post import fitting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncclforensics.tickets.post import Post

LIMIT = 2_000
_PATH = re.compile(r"/incidents/([A-Z0-9]+)/?(?:timeline)?")
_SHORT = re.compile(r"(?:pagerduty|pd):([A-Z0-9]+)")


def plan(ticket: str, post: Post, env: Mapping[str, str]) -> Plan | None:
    """Return the plan for an incident of PagerDuty, None if it is not one."""
    parts = urls.split(ticket)
    found = _PATH.fullmatch(parts.path) if parts else _SHORT.fullmatch(ticket)
    if found is None:
        return None
    host = (parts.hostname or "") if parts else ""
    api = (
        "https://api.eu.pagerduty.com"
        if ".eu." in host
        else "https://api.pagerduty.com"
    )
    api = env.get("PAGERDUTY_API_URL", api).rstrip("/")
    urls.split(api)
    notes = f"{api}/incidents/{found[1]}/notes"
    headers = {"Accept": "application/vnd.pagerduty+json;version=2"}
    if sender := env.get("PAGERDUTY_FROM"):
        headers["From"] = sender
    return Plan(
        service="PagerDuty",
        where=f"incident {found[1]}",
        url=ticket if parts else notes,
        auth=Auth("Token token=", ("PAGERDUTY_TOKEN", "PAGERDUTY_API_TOKEN")),
        key=post.key,
        limit=LIMIT,
        bodies=fitting(post.plain(), LIMIT, room=100),
        headers=headers,
        first_page=Request("GET", notes),
        comments=lambda answer: map(_note, answer["notes"]),
        create=lambda body, mark: Request(
            "POST", notes, {"note": {"content": _text(body, mark)}}
        ),
        made=lambda answer: _note(answer["note"]),
        no_files="PagerDuty takes no files",
    )


def _note(item: Any) -> Comment:
    return Comment(str(item["id"]), item["content"])


def _text(body: Body, mark: str) -> str:
    return f"{body.text}\n\n{mark}"
