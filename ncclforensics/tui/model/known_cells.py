"""Cells known from other evidence than a rank's own entries.

`calls` knows who waits and who never came, `positions` how far a rank without a dump
came, a finding who made another call than its peers, logs and exits what else happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.tui.model import naming
from ncclforensics.tui.model.states import (
    ABSENT,
    DONE,
    EXITED,
    LOGGED,
    MISMATCHED,
    QUEUED,
    UNSEEN,
    WAITING,
)

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames
    from ncclforensics.report.contract import Report
    from ncclforensics.tui.model.axis import Columns
    from ncclforensics.tui.model.first_pass import Survey

MISMATCHES = ("collective-mismatch", "shape-mismatch")
LISTS = {
    "waiting": WAITING,
    "behind": QUEUED,
    "done": DONE,
    "absent": ABSENT,
    "unseen": UNSEEN,
}
SCHEMA = {"rank": pl.Int64(), "col": pl.Int64(), "code": pl.UInt8()}


def reached(frames: Frames) -> pl.DataFrame:
    """Return what logs tell of calls: `rank`, naming.KEY, `n code`.

    Such a position is a call that a rank finished, made, or gave up.
    """
    told = frames["positions"].drop_nulls("rank").drop_nulls("pg")
    parts = [
        told.select(
            "rank",
            pl.col("pg").fill_null(""),
            pl.col("pg_desc").fill_null(""),
            pl.lit(False).alias("p2p"),
            pl.col(column).alias("n"),
            pl.lit(code, pl.UInt8).alias("code"),
        )
        for column, code in (
            ("last_enqueued", QUEUED),
            ("last_completed", DONE),
            ("timed_out", WAITING),
        )
    ]
    # the later parts say more of a call than those before
    return pl.concat(parts).filter(pl.col("n") > 0)


def held(frames: Frames, *, full: bool = False) -> pl.DataFrame:
    """Return what `calls` tells of members: `rank`, naming.KEY, `n code state`.

    Who waits in a call that all its known members joined is told only where `full`.
    """
    calls = frames["calls"].filter(~pl.col("is_p2p").fill_null(False))
    lacks = pl.sum_horizontal(
        pl.col(c).list.len().fill_null(0) for c in ("absent", "behind", "unseen")
    )
    key = (
        pl.col("pg").fill_null(""),
        pl.col("pg_desc").fill_null(""),
        pl.lit(False).alias("p2p"),
        pl.col("seq").alias("n"),
    )
    parts = []
    for state, code in LISTS.items():
        kept = calls.filter(lacks > 0) if state == "waiting" and not full else calls
        parts.append(
            kept.select(pl.col(state).alias("rank"), *key, "call")
            .explode("rank")
            .drop_nulls("rank")
            .with_columns(pl.lit(code, pl.UInt8).alias("code"))
        )
    return pl.concat(parts)


def mismatched(report: Report, groups: pl.DataFrame) -> pl.DataFrame:
    """Return `rank kind n code` of those whom a finding names for another call."""
    rows = []
    for finding in report.findings:
        call = finding.collective
        if finding.slug not in MISMATCHES or call is None or call.seq is None:
            continue
        rows += [
            (rank, call.process_group or "", call.process_group_desc or "", call.seq)
            for rank in finding.culprits.ranks
        ]
    schema = {"rank": pl.Int64, "pg": pl.String, "pg_desc": pl.String, "n": pl.Int64}
    told = pl.DataFrame(rows, schema=schema, orient="row")
    return told.join(groups.filter(~pl.col("p2p")), on=["pg", "pg_desc"]).select(
        "rank", "kind", "n", pl.lit(MISMATCHED, pl.UInt8).alias("code")
    )


def given(
    frames: Frames,
    report: Report,
    found: Survey,
    columns: Columns,
    logs: pl.DataFrame,
    exits: pl.DataFrame,
) -> pl.DataFrame:
    """Return what holds over a rank's own entries: `rank col code`, each cell once.

    `logs` and `exits` are `marks` that have their `col`.
    """
    groups = found.groups
    named = held(frames).join(groups, on=naming.KEY)
    parts = [_placed(named, columns), _placed(mismatched(report, groups), columns)]
    failing = pl.when("failing").then(LOGGED).otherwise(DONE)
    parts.append(logs.select("rank", "col", failing.cast(pl.UInt8).alias("code")))
    parts.append(_cited(report, logs))
    exited = pl.lit(EXITED, pl.UInt8).alias("code")
    parts.append(exits.select("rank", "col", exited))
    return _once(parts)


def positions(frames: Frames, found: Survey, columns: Columns) -> pl.DataFrame:
    """Return what holds where a rank's entries tell nothing: `rank col code`."""
    return _once([_placed(reached(frames).join(found.groups, on=naming.KEY), columns)])


def _cited(report: Report, logs: pl.DataFrame) -> pl.DataFrame:
    """Return the log lines of the culprits that the verdict cites."""
    verdict = report.verdict
    cites = () if verdict is None else verdict.evidence
    schema = {"source": pl.String, "line": pl.Int64}
    told = pl.DataFrame([(c.source, c.line) for c in cites], schema, orient="row")
    ranks = pl.Series(() if verdict is None else verdict.culprits.ranks, dtype=pl.Int64)
    cited = logs.join(told, on=["source", "line"], how="semi")
    code = pl.lit(LOGGED, pl.UInt8).alias("code")
    return cited.filter(pl.col("rank").is_in(ranks.implode())).select(
        "rank", "col", code
    )


def _placed(told: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """Return `rank col code` of `rank kind n code`."""
    placed = told.join(columns.table, on=["kind", "n"], maintain_order="left")
    return placed.select("rank", pl.col("col").cast(pl.Int64), "code")


def _once(parts: list[pl.DataFrame]) -> pl.DataFrame:
    whole = pl.concat(parts).drop_nulls("col").cast(SCHEMA)  # type: ignore[arg-type]
    return whole.unique(["rank", "col"], keep="last", maintain_order=True)
