"""Which ranks' evidence shows that a call was never made, and who failed by itself.

Dumps can be requested of a running job. Then a rank is not late just because its file
is a moment older than its peers'. That shows if a peer finished a call that needs all
members and this file does not have it yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs import job
from ncclforensics.correlate.traces import call_summary
from ncclforensics.correlate.traces.progress import KEY, ROOTED, is_one
from ncclforensics.model import tables
from ncclforensics.model.frames import once_if_empty
from ncclforensics.model.tables import FAILING, TIME, without_rows

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

EVIDENCE = {
    "rank": pl.Int64(),
    "whole": pl.Boolean(),
    "since": TIME,
    **dict.fromkeys(("is_sparse", "is_stale", "is_older"), pl.Boolean()),
    **dict.fromkeys(("is_blind", "is_gloo"), pl.Boolean()),
}


def failed(frames: Frames) -> pl.Series:
    """Return the ranks that failed by their own output, or by a positive exit code.

    Sorted. A process that its agent ended by a signal had not failed before.
    """
    lines = frames["events"].filter(pl.col("role").is_in(FAILING))
    ended = frames["exits"].filter(pl.col("code") > 0)
    return pl.concat([lines["rank"], ended["rank"]]).drop_nulls().unique().sort()


def failed_last(frames: Frames, collectives: pl.DataFrame) -> pl.Series:
    """Return the ranks whose last call on Gloo failed, though it counts as retired.

    The last entry of a dump that is cut is not the last call of its rank.
    """
    dumps = call_summary.dumps(frames)
    if dumps.is_empty() and collectives.is_empty():
        return failed(frames)
    torn = dumps.filter("cut")["rank"].drop_nulls()
    whole = collectives.filter(~pl.col("rank").is_in(torn.implode()))
    # one that sends messages, which Gloo does not record, may have failed in one
    told = failed(frames)
    own = told.filter(~told.is_in(list(mute(collectives))))
    parts = own, given_up(collectives), unmet(whole, frames["groups"])
    ranks = pl.concat(parts).unique().sort()
    return ranks.filter(~ranks.is_in(torn.implode()))


@once_if_empty(decided_by=1)
def unmet(collectives: pl.DataFrame, groups: pl.DataFrame) -> pl.Series:
    """Return the ranks whose last Gloo call lacks a member, and so never finished.

    The member has a dump, and had not made the call. `groups` tells groups of one name
    apart.
    """
    gloo = collectives.filter(pl.col("backend") == "gloo").drop_nulls(["rank", "seq"])
    if gloo.is_empty():
        return gloo["rank"]
    name = ["rank", "pg", "pg_desc"]
    listed = groups.unique(name).select(
        *name, pl.col("members").hash(seed=0).alias("listed")
    )
    # the number of a group is its process's own, and counts only where there is no name
    turn = pl.when(pl.col("pg").fill_null("") == "").then("pg_id").alias("turn")
    named = gloo.join(listed, on=name, how="left", nulls_equal=True).with_columns(turn)
    here = ["pg", "pg_desc", "listed", "turn"]
    made = pl.col("seq").max()
    ended = pl.col("retired").fill_null(False) & ~pl.col("op").is_in(ROOTED)
    # peers cannot go on without a member: a dump further behind is an earlier one
    one_less = made.over(here) - made.over(["rank", *here]).min().over(here) == 1
    last = pl.col("record_id") == pl.col("record_id").max().over("rank")
    front = pl.col("seq") == made.over(here)
    return named.filter(one_less & last & front & ended)["rank"].unique()


@once_if_empty(decided_by=1)
def given_up(collectives: pl.DataFrame) -> pl.Series:
    """Return the ranks that gave up a Gloo call, which then counts as retired.

    A member made the call after their timeout had passed. Clock skew is taken from the
    members' earlier calls in that group; without any, no rank is returned.
    """
    gloo = collectives.filter(
        (pl.col("backend") == "gloo") & ~pl.col("op").is_in(ROOTED)
    ).drop_nulls(["rank", "seq", "t", "timeout_ms"])
    if gloo.is_empty():
        return gloo["rank"]
    group = ["pg", "pg_desc", "pg_id"]
    front = pl.col("seq") == pl.col("seq").max().over(group)
    late = (
        pl.col("t") - pl.col("t").min().over([*group, "seq"])
    ).dt.total_milliseconds()
    told = gloo.with_columns(late.alias("late"))
    usual = told.filter(~front).group_by("rank", *group)
    now = told.filter(front).join(
        usual.agg(pl.col("late").median().alias("usual")),
        on=["rank", *group],
        nulls_equal=True,
    )
    late_by = pl.col("late") - pl.col("usual")
    beyond = late_by.max().over(group) - late_by > pl.col("timeout_ms")
    return now.filter(beyond & pl.col("retired").fill_null(False))["rank"].unique()


def evidence(
    frames: Frames,
    made: pl.DataFrame,
    standings: pl.DataFrame,
    positions: pl.DataFrame,
) -> pl.DataFrame:
    """Return the ranks whose evidence would show the calls they made.

    That is a dump, even one without entries, or a position in a group. `whole` says
    that all calls since the start are there, `since` when the oldest was made,
    `is_sparse` that calls in between are left out, `is_stale` that the last ones are,
    `is_older` that this is because the dump is older than its peers'. The call that
    holds an `is_blind` rank was evicted from its ring buffer: all that is kept is open.
    On an `is_gloo` rank a call that ended may have failed. `made`, `standings` and
    `positions` have `group`.
    """
    dumps = call_summary.dumps(frames)
    if dumps.is_empty() and made.is_empty() and not frames.has("positions"):
        return without_rows(EVIDENCE)
    dumps = dumps.filter(pl.col("bytes") > 0)
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
        (pl.col("backend") == "gloo").any().alias("is_gloo"),
    )
    # if no dump has a finished call, such calls were not dumped
    active_only = bool(told.height) and not told["has_done"].any()
    torn = pl.col("rank").is_in(dumps.filter("cut")["rank"].drop_nulls().implode())
    older = pl.col("rank").is_in(_older(made, standings, positions).implode())
    # a dump without entries shows nothing either, unless only open calls are dumped
    told_of = pl.concat([frames["positions"]["rank"], made["rank"]]).drop_nulls()
    void = ~pl.col("rank").is_in(told_of.implode()) & pl.lit(not active_only)
    void |= pl.col("rank").is_in(call_summary.emptied(frames).implode())
    return (
        pl.DataFrame({"rank": seen.unique().sort()})
        .join(told, on="rank", how="left")
        .select(
            "rank",
            ((pl.col("oldest") == 0) & ~gaps).fill_null(False).alias("whole"),
            "since",
            (gaps.fill_null(True) & pl.lit(not active_only)).alias("is_sparse"),
            (older | torn | void).alias("is_stale"),
            (older & ~torn).alias("is_older"),
            ((pl.col("oldest") > 0) & ~pl.col("has_done") & pl.lit(not active_only))
            .fill_null(False)
            .alias("is_blind"),
            pl.col("is_gloo").fill_null(False),
        )
    )


@once_if_empty(decided_by=1)
def _older(
    made: pl.DataFrame, standings: pl.DataFrame, positions: pl.DataFrame
) -> pl.Series:
    """Return the ranks that had not yet made a call which a peer finished.

    Peers' calls are those that dumps prove, and the `last_completed` that lines print
    of groups with no rooted operation. Of several groups with one number, nothing tells
    which of them a peer is in.
    """
    together = ~pl.col("op").str.to_lowercase().is_in(ROOTED)
    from_lines = (
        positions.group_by("group")
        .agg(pl.col("last_completed").max().alias("proves"), together.all())
        .filter(pl.col("op").fill_null(False))
    )
    front = (
        pl.concat([made.drop_nulls("group"), from_lines], how="diagonal_relaxed")
        .group_by("group")
        .agg(pl.col("proves").max())
    )
    behind = (
        standings.join(made.select(KEY).unique(), on=KEY, how="semi")
        .join(front, on="group")
        .filter(is_one() & (pl.col("enqueued") < pl.col("proves")))
    )
    return behind["rank"].unique()


@once_if_empty(decided_by=1)
def idle(
    calls: pl.DataFrame,
    unfinished: pl.DataFrame,
    standings: pl.DataFrame,
    evidence: pl.DataFrame,
) -> pl.DataFrame:
    """Return as `roots` the ranks that are in no call and that no rank waits for.

    If all others hang, such a rank is in other code. A rank whose last calls are lost
    is left out.
    """
    lists = ("waiting", "behind", "absent", "unseen")
    known = [unfinished["rank"], *(calls[c].explode() for c in lists)]
    busy = pl.concat([part.cast(pl.Int64) for part in known]).drop_nulls()
    idle_ = evidence.filter(
        ~pl.col("is_stale")
        & ~pl.col("is_blind")
        & ~pl.col("is_sparse")
        & ~pl.col("rank").is_in(busy.implode())
        & pl.col("rank").is_in(standings["rank"].implode())
    )
    found = idle_ if calls.height else idle_.clear()
    return tables.conform(
        "roots",
        found.select("rank", why=pl.lit("idle"), blocked=pl.lit(0, pl.Int64)),
    )


@once_if_empty(decided_by=1)
def mute(collectives: pl.DataFrame) -> frozenset[int]:
    """Return the ranks that send or receive what their recorder leaves out.

    Gloo records no messages, but counts them among its operations.
    """
    gloo = collectives.filter(pl.col("backend") == "gloo").drop_nulls(["op_id", "seq"])
    if gloo.is_empty():
        return frozenset()
    steps = [pl.col(c).max() - pl.col(c).min() for c in ("op_id", "seq")]
    counted = gloo.group_by("rank", "pg", "pg_id").agg((steps[0] > steps[1]).alias("x"))
    return frozenset(counted.filter("x")["rank"].drop_nulls())


def is_told(frames: Frames) -> bool:
    """Whether a line or an exit shows that the job failed, and not only its calls.

    What a kernel or driver prints about its machine need not have affected the job.
    """
    told = not job.failing(frames).is_empty()
    return told or bool((frames["exits"]["code"] != 0).any())
