"""Ranks on nodes that did not answer when all nodes of the job were asked.

A node that is silent where others answer is gone, cut off, or too busy to answer: a
reason to look there first. It proves no failure, so it accuses nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.correlate.exits import alive
from ncclforensics.correlate.identity import world
from ncclforensics.evidence import common
from ncclforensics.model.folding import name_hosts

if TYPE_CHECKING:
    import polars as pl

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
    return found or _left_over(frames, told)


def _left_over(
    frames: Frames, told: pl.DataFrame
) -> dict[int, tuple[str, tuple[Cite, ...]]]:
    """Return the ranks that no node has, if all nodes but the silent ones have some."""
    placed = frames["ranks"].drop_nulls(["host", "rank"])
    hosts = told["host"].unique().sort().to_list()
    if not (told["asked"] == placed["host"].n_unique() + len(hosts)).all():
        return {}
    seen = alive.seen(frames)
    sizes = seen["world_size"].drop_nulls().to_list() if seen.height else []
    lost = {*range(max(sizes, default=0)), *world.ranks(frames)} - {*placed["rank"]}
    why = f"{name_hosts(hosts)} did not answer, and no other node has it"
    return {rank: (why, common.cites(told)) for rank in lost}
