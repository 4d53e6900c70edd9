"""Serves pages to a browser on this machine, or to one at the end of an SSH tunnel.

It listens on 127.0.0.1 alone and only answers GET. Other users of a login node reach
that address as well, so all pages are below a random path that only the printed URL
has. A web site that rebinds its own name to 127.0.0.1 sends that name as `Host`, and is
refused. Pages load nothing from outside, and their policy forbids scripts.
"""

from __future__ import annotations

import hmac
import secrets
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from ncclforensics.model.errors import UsageError

if TYPE_CHECKING:
    from ncclforensics.servers.pages import Pages

HOST = "127.0.0.1"
NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline';"
    " img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def server(pages: Pages, port: int) -> tuple[ThreadingHTTPServer, str]:
    """Return a server that listens, and its URL; port 0 is any that is free.

    Raises UsageError if the port is in use or not allowed.
    """
    secret = secrets.token_urlsafe(16)

    class Handler(BaseHTTPRequestHandler):
        """Answers from the pages."""

        server_version, sys_version, timeout = "ncclforensics", "", 30

        def do_GET(self) -> None:
            """Answer with a page, or refuse."""
            if not _is_local(self.headers.get("Host", "")):
                self._answer(403, "text/plain", b"not this host\n")
                return
            url = urlsplit(self.path)
            given, slash, path = unquote(url.path).lstrip("/").partition("/")
            ours = hmac.compare_digest(given.encode(), secret.encode())
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            found = pages.page(path, query) if ours and slash else None
            if found is None:
                self._answer(404, "text/plain", b"no such page\n")
            else:
                self._answer(200, *found)

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            for name, value in HEADERS.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing: the terminal shows the URL."""

    try:
        listening = ThreadingHTTPServer((HOST, port), Handler)
    except OSError as caught:
        raise UsageError(f"port {port}: {caught.strerror}") from caught
    return listening, f"http://{HOST}:{listening.server_port}/{secret}/"


def _is_local(host: str) -> bool:
    """Whether a Host header names this machine, with any port: a tunnel has its own."""
    try:
        return urlsplit(f"//{host}").hostname in NAMES
    except ValueError:
        return False
