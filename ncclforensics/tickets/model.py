"""What a plan is made of: requests without secrets, bodies from full to short, files.

A plan is made without network. Callables in it only rearrange what a service answered,
so a plan and the answers together decide everything that is sent.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ncclforensics.model.errors import ExitCode, NcclForensicsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Level = Literal["full", "without excerpts", "headline and link"]
_MARK = re.compile(r"ncclforensics:([\w.-]+):([0-9a-f]{12})")


class PostingError(NcclForensicsError):
    """A service refused, or could not be reached; says what was posted before."""

    code = ExitCode.POSTING_FAILED


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request; the token is none of it, and goes along where `secret`."""

    method: str
    url: str
    json: Any = None
    params: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] | None = None
    content: bytes | None = None
    file: File | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    secret: bool = True


@dataclass(frozen=True, slots=True)
class File:
    """A file to attach."""

    name: str
    media: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Body:
    """A text to post, and what it leaves out. `blocks` is Slack's form of it."""

    level: Level
    text: str
    left_out: tuple[str, ...] = ()
    blocks: Any = None


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment that is there: its id, its text, its author, and where to see it."""

    id: str
    text: str
    author: str | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Auth:
    """How a service takes its token, and where tokens come from (see `tokens`).

    `scheme` is Bearer, Basic, either of them (Basic where a user is known), or another
    word before it. `variables` are tried in order; `command` asks the usual tool.
    """

    scheme: str
    variables: tuple[str, ...]
    header: str = "Authorization"
    user: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    netrc: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is to be posted to one ticket, decided before anything is sent.

    `bodies` go from full to short; the first is what fits the service's `limit`, the
    others stand ready where the service refuses it as too long. `pages` lists what is
    there: a first request, and from each answer the comments and the next request.
    `revise` is None where the service keeps comments for good.
    """

    service: str
    where: str
    url: str
    auth: Auth
    key: str
    limit: int
    bodies: tuple[Body, ...]
    create: Callable[[Body, str], Request]
    made: Callable[[Any], Comment]
    revise: Callable[[Comment, Body, str], Request] | None = None
    resolve: tuple[Request, Callable[[Any], str]] | None = None
    me: tuple[Request, Callable[[Any], str | None]] | None = None
    first_page: Request | None = None
    comments: Callable[[Any], Iterable[Comment]] | None = None
    next_page: Callable[[Any, Mapping[str, str]], Request | None] | None = None
    files: tuple[File, ...] = ()
    no_files: str = ""
    attached: tuple[Request, Callable[[Any], Mapping[str, str]]] | None = None
    upload: Callable[[File], Request] | None = None
    uploaded: Callable[[Any], str] | None = None
    mention: Callable[[Mapping[str, str]], str] | None = None
    after: Callable[[File, Comment], Iterable[Callable[[Any], Request]]] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    failed: Callable[[Any], str | None] = lambda _: None


def mark(key: str, text: str) -> str:
    """Return the words by which a posted text, and any change of it, is known."""
    return f"ncclforensics:{key}:{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def marked(text: str, key: str) -> str | None:
    """Return the hash in the mark of `key` at the start or the end of a posted text."""
    lines = [line for line in text.splitlines() if line.strip()]
    for line in (*lines[:1], *lines[-1:]):
        if (found := _MARK.search(line)) and found[1] == key:
            return found[2]
    return None


def size(body: Body) -> int:
    """Count the characters of a body, in Slack's form those of all its blocks."""
    if body.blocks is None:
        return length(body.text)
    return sum(length(text) for text in _strings(body.blocks))


def _strings(blocks: Any) -> Iterable[str]:
    if isinstance(blocks, dict):
        for key, value in blocks.items():
            if key != "type":
                yield from _strings(value)
    elif isinstance(blocks, list):
        for item in blocks:
            yield from _strings(item)
    elif isinstance(blocks, str):
        yield blocks


def length(text: str) -> int:
    """Count characters as services do at their strictest: in units of UTF-16."""
    return len(text.encode("utf-16-le", "replace")) // 2
