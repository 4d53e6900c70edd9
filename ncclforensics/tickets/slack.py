"""Channels and threads of Slack: a message of blocks, and files in its thread.

The metadata of a message holds the mark. Slack responds to everything with 200; `ok` in
the response says whether it succeeded. A section holds 3,000 characters; its text is
escaped, so that nothing in a log becomes a mention, a link or markup. A file takes
three requests: get an upload URL, send the bytes there without the token, share.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from ncclforensics.report.opening_lines import opening
from ncclforensics.report.phrases import (
    also,
    call,
    clue,
    job,
    last_words,
    perhaps,
    sureness,
    who,
)
from ncclforensics.report.suspect_phrases import comes_first
from ncclforensics.tickets import urls
from ncclforensics.tickets.model import Auth, Body, Comment, File, Plan, Request
from ncclforensics.tickets.post import ALL, EXCERPTS, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ncclforensics.tickets.post import Post

LIMIT = 3_000  # characters of one section
TOTAL = 12_000  # characters of all blocks; ours add up to less
SUSPECTS = 1_500  # characters of the list of suspects
CITES = 12
EVENT = "ncclforensics_report"
_PATH = re.compile(r"/archives/([A-Z][A-Z0-9]{5,})(?:/p(\d{10})(\d{6}))?/?")
_CLIENT = re.compile(r"/client/[A-Z0-9]+/([A-Z][A-Z0-9]{5,})(?:/.*)?")
_SHORT = re.compile(r"slack:([A-Z][A-Z0-9]{5,})(?:[:/](\d{10})\.(\d{6}))?")


def plan(ticket: str, post: Post, env: Mapping[str, str]) -> Plan | None:
    """Return the plan for a channel or thread of Slack, None if it is not one."""
    parts = urls.split(ticket)
    path = parts.path if parts else ticket
    found = (
        (_PATH.fullmatch(path) or _CLIENT.fullmatch(path))
        if parts
        else _SHORT.fullmatch(path)
    )
    if found is None:
        return None
    channel, *stamp = (*found.groups(), None, None)[:3]
    thread = ".".join(part for part in stamp if part) or None
    asked = parse_qs(parts.query).get("thread_ts", []) if parts else []
    if asked and re.fullmatch(r"\d{10}\.\d{6}", asked[0]):
        thread = asked[0]
    api = env.get("SLACK_API_URL", "https://slack.com/api").rstrip("/")
    urls.split(api)
    where = {"channel": channel, **({"thread_ts": thread} if thread else {})}
    seen = {"limit": "200", "include_all_metadata": "true", "channel": str(channel)}
    listing = "conversations.replies" if thread else "conversations.history"
    if thread:
        seen["ts"] = thread

    def message(body: Body, mark: str) -> dict[str, Any]:
        told = {"event_type": EVENT, "event_payload": {"mark": mark}}
        return {"text": body.text, "blocks": body.blocks, "metadata": told}

    def following(answer: Any, _: Mapping[str, str]) -> Request | None:
        cursor = (answer.get("response_metadata") or {}).get("next_cursor")
        if not cursor:
            return None
        return Request("GET", f"{api}/{listing}", params={**seen, "cursor": cursor})

    def after(file: File, posted: Comment) -> Iterator[Callable[[Any], Request]]:
        """Yield the three requests that add a file to the thread of a message."""
        form = {"filename": file.name, "length": str(len(file.data))}
        kept: dict[str, str] = {}

        def send(answer: Any) -> Request:
            kept["id"] = answer["file_id"]
            address = answer["upload_url"]
            urls.split(address)
            return Request("POST", address, content=file.data, secret=False)

        def share(_: Any) -> Request:
            told = {
                "files": json.dumps([{"id": kept["id"], "title": file.name}]),
                "channel_id": str(channel),
                "thread_ts": thread or posted.id,
            }
            return Request("POST", f"{api}/files.completeUploadExternal", form=told)

        address = f"{api}/files.getUploadURLExternal"
        yield lambda _: Request("POST", address, form=form)
        yield send
        yield share

    return Plan(
        service="Slack",
        where=f"channel {channel}" + (f", thread {thread}" if thread else ""),
        url=ticket,
        auth=Auth("Bearer", ("SLACK_BOT_TOKEN", "SLACK_TOKEN")),
        key=post.key,
        limit=TOTAL,
        bodies=_bodies(post),
        me=(Request("POST", f"{api}/auth.test"), lambda answer: answer.get("user_id")),
        first_page=Request("GET", f"{api}/{listing}", params=seen),
        comments=lambda answer: map(_message, answer["messages"]),
        next_page=following,
        create=lambda body, mark: Request(
            "POST",
            f"{api}/chat.postMessage",
            {
                **where,
                **message(body, mark),
                "unfurl_links": False,
                "unfurl_media": False,
            },
        ),
        revise=lambda old, body, mark: Request(
            "POST",
            f"{api}/chat.update",
            {"channel": channel, "ts": old.id, **message(body, mark)},
        ),
        made=lambda answer: Comment(str(answer["ts"]), ""),
        files=post.files(),
        after=after,
        failed=_failed,
    )


def _message(item: Any) -> Comment:
    """Return a message as Comment; its text is the mark in its metadata, or ""."""
    told = item.get("metadata") or {}
    own = told.get("event_type") == EVENT
    mark = (told.get("event_payload") or {}).get("mark", "") if own else ""
    return Comment(str(item["ts"]), str(mark), item.get("user"))


def _failed(answer: Any) -> str | None:
    """Return Slack's error code, None on success."""
    if not isinstance(answer, dict) or answer.get("ok", True):
        return None
    needed = f" (needs {answer['needed']})" if answer.get("needed") else ""
    return f"{answer.get('error', 'unknown error')}{needed}"


def _bodies(post: Post) -> tuple[Body, ...]:
    """Return the message with citations, without them, and as two lines."""
    report = post.paper.report
    verdict = report.verdict
    first, second = opening(report)
    plain = f"{' '.join(first.split())}\n{second}"
    link = [_section(f"<{_escaped(post.link)}|full report>")] if post.link else []
    head = [_section(f"*{_escaped(' '.join(first.split()))}*\n{_escaped(second)}")]
    small = [{"type": "context", "elements": [_mrkdwn(_escaped(_made(post)))]}]
    last = Body("headline and link", plain, (ALL,), [*head, *link])
    listed = [_escaped(text) for text in post.suspects()]
    suspects = [_section(shortened("\n".join(listed), SUSPECTS))] if listed else []
    known = [_escaped(f"{label}: {text}") for label, text in clue(report)]
    suspects += [_section("\n".join(known))] if known else []
    if verdict is None:
        return Body("full", plain, (), [*head, *suspects, *link, *small]), last
    named = who(verdict.culprits, 150) or "no rank accused"
    claim = f"{perhaps(verdict)}{verdict.slug}: {named}"
    if report.clue is not None and report.clue.text:
        claim = " ".join(first.split())
    title = {"type": "plain_text", "text": shortened(claim, 150)}
    blocks: list[Any] = [{"type": "header", "text": title}]
    blocks += suspects if comes_first(report) else []
    told = [verdict.headline, *also(report), verdict.explanation, *report.earlier]
    if verdict.collective is not None:
        told.append(call(verdict.collective))
    told.append(sureness(verdict, report))
    blocks.append(_section("\n".join(map(_escaped, told))))
    if verdict.remedy:
        blocks.append(_code(verdict.remedy))
    blocks += [] if comes_first(report) else suspects
    cites = [f"{c.place}  {c.text}" for c in verdict.evidence[:CITES]]
    if len(verdict.evidence) > CITES:
        cites.append(f"… {len(verdict.evidence) - CITES:,} more in the attached report")
    own = last_words(report, post.paper.details)
    quoted = [_code(["its last line:", *own])] if own else []
    quoted += [_code(cites)] if cites else []
    return (
        Body("full", plain, (), [*blocks, *quoted, *link, *small]),
        Body("without excerpts", plain, (EXCERPTS,), [*blocks, *link, *small]),
        last,
    )


def _made(post: Post) -> str:
    report = post.paper.report
    return f"{job(report.job)} · {report.tool.name} {report.tool.version}"


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": _mrkdwn(text)}


def _mrkdwn(text: str) -> dict[str, Any]:
    # verbatim: no channel, user or URL in it becomes a link
    return {"type": "mrkdwn", "text": shortened(text, LIMIT), "verbatim": True}


def _code(lines: tuple[str, ...] | list[str]) -> dict[str, Any]:
    """Return lines as a preformatted block, in which nothing is markup."""
    text = {"type": "text", "text": shortened("\n".join(lines), LIMIT)}
    inner = {"type": "rich_text_preformatted", "elements": [text]}
    return {"type": "rich_text", "elements": [inner]}


def _escaped(text: str) -> str:
    """Escape the three special characters of Slack's markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
