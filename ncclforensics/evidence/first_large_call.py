"""Whether the call that hangs is the first large one over the network.

A path that drops packets larger than some MTU lets all small messages pass. So calls of
a few kilobytes complete, and the first one that fills a packet never does.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.correlate.traces.progress import grouped
from ncclforensics.evidence import common
from ncclforensics.model.tables import done

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ncclforensics.model.findings import Cite
    from ncclforensics.model.frames import Frames

SMALL_BYTES = 8 << 10  # with its headers it fits into a packet of 9,000 bytes
LARGE_BYTES = 64 << 10
FEWEST = 2  # completed small calls that are needed
# bytes of an element by the name of its ScalarType in c10
WIDTHS: Mapping[str, int] = {
    **dict.fromkeys(("Byte", "Char", "Bool", "Float8_e4m3fn", "Float8_e5m2"), 1),
    **dict.fromkeys(("Half", "BFloat16", "Short", "UInt16"), 2),
    **dict.fromkeys(("Float", "Int", "UInt32"), 4),
    **dict.fromkeys(("Double", "Long", "UInt64", "ComplexFloat"), 8),
    "ComplexDouble": 16,
}
PING = ("ping -M do -s 8972 PEER; ping -M do -s 1472 PEER     # between its hosts",)
SIZES = ("in_sizes", "in_dtypes", "out_sizes", "out_dtypes")


@dataclass(frozen=True, slots=True)
class FirstLarge:
    """The bytes of a stuck call, and of the largest of `count` calls before it."""

    size: int
    before: int
    count: int
    evidence: tuple[Cite, ...]

    @property
    def words(self) -> str:
        """One sentence, without its full stop."""
        return (
            f"It is the first large one between hosts: {self.size:,} bytes, where the "
            f"{self.count:,} calls that ended had {self.before:,} at most. So it is "
            "where the network drops packets of more than some MTU"
        )


def first_large(frames: Frames, call: Mapping[str, Any]) -> FirstLarge | None:
    """Return whether a call is its rank's first that is large and leaves its host.

    None if not, if the rank's oldest calls were evicted, or if a size is unknown.
    """
    rank = min(call["waiting"])
    if call["seq"] is None or _is_at_home(frames, call["members"]):
        return None
    made = (
        frames.scan("collectives")
        .filter(pl.col("rank") == rank)
        .collect()
        .pipe(grouped, frames["group_names"])
        .filter(~pl.col("is_p2p").fill_null(False))
        .sort("record_id")
    )
    if made.is_empty() or made["record_id"][0] != 0:
        return None
    at_home = _at_home(frames, made["group"].unique())
    made = made.filter(~pl.col("group").is_in(at_home) | pl.col("group").is_null())
    own = (pl.col("group") == call["group"]) & (pl.col("seq") == call["seq"])
    mine, before = made.filter(own), made.filter(~own & done())
    if mine.is_empty() or before.height < FEWEST:
        return None
    size, *_ = map(_bytes, mine.select(SIZES).iter_rows())
    sizes = list(map(_bytes, before.select(SIZES).unique().iter_rows()))
    if size is None or size < LARGE_BYTES or None in sizes:
        return None
    most = max(s for s in sizes if s is not None)
    if most > SMALL_BYTES:
        return None
    says = common.sentence(pl.col("op"), " SeqNum=", pl.col("seq"))
    lines = pl.concat([before.tail(1), mine.head(1)]).with_columns(says.alias("text"))
    return FirstLarge(size, most, before.height, common.cites(lines))


def _bytes(row: Sequence[Any]) -> int | None:
    """Return the most bytes a call can move; None if a size or dtype is unknown."""
    most = 0
    for shapes, dtypes in (row[:2], row[2:]):
        if shapes is None or dtypes is None or len(shapes) != len(dtypes):
            return None
        widths = [WIDTHS.get(dtype) for dtype in dtypes]
        if None in widths:
            return None
        each = zip(shapes, widths, strict=True)
        most = max(most, sum(prod(shape) * (width or 0) for shape, width in each))
    return most


def _at_home(frames: Frames, groups: pl.Series) -> list[str]:
    """Return the groups whose members are all known to be on one host."""
    names = frames["groups"].select("rank", "pg", "pg_id", "pg_desc", "members")
    known = grouped(names, frames["group_names"]).filter(
        pl.col("group").is_in(groups.implode())
    )
    each = known.unique("group").select("group", "members").iter_rows()
    return [group for group, members in each if _is_at_home(frames, members)]


def _is_at_home(frames: Frames, members: Sequence[int] | None) -> bool:
    ranks = frames["ranks"].filter(pl.col("rank").is_in(list(members or ())))
    hosts = ranks.drop_nulls("host")
    return hosts.height == len(members or ()) > 0 and hosts["host"].n_unique() == 1
