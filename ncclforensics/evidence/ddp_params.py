"""Models that differ between ranks, as DDP detects when it wraps them.

Every rank compares itself with rank 0 (sizes) or with a peer (counts) and raises. A
rank that is alone with its model is the odd one; if all others raise, rank 0 is; of two
ranks neither can be named.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import common

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

SIZES = "c10d.ddp.shape_mismatch"
COUNTS = "c10d.ddp.count_mismatch"
TIMEOUT = "c10d.watchdog.timeout"


@dataclass(frozen=True, slots=True)
class Models:
    """What differs, in words, on which lines, and the ranks with the odd model.

    Not `sure` if a peer's count is 0: DDP accepts no model without a parameter, so 0
    means that no answer came (pytorch#102438).
    """

    differ: str
    lines: pl.DataFrame
    odd: tuple[int, ...]
    sure: bool = True


def differing(frames: Frames) -> Models | None:
    """Return how the models of the ranks differ, or None if no line says so."""
    counts = frames.message(COUNTS)
    if counts.height:
        found = _by_counts(counts)
        # the exchange of counts timed out: that is the failure, the 0 its echo
        unanswered = found is not None and not found.sure
        return None if unanswered and frames.message(TIMEOUT).height else found
    sizes = frames.message(SIZES)
    return _by_sizes(frames, sizes) if sizes.height else None


def _by_counts(lines: pl.DataFrame) -> Models | None:
    sides: dict[int, set[int]] = defaultdict(set)
    told = lines.select(
        pl.coalesce("rank", "group_rank"), "params", "peer_rank", "peer_params"
    ).drop_nulls()
    if told.is_empty():
        return None
    for rank, params, peer, theirs in told.iter_rows():
        sides[params].add(rank)
        sides[theirs].add(peer)
    nothing = sides.pop(0, set())
    ordered = sorted(sides.items(), key=lambda side: (len(side[1]), side[0]))
    differ = " and ".join(
        f"{count:,} on {common.ranks(sorted(ranks))}" for count, ranks in ordered
    )
    if nothing and len(ordered) < 2:
        who = common.ranks(sorted(nothing))
        differ += f", and 0 was received for {who}"
        return Models(differ, lines, (), sure=False)
    decided = len(ordered) == 2 and len(ordered[0][1]) < len(ordered[1][1])
    odd = tuple(sorted(ordered[0][1])) if decided else ()
    return Models(f"the number of parameters is {differ}", lines, odd)


def _by_sizes(frames: Frames, lines: pl.DataFrame) -> Models:
    raised = common.numbers(lines.select(pl.coalesce("rank", "group_rank")).to_series())
    others = [r for r in common.numbers(frames["ranks"]["rank"]) if r not in raised]
    row = lines.row(0, named=True)
    who = common.ranks(raised) if raised else "a rank that its line does not name"
    differ = (
        f"parameter {row['index']} has {row['what']} [{row['sizes']}] on {who} and "
        "others on rank 0"
    )
    if len(raised) > 1 and set(others) <= {0}:
        return Models(differ, lines, (0,))
    return Models(differ, lines, raised if len(others) > len(raised) else ())
