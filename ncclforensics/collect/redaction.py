"""Pseudonyms for hosts, addresses, users and folders in what is collected.

A pseudonym is a keyed hash: all nodes that are given the same key use the same one for
the same name, and without the key it cannot be undone by trying all addresses.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

KINDS = ("hosts", "ips", "users", "paths")
_IPV4 = rb"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.]*\d)"
_SIXTH = rb"(?=[0-9a-fA-F:]*::|(?:[0-9a-fA-F]{1,4}:){7})[0-9a-fA-F:]{3,39}"
_IPV6 = rb"(?<![\w:])" + _SIXTH + rb"(?![\w:])"
_ADDRESS = re.compile(_IPV4 + rb"|" + _IPV6)
_LOCAL = re.compile(rb"^(?:127\.|0\.0\.0\.0$|255\.|::1?$)")
_PATH = re.compile(rb"(?<![\w.:/<])(~?/(?:[^\s/:\"'<>|,;()\[\]{}]+/)+)")
_SYSTEM = re.compile(rb"^/(?:dev|proc|sys|usr|lib|etc|bin|sbin)\w*/")
_USER = re.compile(rb"(/home/|/Users/)([\w.-]+)")
USUAL = frozenset(("root", "user", "users", "nobody", "home", "runner", "localhost"))


@dataclass
class Redactor:
    """Replaces names of `kinds` in bytes; `hosts` and `users` are those known."""

    kinds: frozenset[str]
    key: bytes
    hosts: set[str] = field(default_factory=set)
    users: set[str] = field(default_factory=set)

    def name(self, kind: str, value: bytes) -> bytes:
        """Return the pseudonym of one name."""
        digest = hmac.new(self.key, kind.encode() + value, hashlib.sha256)
        return f"{kind}-{digest.hexdigest()[:8]}".encode()

    def folder(self, host: str) -> str:
        """Return a host's name as it may be written."""
        if "hosts" not in self.kinds:
            return host
        return self.name("host", host.encode()).decode()

    def text(self, data: bytes) -> bytes:
        """Return `data` with pseudonyms for the names of `kinds`."""
        if "ips" in self.kinds:
            data = _ADDRESS.sub(self._address, data)
        if "hosts" in self.kinds and (known := _shapes(self.hosts)):
            data = known.sub(lambda m: self.name("host", m[0]), data)
        if "users" in self.kinds:
            data = _USER.sub(lambda m: m[1] + self.name("user", m[2]), data)
            if known := _words(self.users):
                data = known.sub(lambda m: self.name("user", m[0]), data)
        if "paths" in self.kinds:
            data = _PATH.sub(self._path, data)
        return data

    @property
    def leaves_out_dumps(self) -> bool:
        """Whether dumps are left out: paths stand in them, and they stay whole."""
        return bool({"users", "paths"} & self.kinds)

    def _address(self, match: re.Match[bytes]) -> bytes:
        return match[0] if _LOCAL.match(match[0]) else self.name("ip", match[0])

    def _path(self, match: re.Match[bytes]) -> bytes:
        if _SYSTEM.match(match[1]):
            return match[1]
        return b"/" + self.name("dir", match[1]) + b"/"


def _words(names: Iterable[str]) -> re.Pattern[bytes] | None:
    known = sorted({n for n in names if len(n) > 2 and n not in USUAL}, key=len)
    if not known:
        return None
    joined = "|".join(re.escape(name) for name in reversed(known))
    return re.compile(rf"(?<![\w-])(?:{joined})(?![\w-])".encode())


def _shapes(hosts: Iterable[str]) -> re.Pattern[bytes] | None:
    """Return a pattern of `hosts` and of names that differ in their numbers alone."""
    known = sorted({h for h in hosts if len(h) > 2 and h not in USUAL}, key=len)
    if not known:
        return None
    shapes = [re.sub(r"\d+", r"\\d+", re.escape(name)) for name in reversed(known)]
    joined = "|".join(dict.fromkeys(shapes))
    return re.compile(rf"(?<![\w-])(?:{joined})(?![\w-])".encode())
