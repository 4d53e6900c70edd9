"""Builds the model of the timeline from an analysis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.tables import SCHEMAS
from ncclforensics.report import suspect_phrases
from ncclforensics.report.timeline import axis, marks, naming
from ncclforensics.report.timeline.first_pass import survey
from ncclforensics.report.timeline.grid import grid
from ncclforensics.report.timeline.known_cells import given, held, positions, reached
from ncclforensics.report.timeline.outcomes import outcomes
from ncclforensics.report.timeline.states import ABSENT, AWAY, QUEUED, WAITING
from ncclforensics.report.timeline.timeline import Timeline

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames
    from ncclforensics.report.contract import Report
    from ncclforensics.report.timeline.first_pass import Tick

MOST_RANKS = 1 << 20


def no_tick(_word: str, _done: int, _whole: int) -> None:
    """Ignore progress."""


def build(
    frames: Frames,
    report: Report,
    *,
    calls: pl.LazyFrame | None = None,
    steps: pl.DataFrame | None = None,
    tick: Tick = no_tick,
) -> Timeline:
    """Build the timeline. `calls`, if given, replaces the frame `collectives`.

    `steps` are the lines that count steps, with `rank` and `step`; they are told where
    there are only logs.
    `tick` is called with a word, the amount done and the total; an exception from it
    ends the work. Without ranks, or without any activity, the timeline is empty.
    """
    lazy = frames.scan("collectives") if calls is None else calls
    lazy = lazy.select(pl.col(c) for c in SCHEMAS["collectives"])
    ranks = _ranks(frames, report, lazy)
    told = pl.concat(
        part.select("rank", *naming.KEY, "n")
        for part in (reached(frames), held(frames))
    )
    found = survey(lazy, ranks, told.drop("n").unique(), tick)
    has_calls = found.numbers.height + told.height > 0
    columns, logs, exits = axis.columns(
        found,
        told.drop("rank"),
        marks.logged(frames, all_messages=not has_calls),
        marks.ended(frames),
        ranks.len(),
    )
    width = len(columns.merged)
    known = (
        positions(frames, found, columns),
        given(frames, report, found, columns, logs, exits),
    )
    made = grid(lazy, ranks, found, columns, known, width, tick)
    hosts = frames["ranks"].select("rank", "host", "device").unique("rank")
    rows = (
        pl.DataFrame({"rank": ranks, "cells": _calm(made.cells, ranks, frames, report)})
        .with_row_index("row")
        .join(hosts, on="rank", how="left", maintain_order="left")
        .join(
            _stands(frames, found.groups, columns),
            on="rank",
            how="left",
            maintain_order="left",
        )
        .with_columns(
            pl.col("host", "stand", "brief").fill_null(""),
            pl.col("rank").is_in(_accused(report)).alias("named"),
            _suspected(report),
        )
    )
    if found.numbers.is_empty():
        facts = outcomes(frames, frames["ranks"].clear() if steps is None else steps)
        rows = rows.join(facts, on="rank", how="left", maintain_order="left")
    groups = (
        pl.concat([found.spans.select("rank", "gid"), _told_groups(told, found.groups)])
        .unique()
        .join(found.groups, on="gid")
        .select("rank", "gid", "kind", "pg", "pg_desc", "p2p")
    )
    return Timeline(frames, lazy, rows, columns, groups, made, logs, exits)


def _accused(report: Report) -> list[int]:
    """Return the culprits of root findings: each has to be visible."""
    roots = (f.culprits.ranks for f in report.findings if f.role == "root")
    return sorted({rank for ranks in roots for rank in ranks})


def _suspected(report: Report) -> pl.Expr:
    """Return an expression `suspected`: why a rank is suspected, or ""."""
    told = {
        s.rank: f"{suspect_phrases.share(s)}: {suspect_phrases.reason(s)}"
        for s in reversed(suspect_phrases.suspects(report))
    }
    why = pl.col("rank").replace_strict(told, default="", return_dtype=pl.String)
    return (why if told else pl.lit("")).alias("suspected")


def _calm(
    cells: pl.Series, ranks: pl.Series, frames: Frames, report: Report
) -> list[bytes]:
    """Return cells in which a rank that waits elsewhere is AWAY instead of ABSENT.

    Ranks that the verdict names are unchanged, because ranks of a wait cycle also wait.
    """
    waiting = frames["calls"]["waiting"].explode(empty_as_null=False).unique()
    named = () if report.verdict is None else report.verdict.culprits.ranks
    spared = set(waiting.to_list()).difference(named)
    absent, away = bytes([ABSENT]), bytes([AWAY])
    both = zip(cells.to_list(), ranks.to_list(), strict=True)
    return [row.replace(absent, away) if r in spared else row for row, r in both]


def _told_groups(told: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
    return told.join(groups, on=naming.KEY).select("rank", "gid")


def _ranks(frames: Frames, report: Report, calls: pl.LazyFrame) -> pl.Series:
    """Return all ranks: those in the evidence, and those implied by the world size."""
    known = [
        frames["ranks"]["rank"],
        frames["exits"]["rank"],
        frames["calls"]["members"].explode(empty_as_null=False),
    ]
    size = report.job.world_size
    if size is not None and 0 < size <= MOST_RANKS:
        known.append(pl.int_range(size, eager=True, dtype=pl.Int64))
    if frames["ranks"].is_empty():
        known.append(calls.select(pl.col("rank").unique()).collect()["rank"])
    found = pl.concat(known).drop_nulls().unique().sort()
    return found.filter(found >= 0).rename("rank")


def _stands(
    frames: Frames, groups: pl.DataFrame, columns: axis.Columns
) -> pl.DataFrame:
    """Return `rank stand brief`: the call that a rank is blocked in, or never made.

    Both are short texts; `brief` names the call like the head of its column.
    """
    words = {WAITING: "waits in ", ABSENT: "never made ", QUEUED: "is behind in "}
    about = groups.select("kind", *naming.KEY)
    kinds = [kind for kind in columns.kinds if kind.is_call]
    letters = {kind.name: kind.letter for kind in kinds if len(kinds) > 1}
    word = pl.col("code").replace_strict(words, default=None, return_dtype=pl.String)
    letter = pl.col("kind").replace_strict(letters, default="", return_dtype=pl.String)
    number = pl.col("n").cast(pl.String)
    text = pl.concat_str(word, "kind", pl.lit(" "), number).alias("stand")
    brief = pl.concat_str(word, letter, number).alias("brief")
    rooted = frames["roots"].select("rank", "call", pl.lit(0).alias("is_root"))
    rank = pl.col("code").replace_strict(
        {WAITING: 0, ABSENT: 1, QUEUED: 2}, default=3, return_dtype=pl.Int64
    )
    told = held(frames)
    # a rank that is absent in one call may wait in another with unknown members
    missed = told.filter(pl.col("code") == ABSENT)["rank"].unique()
    waits = held(frames, full=True).filter(
        (pl.col("code") == WAITING) & pl.col("rank").is_in(missed.implode())
    )
    return (
        pl.concat([told, waits])
        .unique(maintain_order=True)
        .join(about, on=naming.KEY)
        .join(rooted, on=["rank", "call"], how="left")
        .select("rank", text, brief, rank.alias("first"), "is_root", "n")
        .drop_nulls("stand")
        .sort("rank", "first", "is_root", "n", nulls_last=True)
        .unique("rank", keep="first", maintain_order=True)
        .select("rank", "stand", "brief")
    )
