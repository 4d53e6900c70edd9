"""Finds the service of a ticket, and renders the plan as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ncclforensics.model.errors import UsageError
from ncclforensics.tickets import github, gitlab, jira, pagerduty, servicenow, slack
from ncclforensics.tickets.model import size
from ncclforensics.tickets.post import sized
from ncclforensics.tickets.tokens import told

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ncclforensics.tickets.model import Plan
    from ncclforensics.tickets.post import Post

# GitLab's paths are more specific than GitHub's, so GitLab is tried first
SERVICES: tuple[Callable[[str, Post, Mapping[str, str]], Plan | None], ...] = (
    *(gitlab.plan, slack.plan, servicenow.plan),
    *(pagerduty.plan, jira.plan, github.plan),
)
FORMS = (
    "https://github.com/OWNER/REPO/issues/1 or OWNER/REPO#1",
    "https://gitlab.com/GROUP/PROJECT/-/issues/1 or gitlab:GROUP/PROJECT#1 (or !1)",
    "https://SITE.atlassian.net/browse/KEY-1 or KEY-1",
    "https://SITE.pagerduty.com/incidents/ID or pd:ID",
    "https://SITE.service-now.com/…sys_id=… or INC0012345",
    "https://SITE.slack.com/archives/CHANNEL/pTIME or slack:CHANNEL",
)


def plan(ticket: str, post: Post, env: Mapping[str, str]) -> Plan:
    """Return the plan for a ticket; UsageError if no service recognises its form."""
    for make in SERVICES:
        if (found := make(ticket.strip(), post, env)) is not None:
            return found
    raise UsageError(f"{ticket} is not a ticket; give {'; '.join(FORMS)}")


def as_json(plan: Plan, env: Mapping[str, str], redacted: str) -> dict[str, Any]:
    """Return the plan as JSON for --dry-run; a plan has no secrets."""
    body = plan.bodies[0]
    return {
        "service": plan.service,
        "where": plan.where,
        "url": plan.url,
        "length": size(body),
        "limit": plan.limit,
        "level": body.level,
        "left_out": list(body.left_out),
        "updates": plan.revise is not None,
        "files": [{"name": f.name, "bytes": len(f.data)} for f in plan.files],
        "no_files": plan.no_files or None,
        "token": told(plan.auth, env),
        "redacted": redacted or None,
        "body": body.text if body.blocks is None else body.blocks,
    }


def as_text(plan: Plan, env: Mapping[str, str], redacted: str) -> str:
    """Return the plan as text, followed by the text that would be posted."""
    body = plan.bodies[0]
    again = (
        "its own earlier comment, if there is one"
        if plan.revise
        else "never: notes stay"
    )
    hint = "nothing; --redact hosts,ips,users,paths hides names"
    rows = {
        "would post": f"to {plan.service}, {plan.where} ({plan.url})",
        "comment": f"{size(body):,} of {plan.limit:,} characters, {body.level}",
        "left out": ", ".join(body.left_out) or "nothing",
        "files": sized(plan.files) or f"none: {plan.no_files}",
        "updates": again,
        "token": told(plan.auth, env),
        "redacted": redacted or hint,
    }
    lines = [f"{name:<12}{value}" for name, value in rows.items()]
    quoted = [f"  | {part}".rstrip() for part in body.text.splitlines()]
    return "\n".join([*lines, "", *quoted, "", "Send it with --yes."]) + "\n"
