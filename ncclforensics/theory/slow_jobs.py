"""Whether a job with a slow rank runs, and what it loses by it.

Dumps of a job that runs show ranks that wait, as those of one that hangs do. A history
in which all wait for one rank tells why it was dumped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs import job
from ncclforensics.evidence import common
from ncclforensics.model.findings import Gain
from ncclforensics.model.frames import Frames, remembered
from ncclforensics.model.tables import conform
from ncclforensics.theory import slow_ranks, standstill, weigh, weights

if TYPE_CHECKING:
    from ncclforensics.theory.slow_ranks import Slow
    from ncclforensics.theory.weigh import Confidence


@remembered
def runs(frames: Frames) -> bool:
    """Whether the job ran well as far as its lines and dumps tell."""
    if job.signs_of_failure(frames) or job.is_unseen(frames):
        return False
    return frames["calls"].is_empty() or weigh.is_moving(frames)


def may_run(frames: Frames) -> bool:
    """Whether the job ran well, or nothing tells that it stands still."""
    if runs(frames):
        return True
    told = job.signs_of_failure(frames) or job.is_unseen(frames)
    return not told and standstill.standing(frames).answer != "yes"


def sure(frames: Frames) -> Confidence | None:
    """Return how sure it is that a job runs, or may hang but is only slow; or None.

    What ranks wait for at the moment of the dumps is then what they wait for all the
    time. That nothing proves that the job goes on leaves it likely at most.
    """
    if runs(frames):
        proved = frames["calls"].is_empty() or weigh.is_proved_moving(frames)
        return "certain" if proved else "likely"
    if not may_run(frames) or not slow_ranks.tells_why(frames):
        return None
    margin = weigh.weighed(frames).running
    return "likely" if margin is not None and margin >= weights.LIKELY else None


def goes_on(frames: Frames) -> bool:
    """Whether the calls that ranks are in are those of a job that runs well."""
    return not frames["calls"].is_empty() and runs(frames)


def with_lateness(frames: Frames) -> Frames:
    """Return the frames with `lateness`, if the job may run and has a history."""
    above = slow_ranks.excess(frames) if may_run(frames) else None
    if above is None:
        return frames
    told = above.select("rank", "slice", pl.col("more").alias("share"))
    tables = {**frames.tables, "lateness": conform("lateness", told)}
    return Frames(tables, frames.messages)


def cost(frames: Frames, told: Slow) -> str:
    """Return ", 38 GPU hours a day" for what a job loses.

    A job has as many ranks as have a history, at least.
    """
    size = job.facts(frames)["world_size"]
    least = "" if isinstance(size, int) else "at least "
    hours = 24 * (size if isinstance(size, int) else told.known) * told.gain
    return f", {least}{hours:,.0f} GPU hours a day" if hours >= 1 else ""


def gain(frames: Frames) -> Gain | None:
    """Return what is gained fastest in a job that may run; None if nothing is."""
    told = slow_ranks.slow(frames) if may_run(frames) else None
    if told is None:
        return None
    hosts = common.hosts_of(frames, told.ranks) or told.hosts
    verb = "costs" if len(told.ranks) == 1 else "cost"
    unless = ", unless they have other work to do" if told.may_be_stage else ""
    return Gain(
        text=f"{common.ranks(told.ranks)}{common.on(hosts)} {verb} "
        f"{told.lost} of each step{cost(frames, told)}{unless}",
        ranks=told.ranks,
        hosts=hosts,
        share=told.gain,
    )
