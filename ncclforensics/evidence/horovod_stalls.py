"""Horovod's list of stalled tensors: who did not submit which, and who went elsewhere.

Releases up to 0.15 print the ranks that came, later ones those that are missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs.job import STEPS
from ncclforensics.evidence import common
from ncclforensics.evidence.analyzer_reports import Report
from ncclforensics.model.findings import Collective

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

MISSING = ("launchers.horovod.missing", "launchers.horovod.missing.tensor")
SEVERAL = 3  # ranks that lack what one submitted, from which on that one is the odd one
READY = "launchers.horovod.ready"
# what Horovod puts into a tensor's name
OP = "(allreduce|allgather|broadcast|alltoall|reducescatter)"


def lacking(frames: Frames) -> pl.DataFrame:
    """Return a row per list entry, with `tensor` and `missing`, a list of ranks."""
    listed = frames.message(*MISSING)
    if "missing" not in listed.columns:
        listed = _not_ready(frames)
    if "missing" not in listed.columns:
        return listed.clear()
    numbers = pl.col("missing").cast(pl.String).str.extract_all(r"\d+")
    return listed.drop_nulls("missing").with_columns(
        numbers.cast(pl.List(pl.Int64), strict=False).alias("missing")
    )


def not_joined(frames: Frames) -> Report | None:
    """Return the ranks in all lists, if the job did not go on after the last.

    Ranks that lack different tensors submitted others in their place: then each waits
    for the other, and none is missing. `came` is who is in no list of SEVERAL others.
    """
    told = lacking(frames)
    if told.is_empty():
        return None
    steps = frames.message(*STEPS).select("source", pl.col("line").alias("step_line"))
    later = told.join(steps, on="source").filter(pl.col("step_line") > pl.col("line"))
    each = told.explode("missing").group_by("missing").agg(pl.col("tensor").unique())
    ranks = common.numbers(each["missing"])
    shared = set.intersection(*(set(t) for t in each["tensor"])) if ranks else set()
    if later.height or not shared:
        return None
    rest = {*range(_size(frames, [max(ranks)]))} - {*ranks}
    came = rest if len(ranks) >= SEVERAL else ()
    call = Collective(op=min(shared))
    return Report(told, ranks, tuple(sorted(came)), call, "Horovod says so")


def elsewhere(frames: Frames) -> tuple[pl.DataFrame, tuple[int, ...], bool]:
    """Return the lines of two sides that wait for each other, and the smaller side.

    Each rank came to one of two sets of tensors and lacks the other, so both sides
    called something else. Equal sides are a tie of all ranks if their operations
    differ: else they may make the same calls in another order. Without two such sides,
    no rank.
    """
    listed = frames.message(*MISSING, READY)
    column = "missing" if "missing" in listed.columns else "ready"
    if not {column, "tensor"} <= set(listed.columns):
        return listed.clear(), (), False
    told = listed.drop_nulls(column)
    numbers = pl.col(column).cast(pl.String).str.extract_all(r"\d+")
    each = (
        told.select("tensor", numbers.cast(pl.List(pl.Int64)).alias("rank"))
        .explode("rank")
        .group_by("tensor")
        .agg(pl.col("rank").unique().sort())
    )
    sides = sorted({frozenset(ranks) for ranks in each["rank"]}, key=len)
    size = _size(frames, [max(side) for side in sides])
    apart = len(sides) == 2 and not sides[0] & sides[1]
    if not apart or sides[0] | sides[1] != {*range(size)}:
        return told.clear(), (), False
    equal = len(sides[0]) == len(sides[1])
    if not equal:
        return told, tuple(sorted(sides[0])), False
    ops = each.with_columns(op=pl.col("tensor").str.to_lowercase().str.extract(OP))
    kinds = [{*some["op"]} for _, some in ops.group_by(pl.col("rank").list.first())]
    apart = None not in kinds[0] | kinds[1] and not kinds[0] & kinds[1]
    return told, tuple(sorted(sides[0] | sides[1])) if apart else (), apart


def _not_ready(frames: Frames) -> pl.DataFrame:
    """Return the stalled tensors with the ranks that are `missing` in their lists.

    Early releases of Horovod print the ranks that came. Ranks above the highest one
    seen may be missing as well. If fewer came than are missing, those few may be the
    ones that made another call.
    """
    lines = frames.message(READY)
    if "ready" not in lines.columns:
        return lines
    # a stall is reported again and again, each time with all ranks
    told = ["source", "tensor", "ready"]
    lines = lines.drop_nulls("ready").unique(told, keep="first", maintain_order=True)
    ready = pl.col("ready").str.split(",").cast(pl.List(pl.Int64)).list.unique()
    lines = lines.with_columns(ready.alias("ready"))
    size = _size(frames, [lines["ready"].list.max().max()])
    if lines.is_empty() or (2 * lines["ready"].list.len() < size).any():
        return lines
    known = pl.int_ranges(0, size)
    absent = known.list.set_difference("ready").list.sort()
    return lines.with_columns(
        absent.cast(pl.List(pl.String)).list.join(",").alias("missing")
    )


def _size(frames: Frames, highest: list[object]) -> int:
    """Return the number of ranks, as far as any was seen."""
    seen = [*highest, frames["ranks"]["rank"].max()]
    return 1 + max((int(str(rank)) for rank in seen if rank is not None), default=0)
