"""From correlated frames to ranked findings: what failed, how sure, whom to suspect.

Where nobody is accused, the outcome depends on the signs that something stopped: a job
of which a sign is left is `inconclusive`, never `no-failure`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics import diagnosers
from ncclforensics.correlate.runs import interleaved_jobs, job, unknown_failures
from ncclforensics.correlate.timing import process_motion
from ncclforensics.evidence import (
    blocked_processes,
    fallen_behind,
    first_exits,
    ras_status,
    seen_places,
)
from ncclforensics.theory import standstill, suspects, uncollected, weigh
from ncclforensics.verdict import ranking, retold
from ncclforensics.verdict.statements import statements

if TYPE_CHECKING:
    from ncclforensics.model.findings import Finding, Ranked
    from ncclforensics.model.frames import Frames


def ranked(
    joined: Frames,
    world_size: int | None = None,
    select: frozenset[str] = frozenset(),
    ignore: frozenset[str] = frozenset(),
) -> Ranked:
    """Return the findings of correlated frames in order, the outcome and suspects.

    `world_size` overrides the one found in the evidence; `select` and `ignore` are
    failure classes, an empty `select` means all.
    """
    told = job.facts(joined, world_size)
    said = list(retold.capped(joined, statements(joined, select, ignore)))
    if why := interleaved_jobs.told(joined):
        said = [ranking.unnamed(statement, why) for statement in said]
    # if nothing of the job was read, a failure cannot be ruled out
    signs = job.signs_of_failure(joined) or int(job.is_unseen(joined))
    signs += _unrefuted(joined).height
    signs += process_motion.standing(joined) + blocked_processes.nameless(joined)
    signs += job.is_unread(joined) + ras_status.unsettled(joined)
    if not weigh.is_moving(joined):
        signs += bool(seen_places.nameless(joined)) or seen_places.idle(joined)
        signs += joined["calls"].height + len(uncollected.uncollected(joined))
    if job.ended_well(joined):
        signs = 0
    found = ranking.rank(said, diagnosers.CLASSES, signs, told)
    suspected = suspects.suspects(joined)
    if not suspected and found.verdict is not None:
        suspected = found.verdict.suspects
    if not suspected and _names_nobody(found.verdict):
        suspected = first_exits.suspects(joined)
    if not suspected and found.verdict is None and found.outcome == "inconclusive":
        suspected = fallen_behind.suspects(joined) or suspects.awaited(joined)
    return replace(found, suspects=suspected)


def _unrefuted(frames: Frames) -> pl.DataFrame:
    """Return the unknown failing lines; what persons say only if no two looks moved."""
    told = unknown_failures.lines(frames)
    refuted = told.height and weigh.is_moving(frames)
    if not (refuted and standstill.motion(frames).name == standstill.LOOKS):
        return told
    return told.filter(pl.col("message") != unknown_failures.OF_PERSON)


def _names_nobody(verdict: Finding | None) -> bool:
    """Whether somebody is to blame, or something stopped, and nobody is named."""
    if verdict is None:
        return True
    return verdict.slug in weigh.UNEQUAL and not (verdict.ranks or verdict.hosts)
