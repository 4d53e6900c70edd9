"""Has the job come to rest, and whose evidence shows that a call was never made?

Dumps can be asked of a job that runs. Then a rank is not late because its file is a
moment older than its peers', which is seen where a peer finished a call that needs all
members and this file does not have it yet. A hang is proved by a line or an exit that
tells of a failure or by a call that was given up; without such proof only a job that
stands still as a whole counts as hung.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate import waits
from ncclforensics.correlate.standings import KEY

if TYPE_CHECKING:
    from ncclforensics.tables import Frames

# roles of lines that a healthy job does not print
FAILING = ("culprit", "victim", "either")
# a parser's words for a file that it could not read to its end
# of a job that stands still, this share of the ranks hangs on the same few
NEARLY_ALL = 0.9
# more ranks than these, or than this share, do not fall behind their peers at once
FEW = 2
FEW_OF = 1 / 8
# a rank that is fewer calls behind its peers may only have dumped a moment earlier
SKEW = 4
TORN = r"^(?:the dump (?:is cut|ends at byte)|the file is damaged|larger than)"


def failed(frames: Frames) -> pl.Series:
    """Return the ranks that say themselves that they failed."""
    lines = frames["events"].filter(pl.col("role").is_in(FAILING))
    return lines["rank"].drop_nulls().unique().sort()


def evidence(
    frames: Frames, made: pl.DataFrame, standings: pl.DataFrame
) -> pl.DataFrame:
    """Return the ranks of which there is evidence that would show the calls they made.

    That is a dump, even one without entries, or a position in a group. `whole` says
    that all calls since the start are there, `since` when the oldest was made,
    `is_sparse` that calls in between are left out, `is_stale` that the last ones are.
    """
    dumps = frames["sources"].filter(
        pl.col("kind").str.starts_with("flight_recorder") & (pl.col("bytes") > 0)
    )
    seen = pl.concat(
        [dumps["rank"], frames["positions"]["rank"], made["rank"]]
    ).drop_nulls()
    gaps = pl.col("entries") < pl.col("newest") - pl.col("oldest") + 1
    told = made.group_by("rank").agg(
        pl.col("entries").sum(),
        pl.col("oldest").min(),
        pl.col("newest").max(),
        pl.col("has_done").any(),
        pl.col("oldest_t").min().alias("since"),
    )
    # where nobody's dump has a finished call, such calls were not dumped
    active_only = not told["has_done"].any()
    torn = frames["notes"].filter(pl.col("text").str.contains(TORN))["source"]
    cut = frames["sources"].filter(pl.col("source").is_in(torn.implode()))["rank"]
    return (
        pl.DataFrame({"rank": seen.unique().sort()})
        .join(told, on="rank", how="left")
        .select(
            "rank",
            ((pl.col("oldest") == 0) & ~gaps).fill_null(False).alias("whole"),
            "since",
            (gaps | (pl.col("oldest") > 0) & pl.lit(active_only))
            .fill_null(True)
            .alias("is_sparse"),
            (
                pl.col("rank").is_in(_older(made, standings).implode())
                | pl.col("rank").is_in(cut.drop_nulls().implode())
            ).alias("is_stale"),
        )
    )


def _older(made: pl.DataFrame, standings: pl.DataFrame) -> pl.Series:
    """Return the ranks of which a peer finished a call that they had not yet made."""
    front = made.drop_nulls("group").group_by("group").agg(pl.col("proves").max())
    behind = (
        standings.join(made.select(KEY).unique(), on=KEY, how="semi")
        .join(front, on="group")
        .filter(pl.col("enqueued") < pl.col("proves"))
    )
    return behind["rank"].unique()


def is_proven(frames: Frames, made: pl.DataFrame) -> bool:
    """Whether something else than open calls shows that the job failed.

    How long a call has waited is no such proof: dumps hold no time of their own, and
    the clocks of hosts differ.
    """
    if frames["events"]["role"].is_in(FAILING).any():
        return True
    return bool((frames["exits"]["code"] != 0).any() or made["aborted"].any())


def is_still(
    calls: pl.DataFrame,
    roots: pl.DataFrame,
    standings: pl.DataFrame,
    seen: pl.DataFrame,
) -> bool:
    """Whether the open calls show a job that stands still as a whole.

    Then nearly all ranks hang on the same few, or on one call that nobody finishes; in
    a job that runs, calls are on their way in many places and ranks hang on nothing.
    """
    told = waits.graph(calls)
    accused = roots.filter(pl.col("why") != "stuck")
    slow = accused.filter(pl.col("why").is_in(["stalled", "unstarted"]))
    most = NEARLY_ALL * seen.height
    if slow.height > max(FEW, seen.height * FEW_OF):
        return False
    stalled = accused.filter(pl.col("why") == "stalled")["rank"]
    if (_lag(standings, stalled) < SKEW).any():
        return False
    ends = {*accused["rank"], *(rank for c in waits.circles(calls) for rank in c)}
    ends = ends or set(calls["unseen"].explode().drop_nulls())
    moving = [
        set(told.waiters[call])
        for call, wanted in told.why.items()
        if not wanted and call not in told.done
    ]
    if ends:
        held = ends | waits.behind(told, sorted(ends))
        return len(held) >= most and all(ranks <= held for ranks in moving)
    if len(moving) != 1:
        return False
    here = moving[0] | waits.behind(told, sorted(moving[0]))
    return len(here) >= most


def _lag(standings: pl.DataFrame, ranks: pl.Series) -> pl.Series:
    """Return how many calls each of these ranks has not finished and a peer has."""
    done = pl.coalesce("completed", pl.col("waits_in") - 1)
    told = standings.select(*KEY, done.alias("done")).with_columns(
        (pl.col("done").max().over("group") - pl.col("done")).alias("lag")
    )
    mine = told.filter(pl.col("rank").is_in(ranks.implode()))
    return mine.group_by("rank").agg(pl.col("lag").sum())["lag"]
