"""Groups whose reductions take longer than those of their sisters, by logs of steps.

No log tells which ranks are a group, nor who came last to a call. But ranks at equal
distances that all take long in the same reduction, in each step, while nobody works
longer, are one group whose transfer is slow: if they waited for a member, that one
would not take long.
"""

from __future__ import annotations

from itertools import pairwise

import polars as pl

from ncclforensics.correlate.timing.logged_parts import parts
from ncclforensics.correlate.timing.logged_time import logged_time
from ncclforensics.correlate.timing.own_time import WORTH
from ncclforensics.evidence import common
from ncclforensics.evidence.transfers import SISTERS, Slower, quantiles, standing_apart
from ncclforensics.model.frames import Frames, remembered
from ncclforensics.model.step_parts import UNSAID, WAITS


@remembered
def slower(frames: Frames) -> Slower | None:
    """Return the group of ranks that loses most in a reduction; None without one."""
    told, steps = parts(frames), logged_time(frames)
    if told is None or told.is_empty():
        return None
    took, ranks = pl.col("seconds"), told["rank"].n_unique()
    if steps is None:
        every = told.group_by("rank", "line").agg(took.sum())
        whole = float(str(every["seconds"].median()))
    else:
        whole = steps.seconds / steps.calls["meets"].n_unique()
    each = (
        told.filter(pl.col("kind").is_in((*WAITS, UNSAID)))
        .group_by("name", "rank")
        .agg(
            *quantiles(took),
            pl.col("raw", "source", "line", "seconds").last(),
            pl.len().alias("n"),
        )
        .filter(pl.len().over("name") == ranks)
    )
    each = standing_apart(each, "name").sort("name", "rank")
    for (_,), own in each.group_by("name", maintain_order=True):
        slow = own.filter("slow")
        lost = float(str(slow["usually"].min() or 0.0)) - float(own["usual"][0])
        members = slow["rank"].to_list()
        if lost >= WORTH * whole and _is_group(members, ranks):
            return _told(frames, own, slow, even=_may_be_stage(members, ranks))
    return None


def _is_group(members: list[int], ranks: int) -> bool:
    """Whether some of so many ranks may be one of several groups of this size."""
    if len(members) < 2 or ranks % len(members) or ranks < SISTERS * len(members):
        return False
    steps = {after - rank for rank, after in pairwise(members)}
    return len(steps) == 1 and (steps != {1} or members[0] % len(members) == 0)


def _may_be_stage(members: list[int], ranks: int) -> bool:
    """Whether neighbours at an end of the ranks may have other reductions to do."""
    neighbours = members[-1] - members[0] == len(members) - 1
    return neighbours and (not members[0] or members[-1] == ranks - 1)


def _told(
    frames: Frames, own: pl.DataFrame, slow: pl.DataFrame, *, even: bool
) -> Slower:
    ranks = tuple(slow["rank"])
    cited = pl.concat([slow.head(1), own.filter(~pl.col("slow")).head(1)])
    says = pl.format(
        "{} of rank {} took {} ms", "raw", "rank", (pl.col("seconds") * 1e3).round(1)
    )
    return Slower(
        op=slow["raw"][0],
        is_message=False,
        ranks=ranks,
        hosts=common.hosts_of(frames, ranks),
        many=1,
        blamed=(),
        even=even,
        usual_ms=1e3 * own["usual"][0],
        slow_ms=1e3 * float(str(slow["usually"].median())),
        lines=cited.select("source", "line", text=says),
    )
