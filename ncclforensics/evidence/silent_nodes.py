"""Ranks on nodes that did not answer when all nodes of the job were asked.

A node that is silent where others answer is gone, cut off, or too busy to answer: a
reason to look there first. It proves no failure, so it accuses nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.evidence import common

if TYPE_CHECKING:
    from ncclforensics.model.findings import Cite
    from ncclforensics.model.frames import Frames

SILENT = "fleet.silent"


def ranks(frames: Frames) -> dict[int, tuple[str, tuple[Cite, ...]]]:
    """Return why each rank on a silent node is to be looked at, with its cite.

    Empty where nobody answered: then it is the way to the nodes that failed.
    """
    told = frames.message(SILENT)
    if told.is_empty() or (told["asked"] == told.height).all():
        return {}
    found: dict[int, tuple[str, tuple[Cite, ...]]] = {}
    for (host,), line in told.group_by(["host"], maintain_order=True):
        why = f"its node {str(line['text'][0]).removeprefix(f'{host} ')}"
        for rank in common.ranks_on(frames, [str(host)]):
            found[rank] = why, common.cites(line.head(1))
    return found
