"""Obtains tokens: from the environment, the service's usual tool, or a netrc file.

Never from the command line, where other users of the machine can read them. A `Secret`
is never displayed: it is only written into a header, and removed from all output.
"""

from __future__ import annotations

import base64
import netrc
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from ncclforensics.tickets.model import PostingError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncclforensics.tickets.model import Auth, Plan

HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class Secret:
    """An authentication header, and all encodings of the secret in it."""

    header: str
    value: str = field(repr=False)
    spellings: tuple[str, ...] = field(repr=False)

    def hide(self, text: str) -> str:
        """Return `text` with the secret removed, in case a service echoes it."""
        for spelling in self.spellings:
            text = text.replace(spelling, HIDDEN)
        return text


def told(auth: Auth, env: Mapping[str, str]) -> str:
    """Describe where the token will come from, without obtaining it."""
    found = next((name for name in auth.variables if env.get(name)), None)
    if found:
        return f"from {found}"
    other = [" ".join(auth.command)] if auth.command and _has(auth.command[0]) else []
    other += ["a netrc file"] if auth.netrc else []
    if other:
        return f"{auth.variables[0]} is not set; asks {' or '.join(other)}"
    return f"none: set {auth.variables[0]}"


def secret(plan: Plan, host: str, env: Mapping[str, str]) -> Secret:
    """Return the authentication header; PostingError with what to set if none."""
    auth = plan.auth
    user = next((env[name] for name in auth.user if env.get(name)), None)
    name = next((name for name in auth.variables if env.get(name)), "")
    token = env.get(name)
    if not token and auth.command:
        token = _asked(auth.command)
    if not token and auth.netrc:
        user, token = _netrc(host, env) or (user, None)
    if not token:
        also = f", or log in with {auth.command[0]}" if auth.command else ""
        raise PostingError(
            f"no token for {plan.service}: set {auth.variables[0]}{also}"
        )
    if not token.isascii() or not token.isprintable() or "\n" in token:
        raise PostingError(
            f"the token for {plan.service} is malformed: it holds blanks or non-ASCII "
            f"characters"
        )
    if not user and (auth.scheme == "Basic" or name in auth.password):
        raise PostingError(f"{plan.service} needs {auth.user[0]} as well as the token")
    if auth.scheme.endswith("Basic") and user and name not in auth.bearer:
        both = base64.b64encode(f"{user}:{token}".encode()).decode()
        return _secret(auth.header, f"Basic {both}", token, both)
    scheme = auth.scheme.partition(" or ")[0]
    space = " " if scheme and not scheme.endswith("=") else ""
    return _secret(auth.header, f"{scheme}{space}{token}", token)


def _secret(header: str, value: str, *secrets: str) -> Secret:
    spellings = {s for secret in secrets for s in (secret, quote(secret, safe=""))}
    return Secret(header, value, tuple(sorted(spellings, key=len, reverse=True)))


def _has(program: str) -> bool:
    return shutil.which(program) is not None


def _asked(command: tuple[str, ...]) -> str | None:
    """Ask the usual tool for its token; None if it has none or is not installed."""
    if not _has(command[0]):
        return None
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def _netrc(host: str, env: Mapping[str, str]) -> tuple[str, str] | None:
    """Return user and password of a host from the netrc file, None without them."""
    try:
        found = netrc.netrc(env.get("NETRC") or None).authenticators(host)
    except (OSError, netrc.NetrcParseError):
        return None
    return (found[0], found[2]) if found and found[2] else None
