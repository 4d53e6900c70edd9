"""Members that arrived after the timeout of the waiting ranks had passed.

The time of a call is its own host's, so two hosts are compared by earlier calls of the
same group. A member that comes too late may even complete the call: its peers' dumps
were written when they gave up, and show them waiting in it for ever.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.correlate.traces.progress import grouped
from ncclforensics.model.frames import once_if_empty

# torch's defaults, for dumps without a timeout (up to schema 2.1)
TIMEOUT_MS = {"nccl": 600_000, "gloo": 1_800_000}
EARLIER = 20  # earlier calls of the group that compare two clocks
NEARLY = 0.9  # share of a timeout; clock skew may account for the rest
GROUP = ("pg", "pg_desc")
CAME = ("waiting", "behind", "done")


@once_if_empty()
def overdue(held: pl.DataFrame, outline: pl.DataFrame) -> pl.Series:
    """Return the ranks that had been in a call for longer than its timeout.

    That is when their dump was taken. A dump is no older than its newest time: the GPU
    start of an open call is found only as the dump is taken. `held` are the calls that
    hold ranks up, `outline` is that of all calls.
    """
    times = pl.max_horizontal("t", "t_started", "t_completed")
    newest = outline.group_by("rank").agg(times.max().alias("newest_t"))
    cite = ["source", "line"]
    own = held.filter(
        (pl.col("choice") == 0) & ~pl.col("is_p2p").fill_null(False)
    ).select("rank", "t", *cite)
    told = own.join(newest, on="rank").join(
        outline.select(*cite, "timeout_ms", "backend"), on=cite
    )
    since = (pl.col("newest_t") - pl.col("t")).dt.total_milliseconds()
    return told.filter(since >= timeout())["rank"]


def timeout() -> pl.Expr:
    """Return the timeout of an entry in ms: torch's default if the dump has none."""
    default = pl.col("backend").replace_strict(TIMEOUT_MS, default=None)
    return pl.coalesce("timeout_ms", default)


@once_if_empty(decided_by=1)
def late(
    calls: pl.DataFrame, collectives: pl.LazyFrame, names: pl.DataFrame
) -> pl.DataFrame:
    """Return the entries of members later than all others by a timeout.

    `calls` is that frame; `names` has the `group` of each `rank pg pg_desc pg_id`. The
    columns are those of `collectives`, `call`, and `after`: how late they came, in ms.
    """
    return _compared(calls, collectives, names, CAME)


@once_if_empty(decided_by=1)
def elsewhere(
    calls: pl.DataFrame, collectives: pl.LazyFrame, names: pl.DataFrame
) -> pl.DataFrame:
    """Return the newest entries of absent members, made when others had timed out.

    Arguments and columns are those of `late`.
    """
    missed = calls.filter(pl.col("absent").list.len() > 0)
    told = _compared(missed, collectives, names, (*CAME, "absent"))
    absent = missed.select("call", rank="absent").explode("rank")
    return told.join(absent, on=["call", "rank"], how="semi", maintain_order="left")


def _compared(
    calls: pl.DataFrame,
    collectives: pl.LazyFrame,
    names: pl.DataFrame,
    among: tuple[str, ...],
) -> pl.DataFrame:
    """Return the entries of `late` of members in some states; of absent, the newest."""
    states = pl.concat_list(*among)
    held = calls.filter(
        ~pl.col("is_p2p").fill_null(False)
        & pl.col("seq").is_not_null()
        & (states.list.len() > 1)
    )
    came = held.select("call", "group", states.alias("rank")).explode("rank")
    span = pl.int_ranges(pl.col("seq") - EARLIER, pl.col("seq") + 1)
    near = held.select("call", "group", *GROUP, pl.col("seq").alias("now"), seq=span)
    near = near.explode("seq")
    collectives = collectives if held.height else collectives.head(0)
    group = (
        collectives.filter(
            # filtering by number and rank first leaves few of millions of calls to join
            pl.col("seq").is_in(near["seq"].unique().implode())
            & pl.col("rank").is_in(came["rank"].unique().implode())
            & pl.col("t").is_not_null()
            & ~pl.col("is_p2p").fill_null(False)
        )
        .join(
            near.lazy().select(*GROUP, "seq").unique(),
            on=[*GROUP, "seq"],
            how="semi",
            nulls_equal=True,
        )
        .collect()
        .pipe(grouped, names)
        .join(near.drop(*GROUP), on=["group", "seq"])
        .join(came, on=["call", "group", "rank"], how="semi")
    )
    if "absent" in among:
        group = _with_newest(group, held, collectives)
    after = pl.col("t") - pl.col("t").min().over("call", "seq")
    told = group.with_columns(
        after.dt.total_milliseconds().alias("after"),
        timeout().alias("timeout_ms"),
    )
    usual = (
        told.filter(pl.col("seq") < pl.col("now"))
        .group_by("call", "rank")
        .agg(pl.col("after").median().alias("usual"))
    )
    own = pl.col("after") - pl.col("usual").fill_null(0)
    now = (
        told.filter(pl.col("seq") == pl.col("now"))
        .join(usual, on=["call", "rank"], how="left", maintain_order="left")
        .with_columns(own.alias("after"), pl.col("after").alias("told"))
    )
    # compared with the other of two, or with the (lower) median of many
    by = [
        pl.col(c)
        - pl.col(c).quantile(0.5, interpolation="lower").over("call").fill_null(0)
        for c in ("after", "told")
    ]
    # a rank that is late at every call is late by its clock or its workload
    nearly = by[0] > NEARLY * pl.col("timeout_ms")
    over = nearly & (pl.max_horizontal(*by) > pl.col("timeout_ms"))
    few = 2 * over.sum().over("call") < pl.len().over("call") + 1
    told_by = pl.when(pl.col("after") < pl.col("timeout_ms")).then("told")
    proof = told_by.otherwise("after").alias("after")
    return now.filter(over & few).with_columns(proof).drop("told").sort("call", "rank")


def _with_newest(
    group: pl.DataFrame, held: pl.DataFrame, collectives: pl.LazyFrame
) -> pl.DataFrame:
    """Return `group` with the newest entries of absent ranks, as if they came then."""
    absent = held.select("call", "seq", rank="absent").explode("rank")
    timed = collectives.filter(
        pl.col("rank").is_in(absent["rank"].unique().implode())
    ).drop_nulls("t")
    # two passes: the newest times alone decide which rows are read whole
    last = timed.group_by("rank").agg(pl.col("t").max()).collect()
    newest = (
        timed.join(last.lazy(), on=["rank", "t"], how="semi")
        .drop("seq")
        .collect()
        .unique("rank", keep="last", maintain_order=True)
    )
    theirs = absent.join(newest, on="rank").with_columns(now="seq")
    return pl.concat([group, theirs], how="diagonal_relaxed")
