"""A server on the loopback that a test gives its manners: routes, state and failures.

It listens on a real socket and keeps every request. A failure answers the next request
that it matches; `late` carries the request out before it answers so, as a proxy does
that loses the answer.
"""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


@dataclass
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def form(self):
        return {k: v[0] for k, v in parse_qs(self.body.decode()).items()}

    @property
    def part(self):
        """Name, media type and bytes of the only file of a multipart body."""
        boundary = self.headers["content-type"].partition("boundary=")[2].encode()
        head, _, data = self.body.partition(b"\r\n\r\n")
        name = re.search(rb'name="file"; filename="([^"]+)"', head)[1].decode()
        media = re.search(rb"Content-Type: (\S+)", head)[1].decode()
        return name, media, data.rpartition(b"\r\n--" + boundary)[0]


@dataclass
class Failure:
    method: str
    path: str
    status: int
    answer: object = None
    headers: dict[str, str] = field(default_factory=dict)
    late: bool = False
    times: int = 1


class Service:
    """A service's manners: subclasses define `routes`, of (method, pattern, method)."""

    token = "s3cret-t0ken"
    variables: tuple = ()  # that hold the token
    routes: tuple = ()

    def __init__(self):
        self.asked: list[Asked] = []
        self.failures: list[Failure] = []
        self.url = ""

    def fail(self, method, path, status, answer=None, headers=None, **more):
        self.failures.append(
            Failure(method, path, status, answer, headers or {}, **more)
        )

    @property
    def environment(self):
        """What the environment has to hold."""
        return dict.fromkeys(self.variables, self.token)

    def sent(self, method, path=""):
        """The requests of a method whose path matches."""
        return [a for a in self.asked if a.method == method and re.search(path, a.path)]

    def signed(self, asked):
        return asked.headers.get("authorization") == f"Bearer {self.token}"

    def unsigned(self):
        return 401, {"message": "Bad credentials"}

    def answer(self, asked):
        self.asked.append(asked)
        for failure in self.failures:
            if failure.method == asked.method and re.search(failure.path, asked.path):
                failure.times -= 1
                if not failure.times:
                    self.failures.remove(failure)
                if failure.late:
                    self._route(asked)
                return failure.status, failure.answer, failure.headers
        return (*self._route(asked), {})[:3]

    def _route(self, asked):
        for method, pattern, handler in self.routes:
            found = re.fullmatch(pattern, asked.path)
            if method == asked.method and found:
                if getattr(handler, "open", False) or self.signed(asked):
                    return handler(self, asked, *found.groups())
                return self.unsigned()
        return 404, {"message": "Not Found"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _serve(self):
        size = int(self.headers.get("Content-Length") or 0)
        parts = urlsplit(self.path)
        query = {k: v[0] for k, v in parse_qs(parts.query).items()}
        headers = {k.lower(): v for k, v in self.headers.items()}
        asked = Asked(self.command, parts.path, query, headers, self.rfile.read(size))
        status, answer, more = self.server.service.answer(asked)
        if status == 0:  # hang up
            self.close_connection = True
            self.connection.close()
            return
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **more}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = do_PUT = _serve  # noqa: N815

    def log_message(self, *args):
        """Say nothing."""


def serve(service):
    """Start serving; returns the function that stops it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.service = service
    service.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()

    def stop():
        server.shutdown()
        server.server_close()
        thread.join()

    return stop
