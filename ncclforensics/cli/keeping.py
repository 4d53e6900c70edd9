"""Keeping an analysis in a store, and adding to it what the store knows: the options.

What was before is looked up before anything is printed, and is about other incidents.
It is kept after the answer was given: neither can take the answer from anybody.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ncclforensics.cli import console
from ncclforensics.cli.options import adds
from ncclforensics.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ncclforensics.report.contract import Report

KEEP, STORE = "NCCLFORENSICS_KEEP", "NCCLFORENSICS_STORE"
TAGS = ("job", "user", "image")
remembers = adds(
    click.option(
        "--keep",
        metavar="STORE",
        envvar=KEEP,
        help="Keep it in a store of incidents, and tell of earlier ones.",
    ),
    click.option(
        "--store",
        metavar="STORE",
        envvar=STORE,
        help="Tell what a store knows of earlier ones; nothing is kept.",
    ),
    click.option(
        "--tag",
        "tags",
        metavar="NAME=VALUE",
        multiple=True,
        help="What is kept with it: job=, user= or image=.",
    ),
)


@dataclass(slots=True)
class Memory:
    """The store of one command, and the report as it was before it was redacted."""

    keep: str | None
    store: str | None
    tags: Mapping[str, str]
    paths: Sequence[str]
    redact: str | None
    seen: Report | None = field(default=None, init=False)

    def told(self, report: Report) -> Report:
        """Return a report with what the store knows of its failure."""
        self.seen = report
        root = self.store or self.keep
        if root is None or report.verdict is None or not Path(root).is_dir():
            return report
        import msgspec

        from ncclforensics.history import again, door, store
        from ncclforensics.history.record import record

        mine = record(report, time.time_ns(), self.tags)
        try:
            with store.damage_told(Path(root)):
                found = store.load(Path(root))
                lines = again.lines(found, mine, lambda h: door.names(h, Path(root)))
        except UsageError as caught:
            if not store.is_empty(Path(root)):
                console.warn(f"earlier incidents are not told: {caught}")
            return report
        return msgspec.structs.replace(report, earlier=lines)

    def kept(self, ticket: str | None = None) -> None:
        """Keep what was analyzed, if that is asked for; says so if it cannot be."""
        if self.keep is None or self.seen is None:
            return
        from ncclforensics.history import door, packing, store
        from ncclforensics.history.record import record
        from ncclforensics.report.redact import kinds

        root, first = Path(self.keep), next(iter(self.paths), "-")
        path = None if first == "-" else os.path.abspath(first)
        told = record(self.seen, time.time_ns(), self.tags, path=path, ticket=ticket)
        try:
            store.keep(root, door.redacted(told, kinds(self.redact), root))
            packing.pack(root)
        except UsageError as caught:
            console.warn(f"not kept: {caught}")


def memory(asked: dict[str, Any], paths: Sequence[str], redact: str | None) -> Memory:
    """Take the options of `remembers` out of what was asked."""
    keep, store, tags = (asked.pop(name) for name in ("keep", "store", "tags"))
    return Memory(keep, store, dict(map(_tag, tags)), paths, redact)


def _tag(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or name not in TAGS:
        like = ", ".join(f"{tag}=" for tag in TAGS)
        raise UsageError(f"--tag: {text!r} is none of {like}")
    return name, value
