"""Logs numbered per host: `node01_0`, `node02_0` hold local ranks, not ranks.

A launcher that numbers tasks of the whole job uses each number once, so only one host
has a file numbered 0. If the numbers of every host begin at 0, they count the processes
of that host.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.sources.model import Source


def recounted(sources: Sequence[Source]) -> list[Source]:
    """Return `sources` with numbers per host as `local_rank` in place of `rank`.

    Only files of one folder layout are compared: those whose names tell both a host and
    a rank, and of each attempt by itself.
    """
    numbers: dict[tuple[str, int | None], dict[str, set[int]]] = defaultdict(
        lambda: defaultdict(set)
    )
    for source in sources:
        if source.rank is not None and source.host is not None:
            numbers[source.kind, source.attempt][source.host].add(source.rank)
    per_host = {
        key
        for key, hosts in numbers.items()
        if len(hosts) > 1 and all(min(told) == 0 for told in hosts.values())
    }
    return [
        replace(source, rank=None, local_rank=source.rank)
        if (source.kind, source.attempt) in per_host
        and None not in (source.rank, source.host)
        else source
        for source in sources
    ]
