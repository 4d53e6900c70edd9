"""What of a record is kept where `--redact` is asked for.

A report calls hosts host1, host2 in its own order, which would make one host of many
here. So the store has a key, and the same name has the same pseudonym in all records,
as in what `collect --redact-key` writes. Who has the key can ask for a host by its real
name; who gets the store without `key` can not, not even by trying all names.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import msgspec

from ncclforensics.collect.redaction import Redactor
from ncclforensics.history import files
from ncclforensics.model.errors import UsageError, reason

if TYPE_CHECKING:
    from pathlib import Path

    from ncclforensics.history.record import Record

KEY = "key"


def redacted(told: Record, kinds: frozenset[str], root: Path) -> Record:
    """Return a record with names of `kinds` replaced, by the key of the store.

    Makes a key where there is none. Raises UsageError if it cannot be written or read.
    """
    if not kinds:
        return told
    try:
        root.mkdir(parents=True, exist_ok=True)
        if not (root / KEY).exists():
            files.put_new(root / KEY, secrets.token_hex(32).encode())
        key = (root / KEY).read_bytes()
    except OSError as caught:
        raise UsageError(f"{root / KEY}: {reason(caught)}") from caught
    users = {told.user} if told.user else set()
    redactor = Redactor(kinds, key, {*told.nodes, *told.hosts}, users)

    def text(value: str | None) -> str | None:
        return value and redactor.text(value.encode()).decode("utf-8", "replace")

    user = told.user
    if user and "users" in kinds:
        user = redactor.name("user", user.encode()).decode()
    return msgspec.structs.replace(
        told,
        headline=text(told.headline) or "",
        call_site=text(told.call_site),
        restart=text(told.restart),
        hosts=tuple(map(redactor.folder, told.hosts)),
        nodes=tuple(map(redactor.folder, told.nodes)),
        user=user,
        job=text(told.job),
        image=text(told.image),
        ticket=text(told.ticket),
        path=None if {"paths", "users"} & kinds else text(told.path),
    )


def names(host: str, root: Path) -> tuple[str, ...]:
    """Return the names under which a store may know a host: its own, its pseudonym."""
    try:
        key = (root / KEY).read_bytes()
    except OSError:
        return (host,)
    return host, Redactor(frozenset({"hosts"}), key).folder(host)
