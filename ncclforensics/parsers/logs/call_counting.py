"""Counts NCCL's COLL lines, of which a long log has more than are worth reading.

What ends a job is among the last calls of a communicator: a GPU's queue holds no more
than some thousand calls behind one that does not end. So of each process and
communicator the first calls and the last ones of a span are read, and those between
are only counted, because the number of a call is its place among all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from ncclforensics.model.tables import NCCL_P2P

FIRST = 128  # calls of a communicator that are read; they show that none was lost
LAST = 1024  # a CUDA stream holds about that many launches
# each for itself: one pattern for all three takes ten times as long
PROCESS = r"([^\s:]+:\d{1,10}):\d{1,10} \["
OP = r" NCCL INFO ([A-Z]\w+): opCount "
COMM = r" comm (\S+) \[nranks="
MEMBER = ("process", "comm")
HELD = ("line", "raw", "is_p2p")
COUNTS = ("line", "first", "calls", "numbered")
NOBODY = pl.DataFrame(schema=dict.fromkeys(MEMBER, pl.String()) | {"seen": pl.UInt32()})


@dataclass(slots=True)
class CallCounting:
    """The calls of one span so far, by process and communicator."""

    _seen: pl.DataFrame = field(default_factory=lambda: NOBODY)
    _held: pl.DataFrame | None = None
    _dropped: list[pl.DataFrame] = field(default_factory=list)

    def first(self, lines: pl.DataFrame) -> pl.Series:
        """Take the next lines, `line raw`; return which are read at once, Boolean.

        Those that are no COLL lines of a known process are. The others are held.
        """
        raw = pl.col("raw")
        told = lines.with_columns(
            raw.str.extract(PROCESS).alias("process"),
            raw.str.extract(COMM).alias("comm"),
            raw.str.extract(OP).is_in(NCCL_P2P).alias("is_p2p"),
        ).join(self._seen, on=MEMBER, how="left", maintain_order="left")
        known = pl.all_horizontal(pl.col(*MEMBER, "is_p2p").is_not_null())
        place = pl.col("seen").fill_null(0) + pl.int_range(pl.len()).over(MEMBER)
        told = told.with_columns(
            known.alias("known"), ((place < FIRST) | ~known).alias("is_first")
        )
        now = told.filter("known").group_by(MEMBER).agg(pl.len().alias("seen"))
        self._seen = (
            pl.concat([self._seen, now]).group_by(MEMBER).agg(pl.col("seen").sum())
        )
        held = told.filter(~pl.col("is_first")).select(*HELD, *MEMBER)
        whole = held if self._held is None else pl.concat([self._held, held])
        self._held = whole
        if whole.height > 2 * LAST * max(self._seen.height, 1):
            self._trim()
        return told["is_first"]

    def done(self) -> tuple[pl.DataFrame, pl.DataFrame] | None:
        """Return `line raw` of the last calls, and COUNTS of those left out above.

        `line` of a count is the first line that is read again, `first` the first one
        left out; `numbered` are its `calls` but messages between two ranks. None if
        there were no calls.
        """
        if self._held is None:
            return None
        self._trim()
        held = self._held
        total = [pl.col("first").min(), pl.col("calls", "numbered").sum()]
        dropped = pl.concat(self._dropped).group_by(MEMBER).agg(total)
        begins = held.group_by(MEMBER).agg(pl.col("line").min())
        counts = begins.join(dropped, on=MEMBER).select(*COUNTS).sort("line")
        return held.select("line", "raw"), counts

    def _trim(self) -> None:
        """Count the held lines but the last ones of each process and communicator."""
        assert self._held is not None
        back = pl.len().over(MEMBER) - pl.int_range(pl.len()).over(MEMBER)
        told = self._held.with_columns((back > LAST).alias("goes"))
        numbered = (~pl.col("is_p2p")).sum().cast(pl.Int64).alias("numbered")
        self._dropped.append(
            told.filter("goes")
            .group_by(MEMBER)
            .agg(
                pl.col("line").min().alias("first"),
                pl.len().cast(pl.Int64).alias("calls"),
                numbered,
            )
        )
        # a copy, which does not hold the blocks that the lines came from
        self._held = told.filter(~pl.col("goes")).drop("goes")
