"""The host of what `collect` wrote: its manifest tells it for the files beside it.

A log may be shared by the processes of several nodes. Its own lines then contradict the
manifest, and are believed.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ncclforensics.sources import limits, path_check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.sources.model import Source

KIND = "collected_json"
# the key comes before the long lists
_HOST = re.compile(rb'"host"\s*:\s*("(?:[^"\\]|\\.){1,255}")')
_MANIFEST = re.compile(rb'\s*\{\s*"collected_by"')


def placed(sources: Sequence[Source]) -> list[Source]:
    """Return `sources` with the host of those in the folder of a manifest."""
    hosts = dict(filter(None, map(_manifest, sources)))
    if not hosts:
        return [*sources]
    return [_placed(source, hosts) for source in sources]


def _manifest(source: Source) -> tuple[str, str] | None:
    """Return the folder of a manifest and the host in it."""
    if source.kind != KIND:
        return None
    head = _head(source)
    found = _HOST.search(head) if _MANIFEST.match(head) else None
    if found is None:
        return None
    try:
        host = str(json.loads(found[1]))
    except ValueError:
        return None
    return source.name[: source.name.rfind("/") + 1], host


def _placed(source: Source, hosts: dict[str, str]) -> Source:
    folder = source.name
    while folder := folder[: folder.rstrip("/").rfind("/") + 1]:
        if folder in hosts:
            break
    host = hosts.get(folder)
    if host is None:
        return source
    if source.kind == "log" and path_check.objections(_head(source), {"host": host}):
        return source
    return replace(source, host=host)


def _head(source: Source) -> bytes:
    try:
        with source.open() as stream:
            return stream.read(limits.HEAD_BYTES)
    except OSError:
        return b""
