"""Cells known from other evidence than a rank's own entries.

`calls` has the ranks that wait or never arrived, `positions` the progress of ranks
without a dump, findings the ranks that made a different call than their peers, and logs
and exits everything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.report.timeline import naming
from ncclforensics.report.timeline.states import (
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
    from ncclforensics.report.timeline.axis import Columns
    from ncclforensics.report.timeline.first_pass import Survey

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
    """Return the calls known from logs: `rank`, naming.KEY, `n code`.

    Such a position is a call that a rank completed, enqueued, or gave up on.
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
    # later parts are more specific than earlier ones
    return pl.concat(parts).filter(pl.col("n") > 0)


def held(frames: Frames, *, full: bool = False) -> pl.DataFrame:
    """Return the members' states in `calls`: `rank`, naming.KEY, `n code state`.

    Waiting ranks of a call that all its known members joined are included only if
    `full`.
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
    """Return `rank kind n code` of ranks that a finding names for a mismatched call."""
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
    """Return cells that override a rank's own entries: `rank col code`, each once.

    `logs` and `exits` are those of `marks`, with their `col`.
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
    """Return cells for places where a rank has no entries: `rank col code`."""
    return _once([_placed(reached(frames).join(found.groups, on=naming.KEY), columns)])


def _cited(report: Report, logs: pl.DataFrame) -> pl.DataFrame:
    """Return the cells of log lines of culprits that the verdict cites."""
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
    """Convert `rank kind n code` to `rank col code`."""
    placed = told.join(columns.table, on=["kind", "n"], maintain_order="left")
    return placed.select("rank", pl.col("col").cast(pl.Int64), "code")


def _once(parts: list[pl.DataFrame]) -> pl.DataFrame:
    whole = pl.concat(parts).drop_nulls("col").cast(SCHEMA)  # type: ignore[arg-type]
    return whole.unique(["rank", "col"], keep="last", maintain_order=True)
