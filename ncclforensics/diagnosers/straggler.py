"""A rank came to a collective after its peers' timeout: it was late, and not gone.

What it means
    One rank worked on something longer than the others were ready to wait: a
    checkpoint, a data set, a compilation. When it came at last, they had given up.

How we know
    The Flight Recorder of every rank says when it entered a call. One rank entered
    later than the first by at least the call's timeout, and was not itself held up in
    another call. Clocks that differ are corrected by the calls before, which all
    entered close together.

What to do
    Look at what the late rank did in that time, before that call site. Do long work on
    all ranks alike, or in the background; or give that step a longer timeout:
    `init_process_group(timeout=timedelta(minutes=60))`.

Looks like
    `missing-rank` never comes. Logs without entry times show a late rank as one that
    lost its peers, which is also how any victim looks: then nobody is named.

References
    torch Flight Recorder, time_created_ns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.diagnosers import common
from ncclforensics.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.findings import Statement
    from ncclforensics.tables import Frames

FAMILY = "desync"
NEEDS = ("collectives",)
MISSING = "no Flight Recorder dump, which has the time of each call"
NEXT_TIME = "export TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1"
EXPLAINS = ("timeout-masking", "missing-rank", "gpu-stall", "stuck-in-collective")
SPREADS = True

TIMEOUTS = ("c10d.watchdog.timeout", "c10d.gloo.timeout", "c10d.blocking_wait.timeout")
BEFORE = 20  # calls before it that tell how a rank's clock differs
CALL = ["pg", "seq"]


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the ranks that entered the first call that timed out too late."""
    if frames.message(*TIMEOUTS).is_empty():
        return
    entered = _entered(frames)
    late = entered.filter(pl.col("late_ms") >= pl.col("timeout_ms"))
    late = late.filter(~_held(entered, late))
    if late.is_empty():
        return
    # the call that the first of its peers entered first
    first = late.sort("begun", "rank", maintain_order=True).head(1)
    late = late.join(first.select(CALL), on=CALL, how="semi")
    members = entered.join(first.select(CALL), on=CALL, how="semi")
    if 2 * late.height > members.height or late["rank"].n_unique() != late.height:
        return
    ranks = common.numbers(late["rank"])
    call = common.collective(frames, late.row(0, named=True))
    who = common.plural("rank", ranks)
    seconds = int(str(late["late_ms"].min())) / 1000
    allowed = int(str(late["timeout_ms"].max())) / 1000
    on_time = members.filter(~pl.col("rank").is_in(list(ranks))).head(2)
    yield Finding(
        slug="straggler",
        confidence="likely",
        headline=f"{who} came {seconds:,.1f} s late to {common.call_words(call)}"[:200],
        evidence=common.cites(_cited(pl.concat([late, on_time]))),
        explanation=f"{who.capitalize()} entered {common.call_words(call)} "
        f"{seconds:,.1f} s after the first rank, which waits {allowed:,.0f} s and then "
        "gives up. It was late and not lost: what it did before is the cause.",
        remedy=(
            "init_process_group(timeout=datetime.timedelta(minutes=60))"
            f"   # more than {seconds:,.0f} s",
            "read that rank's log before the call: checkpoint, data, compilation",
            "py-spy dump --pid <pid>   # while the others wait",
        ),
        ranks=ranks,
        hosts=common.hosts_of(frames, ranks),
        devices=common.devices_of(frames, ranks),
        collective=call,
        first_seen=common.first_seen(late.with_columns(pl.col("begun").alias("t"))),
    )


def _entered(frames: Frames) -> pl.DataFrame:
    """Return each rank's calls with `late_ms` behind the first rank to enter, `begun`.

    Times are corrected by each rank's usual distance to the middle of its group. Ranks
    without earlier calls to compare are left out.
    """
    calls = (
        frames["collectives"]
        .filter(~pl.col("is_p2p").fill_null(False))
        .drop_nulls(["rank", "pg", "seq", "t", "timeout_ms"])
        .unique(["rank", *CALL], keep="first", maintain_order=True)
        .sort("pg", "rank", "seq")
    )
    epoch = pl.col("t").dt.epoch("ns")
    away = (epoch - epoch.median().over(CALL)).alias("away")
    calls = calls.with_columns(away).with_columns(
        pl.col("away")
        .shift(1)
        .rolling_median(BEFORE, min_samples=1)
        .over("pg", "rank")
        .alias("usual")
    )
    calls = calls.drop_nulls("usual").with_columns(
        (pl.col("t") - pl.duration(nanoseconds=pl.col("usual").cast(pl.Int64))).alias(
            "entered"
        )
    )
    begun = pl.col("entered").min().over(CALL)
    return calls.with_columns(
        begun.alias("begun"),
        (pl.col("entered") - begun).dt.total_milliseconds().alias("late_ms"),
    )


def _held(entered: pl.DataFrame, late: pl.DataFrame) -> pl.Series:
    """Say of each late row whether its rank waited for somebody else meanwhile."""
    last = pl.col("entered").max().over(CALL)
    waited = entered.with_columns(last.alias("last")).filter(
        (pl.col("last") - pl.col("entered")).dt.total_milliseconds()
        >= pl.col("timeout_ms")
    )
    beside = (
        late.with_row_index("_row")
        .join(waited.select("rank", *CALL, "entered"), on="rank", suffix="_other")
        .filter(
            (pl.col("entered_other") < pl.col("entered"))
            & (
                (pl.col("pg_other") != pl.col("pg"))
                | (pl.col("seq_other") != pl.col("seq"))
            )
        )
    )
    rows = pl.Series(range(late.height), dtype=pl.UInt32)
    return rows.is_in(beside["_row"].unique().implode())


def _cited(rows: pl.DataFrame) -> pl.DataFrame:
    text = common.sentence(
        "rank ",
        pl.col("rank"),
        " entered ",
        pl.col("op"),
        " SeqNum=",
        pl.col("seq"),
        " at ",
        pl.col("t").dt.strftime("%H:%M:%S%.3f"),
    )
    return rows.select(text.alias("text"), "source", "line")
