"""The cells: for each rank one byte per column, and its calls with their times.

Cells are computed one slab of ranks at a time: from entries, then from `calls` for
members that wait or never arrived. The remaining cells are calls that were never made
(peers are in it, unfinished) or not seen (evicted, or no dump at all).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.report.timeline import naming
from ncclforensics.report.timeline.first_pass import NAMES, SLAB, entries, slabs
from ncclforensics.report.timeline.states import (
    ABSENT,
    DONE,
    LATE,
    QUEUED,
    RUNNING,
    UNSEEN,
    WAITING,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.report.timeline.axis import Columns
    from ncclforensics.report.timeline.first_pass import Survey, Tick

LATE_NS = 500_000_000


@dataclass(frozen=True, slots=True)
class Grid:
    """`cells` has a row per rank (Binary); `timed` has `row t te code col` by slab.

    `starts` has the index in `timed` where the calls of each row begin, and the end.
    """

    cells: pl.Series
    timed: tuple[pl.DataFrame, ...]
    starts: tuple[list[int], ...]


def grid(
    calls: pl.LazyFrame,
    ranks: pl.Series,
    found: Survey,
    columns: Columns,
    told: tuple[pl.DataFrame, pl.DataFrame],
    width: int,
    tick: Tick,
) -> Grid:
    """Compute all cells.

    `told` are two frames `rank col code` from other evidence: the first is used where
    entries have nothing, the second overrides entries. `width` is the number of all
    columns, marks included. Raises what `tick` raises.
    """
    places = found.groups.select("gid", "kind", *naming.KEY).with_columns(
        pl.col(NAMES).cast(pl.Categorical)
    )
    late = _late(found.numbers)
    gaps = _gaps(found, columns)
    cells, timed, starts = [], [], []
    whole = -(-ranks.len() // SLAB)
    for number, slab in enumerate(slabs(ranks)):
        tick("laying out calls", number, whole)
        rows = pl.DataFrame({"rank": slab}).with_row_index("row")
        coded = _coded(entries(calls, slab), places, columns, late)
        placed = coded.join(rows, on="rank")
        made = placed.select("row", "col", "code")
        under, stated, filled = (
            part.join(rows, on="rank").select("row", "col", "code")
            for part in (*told, gaps)
        )
        both = [filled, under, _under(made, stated)]
        known = made["row"].unique()
        size = columns.table.height
        cells.append(_dense(both, slab.len(), width, size, known))
        kept = placed.select("row", "t", "te", "code", "col").sort("row", "t")
        counts = rows.select("row").join(
            kept.group_by("row").len(), on="row", how="left", maintain_order="left"
        )
        ends = counts["len"].fill_null(0).cum_sum().to_list()
        timed.append(kept.drop("row"))
        starts.append([0, *ends])
    joined = pl.concat(cells) if cells else pl.Series("cells", [], pl.Binary)
    return Grid(joined, tuple(timed), tuple(starts))


def _late(numbers: pl.DataFrame) -> pl.DataFrame:
    """Return the calls with stragglers, with the means from which these are found."""
    spread = pl.col("t_last") - pl.col("t") >= LATE_NS
    short = pl.col("took_mean") - pl.col("took_least") >= LATE_NS
    kept = pl.when(pl.col("took_mean").is_null()).then(spread).otherwise(short)
    return numbers.filter(kept).select("gid", "n", "t_mean", "took_mean")


def _coded(
    rows: pl.DataFrame, places: pl.DataFrame, columns: Columns, late: pl.DataFrame
) -> pl.DataFrame:
    """Return `rank col code t te` of a slab's entries.

    The rank with the shortest wait arrived last, whatever its clock says. If no ends
    are known, clocks are compared instead.
    """
    placed = rows.join(places, on=naming.KEY).join(columns.table, on=["kind", "n"])
    t, te = pl.col("t").dt.epoch("ns"), pl.col("t_completed").dt.epoch("ns")
    first = pl.col("record_id") == pl.col("record_id").filter(~pl.col("done")).min()
    started = (pl.col("state") == "started").fill_null(False)
    state = (
        pl.when("done")
        .then(DONE)
        .when(~first.over("rank").fill_null(True))
        .then(QUEUED)
        .when(started)
        .then(RUNNING)
        .otherwise(WAITING)
    )
    coded = placed.with_columns(
        t.alias("t"), te.alias("te"), state.cast(pl.UInt8).alias("code")
    )
    if late.height:
        ago = pl.coalesce(
            pl.col("took_mean") - (pl.col("te") - pl.col("t")),
            pl.when(pl.col("took_mean").is_null()).then(pl.col("t") - pl.col("t_mean")),
        )
        is_late = (ago >= LATE_NS).fill_null(False) & ~pl.col("p2p")
        coded = coded.join(late, on=["gid", "n"], how="left").with_columns(
            pl.when(is_late)
            .then(pl.lit(LATE, pl.UInt8))
            .otherwise("code")
            .alias("code")
        )
    return coded.select("rank", "col", "code", "t", "te")


def _gaps(found: Survey, columns: Columns) -> pl.DataFrame:
    """Return `rank col code` of calls before a rank's first and after its last.

    This counts the known calls of a group, not their numbers: a damaged number may be a
    billion higher than the one before.
    """
    kinds = found.groups.select("gid", "kind", "p2p")
    numbers = found.numbers.join(kinds, on="gid").filter(~pl.col("p2p"))
    ordered = numbers.sort("gid", "n").select(
        *("gid", "n", "kind", "finished"),
        pl.int_range(pl.len()).over("gid").alias("place"),
        pl.len().over("gid").cast(pl.Int64).alias("places"),
    )
    first = ordered.select("gid", "places", first="n", begin="place")
    last = ordered.select("gid", last="n", end="place")
    spans = found.spans.join(first, on=["gid", "first"]).join(last, on=["gid", "last"])
    gaps = (
        pl.int_ranges(0, "begin"),
        pl.int_ranges(pl.col("end") + 1, "places"),
    )
    return (
        pl.concat(
            spans.select("rank", "gid", "last", gap.alias("place")).explode(
                "place", empty_as_null=False
            )
            for gap in gaps
        )
        .join(ordered.drop("places"), on=["gid", "place"])
        .join(columns.table, on=["kind", "n"])
        .select(
            "rank",
            "col",
            pl.when((pl.col("n") > pl.col("last")) & ~pl.col("finished"))
            .then(pl.lit(ABSENT, pl.UInt8))
            .otherwise(pl.lit(UNSEEN, pl.UInt8))
            .alias("code"),
        )
    )


def _under(made: pl.DataFrame, stated: pl.DataFrame) -> pl.DataFrame:
    """Override `made` with `stated`, except that LATE stays if `stated` is only DONE.

    An entry may look done although it is not: Gloo also retires calls it gave up on.
    """
    both = made.join(
        stated, on=["row", "col"], how="full", coalesce=True, suffix="_stated"
    )
    keeps = (pl.col("code") == LATE) & (pl.col("code_stated") == DONE)
    return both.select(
        "row",
        "col",
        pl.when(keeps)
        .then("code")
        .otherwise(pl.coalesce("code_stated", "code"))
        .alias("code"),
    )


def _dense(
    parts: Sequence[pl.DataFrame],
    height: int,
    width: int,
    call_width: int,
    known: pl.Series,
) -> pl.Series:
    """Convert `row col code` to one Binary of `width` bytes per row.

    A row that is not in `known` is UNSEEN in all columns of calls.
    """
    cells = pl.repeat(0, height * width, dtype=pl.UInt8, eager=True)
    unseen = pl.int_range(height, eager=True, dtype=pl.UInt32)
    unseen = unseen.filter(~unseen.is_in(known.implode()))
    if call_width and unseen.len():
        begin = pl.col("row").cast(pl.Int64) * width
        runs = pl.int_ranges(begin, begin + call_width)
        at = unseen.alias("row").to_frame().select(runs).to_series()
        cells = cells.scatter(at.explode(empty_as_null=False), UNSEEN)
    for part in parts:
        place = part["row"].cast(pl.Int64) * width + part["col"].cast(pl.Int64)
        cells = cells.scatter(place, part["code"])
    if not width:
        return pl.Series("cells", [b""] * height, pl.Binary)
    whole = cells.reshape((height, width)).arr.to_list()
    return whole.cast(pl.Binary).alias("cells")
