"""The only module that makes HTTP requests: authentication, retries, hidden tokens.

A request that was certainly not carried out (429, 503, no connection) is retried, after
Retry-After if given. After any other failure it may have been carried out, so only
reads are retried; retrying a post is left to `send`, which checks first.
"""

from __future__ import annotations

import email.utils
import time
from typing import TYPE_CHECKING, Any

import httpx2

from ncclforensics import __version__
from ncclforensics.report.sanitize import line
from ncclforensics.tickets.model import PostingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ncclforensics.tickets.model import Plan, Request
    from ncclforensics.tickets.tokens import Secret

TRIES = 4
LONGEST = 120.0  # the longest Retry-After that is obeyed, in seconds
TIMEOUT = 30.0
NOT_DONE = frozenset({429, 503})
PASSING = frozenset({500, 502, 503, 504})
TOO_LONG = frozenset({400, 413, 422})
MEANS = {
    301: "moved: use the new address",
    302: "moved, or a sign-in page: use the new address",
    401: "the token is not accepted",
    403: "the token has no permission for this",
    404: "not found, or the token has no access to it",
    410: "gone",
    413: "too large",
    422: "rejected as invalid",
    429: "too many requests",
}
PAGE = (
    "the answer is a web page, not JSON, probably to sign in: check the address and "
    "the token"
)


class RefusedError(PostingError):
    """A request failed; `status` is the HTTP status, 0 if there was no response.

    `unsure` means that the request may have been carried out nevertheless.
    """

    def __init__(
        self, text: str, status: int, *, unsure: bool = False, wait: float | None = None
    ) -> None:
        """Keep what decides about a retry; `wait` is Retry-After in seconds, if any."""
        super().__init__(text)
        self.status = status
        self.unsure = unsure
        self.wait = wait


class Http:
    """A connection to one service, with its token."""

    def __init__(
        self, plan: Plan, secret: Secret, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Prepare a client without connecting; `sleep` takes seconds."""
        self._plan = plan
        self._secret = secret
        self._sleep = sleep
        agent = f"ncclforensics/{__version__}"
        self._client = httpx2.Client(
            timeout=TIMEOUT,
            follow_redirects=False,  # so that no token is sent to another host
            headers={"User-Agent": agent, **plan.headers},
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def send(self, request: Request) -> tuple[Any, dict[str, str]]:
        """Return the response's JSON (None if it is not JSON) and lowercase headers.

        Raises RefusedError on anything but success, after retries.
        """
        wait = 1.0
        for last in (*[False] * (TRIES - 1), True):
            try:
                return self._once(request)
            except RefusedError as caught:
                reads = request.method == "GET"
                again = not caught.unsure or reads
                asked = caught.wait
                passing = caught.status in NOT_DONE | PASSING or caught.status == 0
                if last or not again or not (passing or asked is not None):
                    raise
                if asked is not None and asked > LONGEST:
                    raise
            self._sleep(wait if asked is None else asked)
            wait *= 2
        raise AssertionError("the last try returns or raises")

    def _once(self, request: Request) -> tuple[Any, dict[str, str]]:
        """Send a request once, without retries."""
        headers = dict(request.headers)
        if request.secret:
            headers[self._secret.header] = self._secret.value
        files = None
        if request.file is not None:
            file = request.file
            files = {"file": (file.name, file.data, file.media)}
        try:
            response = self._client.request(
                request.method,
                request.url,
                params=dict(request.params) or None,
                json=request.json,
                data=None if request.form is None else dict(request.form),
                content=request.content,
                files=files,
                headers=headers,
            )
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as caught:
            raise RefusedError(self._say(request, str(caught)), 0) from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as caught:
            told = str(caught) or type(caught).__name__
            raise RefusedError(self._say(request, told), 0, unsure=True) from None
        return self._answer(request, response)

    def _answer(
        self, request: Request, response: httpx2.Response
    ) -> tuple[Any, dict[str, str]]:
        """Return a successful response; raise RefusedError with its message if not."""
        try:
            answer = response.json()
        except ValueError:
            answer = None
        headers = {name.lower(): value for name, value in response.headers.items()}
        status = response.status_code
        said = self._plan.failed(answer) if request.secret else None
        if request.secret and 200 <= status < 300 and _is_page(response):
            said = PAGE
        if 200 <= status < 300 and said is None:
            return answer, headers
        if 200 <= status < 300:
            raise RefusedError(self._say(request, said or ""), status)
        means = MEANS.get(status, "the service failed" if status >= 500 else "")
        told = [f"{status} {means}".strip(), said or _message(answer)]
        raise RefusedError(
            self._say(request, ": ".join(part for part in told if part)),
            status,
            unsure=status in PASSING - NOT_DONE,
            wait=_wait(headers) if status in NOT_DONE | {403} else None,
        )

    def _say(self, request: Request, told: str) -> str:
        """Return one line that describes a failure, without the token."""
        where = f"{request.method} {request.url.partition('?')[0]}"
        return self._secret.hide(f"{self._plan.service}: {line(told, 400)} ({where})")


def _is_page(response: httpx2.Response) -> bool:
    """Whether a service answered with a web page: to sign in, or a proxy's."""
    return "html" in response.headers.get("content-type", "").lower()


def _wait(headers: dict[str, str]) -> float | None:
    """Return the seconds to wait: Retry-After as a number or a date, else None.

    GitHub may instead send x-ratelimit-reset, in seconds since 1970.
    """
    asked = headers.get("retry-after")
    if asked is None:
        lifted = headers.get("x-ratelimit-reset", "")
        if headers.get("x-ratelimit-remaining") != "0" or not lifted.isdigit():
            return None
        return max(float(lifted) - time.time(), 0.0)
    if asked.strip().isdigit():
        return float(asked)
    try:
        date = email.utils.parsedate_to_datetime(asked)
    except ValueError:
        return None
    return max(date.timestamp() - time.time(), 0.0)


def _message(answer: Any) -> str:
    """Return the message of an error, from whichever field has it."""
    if not isinstance(answer, dict):
        return ""
    found: list[str] = []
    for key in ("message", "error", "errorMessages", "errors", "detail"):
        _gather(answer.get(key), found)
    return "; ".join(dict.fromkeys(found))


def _gather(value: Any, found: list[str]) -> None:
    if isinstance(value, str):
        found.append(value)
    elif isinstance(value, list):
        for item in value:
            _gather(item, found)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in ("resource", "code", "status", "documentation_url"):
                _gather(item, found)
