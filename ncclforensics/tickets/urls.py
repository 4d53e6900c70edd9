"""URL checks shared by all ticket services."""

from __future__ import annotations

import ipaddress
from urllib.parse import SplitResult, quote, urlsplit

from ncclforensics.model.errors import UsageError


def split(ticket: str) -> SplitResult | None:
    """Return the parts of a URL, or None for a short form.

    Raises UsageError on an invalid URL, and on one that is unsafe for a token: plain
    http to another machine, or with a user or password in it.
    """
    if "://" not in ticket:
        return None
    parts = urlsplit(ticket)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise UsageError(f"{ticket} is not the URL of a ticket")
    if parts.username or parts.password:
        raise UsageError("leave user and password out of a ticket's URL")
    if parts.scheme == "http" and not local(parts.hostname):
        raise UsageError(f"{ticket}: a token is sent over https only")
    return parts


def base(parts: SplitResult) -> str:
    """Return scheme, host and port."""
    return f"{parts.scheme}://{parts.netloc}"


def local(host: str) -> bool:
    """Whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def segment(text: str) -> str:
    """Quote a text as one segment of a path."""
    return quote(text, safe="")
