"""Suspects where only exit codes are known: the processes that failed first.

An agent's or launcher's summary tells which process ended by itself and which ones were
terminated afterwards, but not why. The first one's own output would tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import exit_records
from ncclforensics.evidence import common
from ncclforensics.model.findings import MOST_SUSPECTS, Cite, Suspect
from ncclforensics.model.folding import count

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

UNKNOWN = "a code that is cut off"
# what names ranks or workers that failed, without their codes
LISTED = ("launchers.paddle.aborted", "python.vllm_worker_died")
NAMES = ("ended", "worker", "ranks")
UNTOLD = "a code that is not told"


def suspects(frames: Frames) -> tuple[Suspect, ...]:
    """Return at most eight ranks that exited by themselves first, in order.

    Without times these are all that exited by themselves. Each has an equal share of
    blame, and the cause that is not in this evidence has one too.
    """
    failed = exit_records.by_themselves(frames).drop_nulls("rank")
    failed = pl.concat([_cut(frames), _listed(frames), failed], how="diagonal_relaxed")
    timed = failed.drop_nulls("t")
    if timed["rank"].n_unique() == failed["rank"].n_unique():
        failed = timed.filter(pl.col("t") == pl.col("t").min())
    called = pl.col("code").is_not_null()  # a table's cut entry is its first failure
    first = failed.sort(called, "rank", "source", "line").unique(
        "rank", keep="first", maintain_order=True
    )
    heard = exit_records.ranks_of(frames["events"].filter(pl.col("role") != "agent"))
    others = len(exit_records.ranks_of(exit_records.ended(frames)) - {*first["rank"]})
    unknown = pl.when(pl.col("reported_by").is_in(LISTED)).then(pl.lit(UNTOLD))
    said = common.exit_words(pl.col("code"))
    said = pl.coalesce(said, unknown, pl.lit(UNKNOWN))
    words = first.select(said.alias("words"))["words"]
    return tuple(
        Suspect(
            row["rank"],
            common.host_of(frames, row["rank"]) or row["host"],
            round(1 / (first.height + 1), 3),
            f"ended first with {said}"
            + (f", {count(others, 'rank')} after it" if others > 0 else "")
            + ("" if row["rank"] in heard else "; its own output is not here"),
            (Cite(row["source"], row["line"], row["text"] or said),),
        )
        for row, said in zip(first.head(MOST_SUSPECTS).to_dicts(), words, strict=False)
    )


def _cut(frames: Frames) -> pl.DataFrame:
    """Return the rank that an agent saw fail first, if its entry is cut at its code."""
    roots = frames.message("torchelastic.child_failed")
    if not {"entry", "code"} <= set(roots.columns):
        return pl.DataFrame(schema=exit_records.SCHEMA)
    cut = roots.filter(pl.col("code").is_null() & (pl.col("entry") == 0))
    return cut.drop_nulls("rank").select(
        c for c in exit_records.SCHEMA if c in cut.columns
    )


def _listed(frames: Frames) -> pl.DataFrame:
    """Return the ranks that a launcher lists as failed before it ended the others."""
    lines = frames.message(*LISTED)
    told = [pl.col(name) for name in NAMES if name in lines.columns]
    if not told:
        return pl.DataFrame(schema=exit_records.SCHEMA)
    ranks = pl.coalesce(told).str.extract_all(r"\d+")
    each = lines.with_columns(ranks.alias("rank"), reported_by="message")
    each = each.explode("rank").with_columns(pl.col("rank").cast(pl.Int64))
    return each.select(c for c in exit_records.SCHEMA if c in each.columns)
