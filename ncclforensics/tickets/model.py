"""The parts of a plan: requests without secrets, bodies from full to short, files.

A plan is made without network. Its callables only rearrange responses, so a plan and
the responses together determine everything that is sent.
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
    """A service refused or was unreachable; the message says what was posted before."""

    code = ExitCode.POSTING_FAILED


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, without the token, which is added if `secret` is true."""

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
    """A text to post, and what it leaves out. `blocks` is the same for Slack."""

    level: Level
    text: str
    left_out: tuple[str, ...] = ()
    blocks: Any = None


@dataclass(frozen=True, slots=True)
class Comment:
    """An existing comment: id, text, author and URL."""

    id: str
    text: str
    author: str | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Auth:
    """How a service expects its token, and where tokens come from (see `tokens`).

    `scheme` is Bearer, Basic, either of them (Basic if a user is known), or another
    prefix. `variables` are tried in order; those in `bearer` hold a token that is sent
    alone, even where a user is known, those in `password` need one. `command` asks the
    service's usual tool.
    """

    scheme: str
    variables: tuple[str, ...]
    header: str = "Authorization"
    user: tuple[str, ...] = ()
    bearer: tuple[str, ...] = ()
    password: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    netrc: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything to be posted to one ticket, decided before anything is sent.

    `bodies` go from full to short. The first fits the service's `limit`; the others are
    used if the service refuses it as too long. `first_page`, `comments` and `next_page`
    list the existing comments. `revise` is None if the service does not allow editing
    comments.
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
    """Return the mark that identifies a posted text and its version."""
    return f"ncclforensics:{key}:{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def marked(text: str, key: str) -> str | None:
    """Return the hash in the mark of `key`, in the first or last line of a text."""
    lines = [line for line in text.splitlines() if line.strip()]
    for line in (*lines[:1], *lines[-1:]):
        if (found := _MARK.search(line)) and found[1] == key:
            return found[2]
    return None


def size(body: Body) -> int:
    """Return the length of a body; for Slack, of all its blocks."""
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
    """Return the length in UTF-16 code units, the strictest count of any service."""
    return len(text.encode("utf-16-le", "replace")) // 2
