"""Carries out a plan: finds its own comment, uploads files, then posts or edits.

A comment is written by one request, so it is never partial. Files are uploaded first if
the text links them; a refused file is left out, with a warning. After a failure that
may have posted nevertheless, the ticket is read again before a retry.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ncclforensics.tickets.http import TOO_LONG, Http, RefusedError
from ncclforensics.tickets.model import PostingError, mark, marked
from ncclforensics.tickets.servicenow import RECORD
from ncclforensics.tickets.tokens import secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ncclforensics.tickets.model import Body, Comment, File, Plan, Request

PAGES = 50  # pages of comments that are searched
TRIES = 3  # for a post whose outcome is unknown


@dataclass(slots=True)
class Sent:
    """What was done, in words; `url` is the address of the result."""

    done: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    url: str | None = None


def send(
    plan: Plan,
    env: Mapping[str, str],
    sleep: Callable[[float], None] | None = None,
) -> Sent:
    """Post as planned; raises PostingError, which says what was posted before."""
    asked = plan.first_page or plan.create(plan.bodies[0], "")
    signed = secret(plan, urlsplit(asked.url).hostname or "", env)
    http = Http(plan, signed, sleep) if sleep else Http(plan, signed)
    sent = Sent(url=plan.url)
    try:
        _send(_Ticket(plan, http, sent))
    except PostingError as caught:
        raise PostingError(f"{caught}; {_before(sent)}") from None
    except (AttributeError, LookupError, TypeError, ValueError) as caught:
        told = f"{plan.service} sent an unexpected answer ({caught!r})"
        raise PostingError(f"{signed.hide(told)}; {_before(sent)}") from None
    finally:
        http.close()
    return sent


def _before(sent: Sent) -> str:
    if not sent.done:
        return "nothing was posted"
    return f"before that: {', '.join(sent.done)}"


@dataclass(slots=True)
class _Ticket:
    """A plan being carried out; `record` is the record id that was looked up."""

    plan: Plan
    http: Http
    sent: Sent
    record: str = ""

    def ask(self, request: Request) -> object:
        """Send a request with `record` filled in; returns its JSON."""
        return self.page(request)[0]

    def page(self, request: Request) -> tuple[object, Mapping[str, str]]:
        """Send a request with `record` filled in; returns its JSON and headers."""
        if self.record:
            params = {
                k: v.replace(RECORD, self.record) for k, v in request.params.items()
            }
            url = request.url.replace(RECORD, self.record)
            request = replace(request, url=url, params=params)
        return self.http.send(request)


def _send(ticket: _Ticket) -> None:
    plan, sent = ticket.plan, ticket.sent
    if plan.resolve is not None:
        request, chosen = plan.resolve
        ticket.record = chosen(ticket.ask(request))
    me = _me(ticket)
    # a shorter version has the mark of the full one, as it is the same report
    own = mark(plan.key, _told(plan.bodies[0]))
    there = list(_marked(ticket, me))
    if same := [c for c in there if _bears(c, own)]:
        sent.done.append("the same report is already there, unchanged")
        sent.url = same[-1].url or sent.url
        return
    found = max(there, key=lambda c: (len(c.id), c.id), default=None)
    refs = _upload(ticket)
    names = plan.mention(refs) if plan.mention and refs else ""
    for i, body in enumerate(plan.bodies):
        whole = replace(body, text=f"{body.text}\n\n{names}" if names else body.text)
        try:
            posted = _write(ticket, whole, own, found, me)
        except RefusedError as caught:
            if caught.status not in TOO_LONG or i + 1 == len(plan.bodies):
                raise
            shorter = plan.bodies[i + 1].level
            sent.warnings.append(f"{caught}; posting {shorter} instead")
            continue
        sent.url = posted.url or sent.url
        verb = "updated" if found and plan.revise else "posted"
        sent.done.append(f"{verb} the report ({body.level})")
        _share(ticket, posted)
        return


def _told(body: Body) -> str:
    """Return the visible text of a body."""
    return body.text if body.blocks is None else repr(body.blocks)


def _me(ticket: _Ticket) -> str | None:
    """Return the posting user; None if the service does not say (an app token)."""
    if ticket.plan.me is None:
        return None
    request, name = ticket.plan.me
    try:
        return name(ticket.ask(request))
    except RefusedError as caught:
        if caught.status in (403, 404):
            return None
        raise


def _bears(comment: Comment, own: str) -> bool:
    """Whether a comment has exactly the mark `own`."""
    _, key, digest = own.split(":")
    return marked(comment.text, key) == digest


def _marked(ticket: _Ticket, me: str | None) -> Iterator[Comment]:
    """Yield our own comments that have the mark of the plan's key."""
    plan = ticket.plan
    request = plan.first_page
    for _ in range(PAGES):
        if request is None or plan.comments is None:
            return
        answer, headers = ticket.page(request)
        for comment in plan.comments(answer):
            ours = me is None or comment.author in (None, me)
            if ours and marked(comment.text, plan.key):
                yield comment
        request = plan.next_page(answer, headers) if plan.next_page else None
    ticket.sent.warnings.append("too many comments: not all were searched")


def _upload(ticket: _Ticket) -> dict[str, str]:
    """Upload the files that are not there yet; returns the link of each, by name."""
    plan = ticket.plan
    if plan.upload is None or plan.uploaded is None or not plan.files:
        return {}
    there: Mapping[str, str] = {}
    if plan.attached is not None:
        request, names = plan.attached
        there = names(ticket.ask(request))
    refs: dict[str, str] = {}
    for file in plan.files:
        if file.name in there:
            refs[file.name] = there[file.name]
            continue
        try:
            refs[file.name] = plan.uploaded(ticket.ask(plan.upload(file)))
        except RefusedError as caught:
            if not _left_out(ticket, file, caught):
                raise
        else:
            ticket.sent.done.append(f"uploaded {file.name}")
    return refs


def _left_out(ticket: _Ticket, file: File, caught: RefusedError) -> bool:
    """Record that a file was refused; returns whether to post without it."""
    refused = caught.status in (400, 403, 404, 413, 415, 422)
    if refused:
        ticket.sent.warnings.append(f"{file.name} is left out: {caught}")
    return refused


def _write(
    ticket: _Ticket, body: Body, own: str, found: Comment | None, me: str | None
) -> Comment:
    """Post or edit the comment; reads the ticket again before a retry."""
    plan = ticket.plan
    for last in (*[False] * (TRIES - 1), True):
        try:
            if found is not None and plan.revise is not None:
                return plan.made(ticket.ask(plan.revise(found, body, own)))
            return plan.made(ticket.ask(plan.create(body, own)))
        except RefusedError as caught:
            if not caught.unsure:
                raise
            for comment in _marked(ticket, me):
                if _bears(comment, own):
                    return comment
            if last:
                raise
    raise AssertionError("the last try returns or raises")


def _share(ticket: _Ticket, posted: Comment) -> None:
    """Add the files after the comment, for services that require that order."""
    plan = ticket.plan
    for file in plan.files if plan.after else ():
        answer: object = None
        try:
            for step in plan.after(file, posted) if plan.after else ():
                answer = ticket.ask(step(answer))
        except RefusedError as caught:
            ticket.sent.warnings.append(f"{file.name} is left out: {caught}")
        else:
            ticket.sent.done.append(f"uploaded {file.name}")
