"""Redaction of frames: learns names from them, and replaces names in them.

Only the distinct values of a column are searched, so a name that is repeated in a
million rows costs one search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.frames import Frames
from ncclforensics.report.redact import AT, USER

if TYPE_CHECKING:
    from collections.abc import Callable

    from ncclforensics.report.redact import Redactor

HOSTS = frozenset({"host", "store_host"})
OURS = frozenset({"message", "role", "level", "kind", "stage", "op", "state", "why"})


def learn(redactor: Redactor, frames: Frames) -> None:
    """Add the hosts and users in the frames to a redactor, after the report's."""
    if not redactor.kinds:
        return
    hosts: set[str] = set()
    users: set[str] = set()
    for frame in (*frames.tables.values(), *frames.messages.values()):
        for name, dtype in frame.schema.items():
            if dtype != pl.String:
                continue
            if name in HOSTS:
                hosts.update(frame[name].drop_nulls().unique())
            elif name not in OURS and "users" in redactor.kinds:
                values = pl.col(name).drop_nulls().unique()
                for pattern in (USER, AT):
                    found = values.str.extract(pattern, 1).drop_nulls().unique()
                    users.update(frame.select(found)[name])
    redactor.learn_hosts(hosts)
    redactor.learn_users(users)


def redacted(frames: Frames, redactor: Redactor) -> Frames:
    """Return the frames with names replaced; group names and numbers stay."""
    if not redactor.kinds:
        return frames
    return Frames(
        {n: _frame(f, redactor) for n, f in sorted(frames.tables.items())},
        {n: _frame(f, redactor) for n, f in sorted(frames.messages.items())},
    )


def _frame(frame: pl.DataFrame, redactor: Redactor) -> pl.DataFrame:
    columns = []
    for name, dtype in frame.schema.items():
        if name in OURS or dtype != pl.String:
            continue
        how: Callable[[str], str] = redactor.text
        if name in HOSTS:
            how = redactor.host
        elif name in ("source", "file"):
            how = redactor.source if name == "source" else redactor.text
        values = frame[name].drop_nulls().unique(maintain_order=True)
        new = [how(value) for value in values]
        columns.append(pl.col(name).replace_strict(values, new, default=None))
    return frame.with_columns(columns) if columns else frame
