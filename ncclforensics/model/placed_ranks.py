"""Which ranks a JSON document places on which host, however it is laid out.

`{"gpu0001": [0, 1], …}`, `{"0": "gpu0001", …}`, `[{"rank": 0, "host": "gpu0001"}, …]`,
`{"nodes": [{"name": "gpu0001", "ranks": [0, 1]}]}`: people write them by hand or from
their launchers. Told by shape: a host beside numbers of ranks.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

if TYPE_CHECKING:
    from collections.abc import Iterator

_HOST_KEY = re.compile(r"(?i)(?:host|node)(?:_?name)?|name|machine|server|pod")
_RANK_KEY = re.compile(r"(?i)(?:(?:global|world)_?)?rank")
_RANKS_KEY = re.compile(r"(?i)(?:(?:global|world)_?)?ranks")
_LOCAL_KEY = re.compile(r"(?i)local_?rank|gpu|device|slot")
_HOST = re.compile(r"[A-Za-z][\w.-]*[-.\d][\w.-]*|\d{1,3}(?:\.\d{1,3}){3}")
# of a record of a log, which tells more than a place
_SAYS = re.compile(r"(?i)msg|message|log|line|event|level|step|iter(?:ation)?|loss|seq")
DEEPEST = 4
LARGEST_RANK = 10**7


class Placed(NamedTuple):
    """A rank, its host, and its local rank where that is told."""

    rank: int
    host: str
    local: int | None = None


def placed(document: object) -> list[Placed]:
    """Return the ranks that a document places, in its order; none if one is twice.

    A document in which a record says more than where a rank runs places none.
    """
    found = [*_walk(document, 0)]
    once = len({place.rank for place in found}) == len(found)
    return found if once and not _is_log(document) else []


def _is_log(document: object) -> bool:
    return isinstance(document, list) and any(
        isinstance(one, dict) and any(_SAYS.fullmatch(key) for key in one)
        for one in document
    )


def _walk(value: object, depth: int) -> Iterator[Placed]:
    if depth > DEEPEST:
        return
    if isinstance(value, list):
        for one in value:
            yield from _walk(one, depth + 1)
    elif isinstance(value, dict):
        own = [*_of_record(value)]
        yield from own
        for key, inner in () if own else value.items():
            yield from _of_pair(key, inner, depth)


def _of_record(record: dict[str, object]) -> Iterator[Placed]:
    """Return the ranks of `{"host": …, "rank": …}` or `{"host": …, "ranks": […]}`."""
    host = next((v for k, v in record.items() if _HOST_KEY.fullmatch(k)), None)
    if not _is_host(host):
        return
    local = next((v for k, v in record.items() if _LOCAL_KEY.fullmatch(k)), None)
    for key, value in record.items():
        if _RANK_KEY.fullmatch(key) and _is_rank(value):
            yield Placed(value, host, local if _is_rank(local) else None)
        elif _RANKS_KEY.fullmatch(key):
            yield from (Placed(rank, host) for rank in _ranks(value))


def _of_pair(key: str, value: object, depth: int) -> Iterator[Placed]:
    """Return the ranks of a host by its name, or the host of a rank by its number."""
    if _is_host(key) and (ranks := _ranks(value)):
        yield from (Placed(rank, key) for rank in ranks)
    elif _is_host(key) and isinstance(value, dict):
        inner = next((v for k, v in value.items() if _RANKS_KEY.fullmatch(k)), None)
        yield from (Placed(rank, key) for rank in _ranks(inner))
    elif key.isdecimal() and int(key) < LARGEST_RANK:
        if isinstance(value, dict):
            value = next((v for k, v in value.items() if _HOST_KEY.fullmatch(k)), None)
        if _is_host(value):
            yield Placed(int(key), value)
    else:
        yield from _walk(value, depth + 1)


def _ranks(value: object) -> list[int]:
    """Return the numbers of a list of nothing else, or of "0-7"."""
    if isinstance(value, str) and (span := re.fullmatch(r"(\d{1,7})-(\d{1,7})", value)):
        return [*range(int(span[1]), min(int(span[2]), LARGEST_RANK) + 1)]
    whole = isinstance(value, list) and all(map(_is_rank, value))
    return value if whole else []  # type: ignore[return-value]


def _is_host(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and _HOST.fullmatch(value) is not None


def _is_rank(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < LARGEST_RANK
