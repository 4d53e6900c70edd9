"""Makes the timeline of an analysis: the one way into the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.tables import SCHEMAS
from ncclforensics.tui.model import axis, naming
from ncclforensics.tui.model.given import given, held, positions, reached
from ncclforensics.tui.model.grid import grid
from ncclforensics.tui.model.states import ABSENT, QUEUED, WAITING
from ncclforensics.tui.model.survey import survey
from ncclforensics.tui.model.timeline import Timeline

if TYPE_CHECKING:
    from ncclforensics.report.contract import Report
    from ncclforensics.tables import Frames
    from ncclforensics.tui.model.survey import Tick

MOST_RANKS = 1 << 20


def no_tick(_word: str, _done: int, _whole: int) -> None:
    """Take progress, and do nothing with it."""


def build(
    frames: Frames,
    report: Report,
    *,
    calls: pl.LazyFrame | None = None,
    tick: Tick = no_tick,
) -> Timeline:
    """Make the timeline. `calls` stands in for the frame `collectives`, if given.

    `tick` gets a word, how much is done and how much there is; what it raises ends the
    work. Without ranks, or without anything that they did, the timeline is empty.
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
    marks = axis.logged(frames, all_messages=not has_calls)
    exits = frames["exits"].drop_nulls("rank").filter(pl.col("code") != 0)
    columns = axis.columns(found, told.drop("rank"), marks, exits.height, ranks.len())
    width = len(columns.merged)
    known = (
        positions(frames, found, columns),
        given(frames, report, found, columns, marks, exits),
    )
    made = grid(lazy, ranks, found, columns, known, width, tick)
    hosts = frames["ranks"].select("rank", "host", "device").unique("rank")
    rows = (
        pl.DataFrame({"rank": ranks, "cells": made.cells})
        .with_row_index("row")
        .join(hosts, on="rank", how="left", maintain_order="left")
        .join(
            _stands(frames, found.groups), on="rank", how="left", maintain_order="left"
        )
        .with_columns(pl.col("host", "stand").fill_null(""))
    )
    groups = (
        pl.concat([found.spans.select("rank", "gid"), _told_groups(told, found.groups)])
        .unique()
        .join(found.groups, on="gid")
        .select("rank", "gid", "kind", "pg", "pg_desc", "p2p")
    )
    return Timeline(frames, lazy, rows, columns, groups, made, marks, exits)


def _told_groups(told: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
    return told.join(groups, on=naming.KEY).select("rank", "gid")


def _ranks(frames: Frames, report: Report, calls: pl.LazyFrame) -> pl.Series:
    """Return all ranks: those seen, and those that the job must have had."""
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


def _stands(frames: Frames, groups: pl.DataFrame) -> pl.DataFrame:
    """Return `rank stand`: in a few words where a rank is held up, or never came."""
    words = {WAITING: "waits in ", ABSENT: "never made ", QUEUED: "is behind in "}
    about = groups.select("kind", *naming.KEY)
    text = pl.concat_str(
        pl.col("code").replace_strict(words, default=None, return_dtype=pl.String),
        "kind",
        pl.lit(" "),
        pl.col("n").cast(pl.String),
    )
    rooted = frames["roots"].select("rank", "call", pl.lit(0).alias("is_root"))
    rank = pl.col("code").replace_strict(
        {WAITING: 0, ABSENT: 1, QUEUED: 2}, default=3, return_dtype=pl.Int64
    )
    return (
        held(frames)
        .join(about, on=naming.KEY)
        .join(rooted, on=["rank", "call"], how="left")
        .select("rank", text.alias("stand"), rank.alias("first"), "is_root", "n")
        .drop_nulls("stand")
        .sort("rank", "first", "is_root", "n", nulls_last=True)
        .unique("rank", keep="first", maintain_order=True)
        .select("rank", "stand")
    )
