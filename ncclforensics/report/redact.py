"""Replaces confidential names by pseudonyms: hosts, addresses, users, folders.

One redactor serves every output of a run, and it reads the report before anything else,
so a name has the same pseudonym everywhere. Hosts are learned from the columns that
hold hosts. A word that differs from a host only in its numbers is a host too, also in a
folded set (`gpu[0001-0016]`). Folders get a pseudonym, file names stay. System folders
and folders of installed packages stay, because they reveal nothing about the user.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ncclforensics.model.errors import UsageError
from ncclforensics.model.folding import fold_hosts, natural, unfold_ranks
from ncclforensics.model.shell import renamed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncclforensics.report.contract import Report

KINDS = ("hosts", "ips", "users", "paths")
S = TypeVar("S", bound=msgspec.Struct)

# fields that contain only our own words, numbers and hashes
_OURS = (
    "schema_version tool outcome class family domain confidence role references sha256"
    " kind ranks_folded first_seen explained_by part stopped noticed gpu_hours stage op"
    " launcher nccl_version torch_version"
)
OURS = frozenset(_OURS.split())
_FILES = "log txt out err json jsonl csv py pickle pkl gz zst xz bz2 tar tgz zip"
FILES = frozenset(_FILES.split())
_USUAL = "root user users nobody rank home runner shared public"
USUAL = frozenset(_USUAL.split())
LOCAL = frozenset({"localhost", "localhost.localdomain"})
SYSTEM = ("/dev/", "/proc/", "/sys/", "/usr/", "/lib", "/etc/", "/bin/", "/sbin/")

_IPV4 = r"(?<![\d.])(?:::ffff:)?(?:\d{1,3}\.){3}\d{1,3}(?![\d.]*\d)"
_IPV6 = r"(?<![\w:])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?![\w:])"
_ADDRESS = re.compile(rf"{_IPV4}|ip(?:-\d{{1,3}}){{4}}(?!\d)|{_IPV6}")
USER = (
    r"(?:/home/|/Users/|\b(?:USER|LOGNAME|user|User|username)[=:]\s?[\"']?"
    r"|\bUserId=|\buid=\d+\()([A-Za-z_][A-Za-z0-9_.-]*[A-Za-z0-9_])"
)
_USER = re.compile(USER)
AT = r"\b([a-z_][a-z0-9_-]*)@[A-Za-z0-9]"
_AT = re.compile(AT)
_PATH = re.compile(r"(?<![\w.:/<])(~?/(?:[^\s/:\"'<>|,;()\[\]{}]+/)+)")
_PACKAGES = re.compile(r"^(.*?)((?:site|dist)-packages/.*)$")
_FOLDED = re.compile(r"([A-Za-z][\w.-]*)\[([0-9,-]+)(\]|…)([\w.-]*)")
_NUMBER = re.compile(r"[0-9]+")
_LAYOUT = re.compile(
    r"(?:attempt|rank|node|host|group|local|task|worker|restart)?[_-]?\d*"
    r"|logs?|fr|nccl|evidence|dumps?|stdout|stderr"
)


class Redactor:
    """Assigns pseudonyms and remembers them: host1, ip1, user1, dir1."""

    def __init__(self, kinds: Iterable[str]) -> None:
        """Redact `kinds`, a subset of KINDS; without any, nothing is changed."""
        self.kinds = frozenset(kinds)
        self._names: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
        self._hosts: re.Pattern[str] | None = None
        self._users: re.Pattern[str] | None = None
        self._shapes: set[str] = set()

    def learn(self, report: Report) -> None:
        """Assign pseudonyms to the names in a report, in a fixed order."""
        plain = msgspec.to_builtins(report)
        hosts = {*report.job.hosts, *(s.host for s in report.sources if s.host)}
        hosts |= {suspect.host for suspect in report.suspects if suspect.host}
        hosts |= {host for f in report.findings for host in f.culprits.hosts}
        self.learn_hosts(hosts)
        texts = list(_strings(plain))
        self.learn_users(u for t in texts for u in (*_USER.findall(t), *_AT.findall(t)))
        for text in texts:
            self.text(text)

    def learn_hosts(self, hosts: Iterable[str]) -> None:
        """Add hosts to recognise; known ones keep their pseudonyms."""
        for host in sorted({h for h in hosts if h}, key=natural):
            self.host(host)
            short = host.split(".")[0]
            if not _is_address(host) and re.search("[A-Za-z]", short):
                self._shapes.add(_NUMBER.sub("#", short))
        shapes = (
            _NUMBER.pattern.join(re.escape(part) for part in shape.split("#"))
            for shape in sorted(self._shapes - LOCAL, key=lambda s: (-len(s), s))
        )
        either = "|".join(shapes)
        self._hosts = re.compile(
            rf"(?<![A-Za-z0-9])(?:{either})(?:\.[A-Za-z0-9][A-Za-z0-9-]*)*(?![A-Za-z0-9])"
            if either
            else r"(?!)"
        )

    def learn_users(self, users: Iterable[str]) -> None:
        """Add users to recognise wherever they occur as a word."""
        if "users" not in self.kinds:
            return
        for user in sorted(set(users) - USUAL):
            self._name("users", user, "user")
        names = sorted(self._names["users"], key=lambda u: (-len(u), u))
        either = "|".join(map(re.escape, names)) or r"(?!)"
        self._users = re.compile(rf"(?<![A-Za-z0-9])(?:{either})(?![A-Za-z0-9])")

    def text(self, text: str) -> str:
        """Return `text` with names replaced."""
        if "paths" in self.kinds:
            text = _PATH.sub(lambda m: self._folder(m[1]), text)
        if "users" in self.kinds and self._users is not None:
            text = self._users.sub(lambda m: self._names["users"][m[0]], text)
        if "hosts" in self.kinds and self._hosts is not None:
            text = _FOLDED.sub(self._unfold, text)
            text = self._hosts.sub(self._host, text)
        if "ips" in self.kinds:
            text = _ADDRESS.sub(lambda m: self._address(m[0]), text)
        return text

    def host(self, name: str) -> str:
        """Return the pseudonym of a host; an IP address is redacted as an address."""
        if _is_address(name):
            return self._address(name) if "ips" in self.kinds else name
        if "hosts" not in self.kinds or name in LOCAL:
            return name
        return self._name("hosts", name.split(".")[0].lower(), "host")

    def source(self, name: str) -> str:
        """Return a file name within the evidence with its folders renamed."""
        if "paths" in self.kinds:
            *folders, file = name.split("/")
            kept = [part if self._told(part) else None for part in folders]
            pairs = zip(kept, folders, strict=True)
            named = [keep or self._name("paths", part, "dir") for keep, part in pairs]
            name = "/".join([*named, file])
        return self.text(name)

    def _told(self, folder: str) -> bool:
        """Whether a folder's name is part of a known layout, or a host."""
        host = "hosts" in self.kinds and _NUMBER.sub("#", folder) in self._shapes
        return host or _LAYOUT.fullmatch(folder) is not None

    def struct(self, value: S) -> S:
        """Return a report, or its details, with names replaced."""
        if not self.kinds:
            return value
        return msgspec.convert(self._walk(msgspec.to_builtins(value), ""), type(value))

    def _walk(self, value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {k: v if k in OURS else self._walk(v, k) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self._walk(item, key) for item in value]
        if not isinstance(value, str):
            return value
        if key in ("host", "hosts"):
            return self.host(value)
        if key == "remedy":
            return self.text(renamed(value, self.source))
        return self.source(value) if key == "source" else self.text(value)

    def _name(self, kind: str, name: str, word: str) -> str:
        names = self._names[kind]
        return names.setdefault(name, f"{word}{len(names) + 1}")

    def _host(self, match: re.Match[str]) -> str:
        """Replace a host and its domain, but keep a file extension."""
        labels = match[0].split(".")
        end = len(labels)
        while end > 1 and (labels[end - 1] in FILES or labels[end - 1].isdigit()):
            end -= 1
        return ".".join([self.host(".".join(labels[:end])), *labels[end:]])

    def _unfold(self, match: re.Match[str]) -> str:
        """Replace a folded set of hosts by the folded pseudonyms."""
        head, numbers, end, tail = match.groups()
        if _NUMBER.sub("#", f"{head}0{tail}".split(".")[0]) not in self._shapes:
            return match[0]
        hosts = []
        for part in numbers.strip(",-").split(","):
            try:
                run = sorted(unfold_ranks(part))
            except ValueError:
                return "hosts"
            width = len(part.split("-")[0])
            hosts += [self.host(f"{head}{number:0{width}}{tail}") for number in run]
        return fold_hosts(hosts) + ("…" if end == "…" else "")

    def _address(self, text: str) -> str:
        """Replace an IP address; loopback, unspecified and invalid ones stay."""
        plain = text[3:].replace("-", ".") if text.startswith("ip-") else text
        plain = plain.removeprefix("::ffff:") if "." in plain else plain
        if not _is_address(plain):
            return text
        address = ipaddress.ip_address(plain)
        if address.is_loopback or address.is_unspecified:
            return text
        return self._name("ips", str(address), "ip")

    def _folder(self, path: str) -> str:
        """Replace a folder, except for the part below installed packages."""
        if path.startswith(SYSTEM):
            return path
        if inside := _PACKAGES.match(path):
            return f"/{self._name('paths', inside[1], 'dir')}/{inside[2]}"
        return f"/{self._name('paths', path, 'dir')}/"


def kinds(text: str | None) -> frozenset[str]:
    """Parse the value of `--redact`; raises UsageError on all but KINDS and "all"."""
    asked = {part.strip() for part in (text or "").split(",")} - {""}
    if unknown := sorted(asked - {*KINDS, "all"}):
        raise UsageError(f"--redact: no {unknown[0]!r}; it takes {', '.join(KINDS)}")
    return frozenset(KINDS) if "all" in asked else frozenset(asked)


def _strings(value: Any, key: str = "") -> Iterable[str]:
    """Yield the strings of a report, in order, except for fields in OURS."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name not in OURS:
                yield from _strings(item, name)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item, key)
    elif isinstance(value, str):
        yield value


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
