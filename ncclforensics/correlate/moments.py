"""Whether times in the dumps show that a rank stands still in a call.

A dump does not say when it was taken, but it is no older than its newest time. Where a
rank's host did something long after its peers' GPUs had got past a call, and its own
had not, the difference is no matter of when the files were written. How long is long,
and how the clocks of two hosts differ, their earlier calls in the same group tell.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from ncclforensics.correlate.standings import signature
from ncclforensics.tables import ABORTS_RETIRE, done

GROUP = ("pg", "pg_desc")
PEERS = 4  # with which a rank is compared
BARRIER = "barrier"
SAVES = r"(?i)save|saving|checkpoint|ckpt"
EARLIER = 50  # calls of the group by which two clocks are compared
MARGIN_NS = 1_000_000
MANY_PEERS = 16  # among which a rank is late
FAR = 10  # times what others are late, or this rank elsewhere
SPREADS = 2  # times the difference that there was before


def outlived(
    calls: pl.DataFrame, slow: pl.DataFrame, collectives: pl.LazyFrame
) -> bool:
    """Say whether each rank of `slow` outlived its peers' getting past its own call.

    `slow` are rows of `roots` that are "stalled" (peers finished the call) or
    "unstarted" (their GPUs began it).
    """
    ahead = pl.concat_list(
        "done", pl.col("waiting").list.set_difference("unstarted")
    ).list.head(PEERS)
    pairs = (
        calls.filter(~pl.col("is_p2p").fill_null(False))
        .select("call", *GROUP, "seq", "waiting", ahead.alias("peer"))
        .explode("waiting")
        .rename({"waiting": "rank"})
        .join(slow.select("rank", "why"), on="rank")
        .explode("peer")
        .drop_nulls("peer")
        .filter(pl.col("peer") != pl.col("rank"))
    )
    if pairs.is_empty():
        return False
    newest = (
        collectives.filter(pl.col("rank").is_in(slow["rank"].implode()))
        .group_by("rank")
        .agg(pl.max_horizontal("t", "t_started", "t_completed").max().alias("newest"))
        .collect()
    )
    group = (
        collectives.filter(
            pl.col("pg_desc").is_in(
                pairs["pg_desc"].unique().implode(), nulls_equal=True
            )
            & ~pl.col("is_p2p").fill_null(False)
            & pl.col("rank").is_in(pl.concat([pairs["rank"], pairs["peer"]]).implode())
        )
        .select("rank", *GROUP, "seq", "t_started", "t_completed")
        .collect()
    )
    key = [*GROUP, "seq"]
    found = []
    for why, time in (("stalled", "t_completed"), ("unstarted", "t_started")):
        mine = pairs.filter(pl.col("why") == why)
        past = mine.join(
            group.select(pl.col("rank").alias("peer"), *key, pl.col(time).alias("at")),
            on=["peer", *key],
            nulls_equal=True,
        ).drop_nulls("at")
        usual = _usual(past, group, time)
        found.append(past.join(usual, on=["rank", "peer", *GROUP], nulls_equal=True))
    told = pl.concat(found).join(newest, on="rank").drop_nulls()
    late = (pl.col("newest") - pl.col("at")).dt.total_nanoseconds() - pl.col("offset")
    long = pl.max_horizontal(SPREADS * pl.col("spread"), pl.lit(MARGIN_NS))
    proven = told.filter(late > long)["rank"]
    return set(slow["rank"]) <= set(proven)


def _usual(past: pl.DataFrame, group: pl.DataFrame, time: str) -> pl.DataFrame:
    """Return by how much two ranks' times of the same calls differ: `offset spread`."""
    times = group.select("rank", *GROUP, pl.col("seq").alias("s"), pl.col(time))
    on = ["s", *GROUP]
    theirs = times.rename({"rank": "peer", time: "theirs"})
    both = (
        past.select("rank", "peer", *GROUP, "seq")
        .join(times, on=["rank", *GROUP], nulls_equal=True)
        .filter(pl.col("s").is_between(pl.col("seq") - EARLIER, pl.col("seq") - 1))
        .join(theirs, on=["peer", *on], nulls_equal=True)
        .with_columns(
            (pl.col(time) - pl.col("theirs")).dt.total_nanoseconds().alias("d")
        )
        .drop_nulls("d")
    )
    key = ("rank", "peer", *GROUP)
    return both.group_by(key).agg(
        pl.col("d").median().alias("offset"),
        (pl.col("d") - pl.col("d").median()).abs().max().alias("spread"),
    )


def are_fresh(outline: pl.DataFrame, accused: pl.Series) -> bool:
    """Whether dumps were taken when their ranks' calls had only just ended.

    NCCL's watchdog retires what has completed within a tenth of a second, so a newest
    call that completed and is not retired yet ended in that time. `outline` is that of
    all calls. What `accused` ranks show does not count: there the watchdog may hang.
    Entries of a coalesced group are never retired, whatever becomes of it.
    """
    nccl = outline.filter(
        pl.col("backend").is_in(ABORTS_RETIRE)
        & ~pl.col("is_p2p").fill_null(False)
        & (pl.col("state") == "completed")
        & ~pl.col("op").str.ends_with("coalesced").any().over("rank", *GROUP)
    )
    retired = pl.col("retired").fill_null(False)
    newest = nccl.group_by("rank").agg(
        pl.col("record_id").filter(retired).max().alias("over"),
        pl.col("record_id").filter(~retired).max().alias("fresh"),
    )
    # where nothing is retired, whoever wrote the dump leaves that out
    told = newest.filter(~pl.col("rank").is_in(accused.implode()))
    return bool(told.select((pl.col("fresh") > pl.col("over")).any()).item())


def are_late_there(
    wanted: pl.DataFrame, absent: pl.Series, collectives: pl.LazyFrame
) -> bool:
    """Whether ranks that did not come yet used to come late to this very call.

    `wanted` are rows of `calls`, `absent` the ranks. Rank 0 that saves while others
    wait at a barrier is late at each such barrier, and by far more than elsewhere.
    """
    calls = wanted.filter(~pl.col("is_p2p").fill_null(False))
    made = (
        collectives.filter(
            ~pl.col("is_p2p").fill_null(False)
            & pl.col("pg_desc").is_in(
                calls["pg_desc"].unique().implode(), nulls_equal=True
            )
            & pl.col("t").is_not_null()
        )
        .select("rank", *GROUP, "seq", "t", _place().alias("what"))
        .collect()
    )
    for call in calls.to_dicts():
        gone = sorted({*call["absent"]} & {*absent})
        here = made.filter(
            pl.col("pg").eq_missing(call["pg"])
            & pl.col("pg_desc").eq_missing(call["pg_desc"])
        )
        if gone and _is_outlier(here, call["seq"], gone, call["waiting"][:MANY_PEERS]):
            return True
    return False


def may_be_alone(
    wanted: pl.DataFrame,
    absent: pl.Series,
    collectives: pl.LazyFrame,
    stacks: pl.DataFrame,
) -> bool:
    """Whether a rank may be at work alone while the others wait for it.

    It saves its part, and they wait at a barrier or in a function that saves. Or it is
    the first of its group and does what the others need, and they wait at a place where
    they were not in the step before. `wanted` are rows of `calls`, `absent` the ranks.
    """
    calls = wanted.filter(~pl.col("is_p2p").fill_null(False))
    for call in calls.to_dicts():
        way = stacks.filter(pl.col("stack") == pl.lit(call["stack"], pl.UInt64))
        if BARRIER in (call["op"] or "") or way["function"].str.contains(SAVES).any():
            return True
        known = [*(call["members"] or ()), *call["waiting"], *call["absent"]]
        is_first = min(known) in {*call["absent"]} & {*absent}
        if is_first and _is_new(call, collectives):
            return True
    return False


def _is_new(call: dict[str, Any], collectives: pl.LazyFrame) -> bool:
    """Whether a rank made a call for the first time, after ones that it repeats."""
    made = (
        collectives.filter(pl.col("rank") == call["waiting"][0])
        .select("record_id", *GROUP, "seq", "is_p2p", _place().alias("what"))
        .collect()
        .sort("record_id")
        .with_columns(pl.struct(*GROUP, "what").hash(seed=0).alias("what"))
    )
    here = [pl.col(c).eq_missing(call[c]) for c in (*GROUP, "seq")]
    at = made.filter(*here, ~pl.col("is_p2p").fill_null(False))["record_id"].min()
    if at is None:
        return False
    now = made.filter(pl.col("record_id") == at)["what"].implode()
    earlier = made.filter(pl.col("record_id") < at)["what"]
    return bool(earlier.is_duplicated().any()) and not earlier.is_in(now).any()


def _is_outlier(
    made: pl.DataFrame, seq: int, gone: list[int], peers: list[int]
) -> bool:
    """Whether some of `gone` came to earlier calls like `seq` later than all others.

    It fell behind there, since the call before, by far more than any of `peers` ever
    did and than it does elsewhere. `made` are calls of one group: `rank seq t what`.
    """
    is_peer = pl.col("rank").is_in(peers)
    now = made.filter((pl.col("seq") == seq) & is_peer)["what"]
    usual = made.filter(is_peer).group_by("seq").agg(pl.col("t").median().alias("at"))
    late = (
        made.filter((pl.col("seq") < seq) & pl.col("rank").is_in([*peers, *gone]))
        .join(usual, on="seq")
        .sort("rank", "seq")
        .select(
            *("rank", is_peer.alias("is_peer")),
            pl.col("what").is_in(now.implode()).alias("is_here"),
            (pl.col("t") - pl.col("at"))
            .dt.total_nanoseconds()
            .diff()
            .over("rank")
            .cast(pl.Float64)
            .alias("late"),
        )
        # of several calls at one place the first one tells
        .filter(
            ~pl.col("is_here")
            | ~pl.col("is_here").shift(1).over("rank").fill_null(False)
        )
    )
    elsewhere = late.filter(~pl.col("is_peer") & ~pl.col("is_here"))["late"].abs()
    theirs = late.filter("is_peer")["late"].abs()
    usually = pl.Series([theirs.max(), elsewhere.median()]).max()
    mine = (
        late.filter(~pl.col("is_peer") & pl.col("is_here"))
        .group_by("rank")
        .agg(pl.col("late").median())["late"]
        .max()
    )
    if mine is None or usually is None:
        return False
    return float(str(mine)) > max(FAR * float(str(usually)), MARGIN_NS)


def _place() -> pl.Expr:
    """Say what a call is: its stack and operation, or without one its sizes as well."""
    same_place = pl.struct("stack", "op").hash(seed=0)
    bare = pl.col("stack").is_null()
    return pl.when(bare).then(signature()).otherwise(same_place)


def may_come(wanted: pl.DataFrame, collectives: pl.LazyFrame) -> bool:
    """Whether ranks absent from one of these calls may be about to make it.

    `wanted` are rows of `calls`. They may if they have made such a one before, which
    has the same stack, or without stacks the same operation and sizes, or no call
    twice; if it is a message; and if they do not all stand at one place behind calls
    that are over.
    """
    gone = pl.col("rank").is_in(wanted["absent"].explode().drop_nulls().implode())
    newest = (
        collectives.filter(gone)
        .group_by("rank")
        .agg(
            pl.struct("pg_desc", "seq", "is_p2p").get(pl.col("record_id").arg_max()),
            done().any().alias("over"),
        )
        .collect()
    )
    together = newest["pg_desc"].n_unique() == 1 and newest["over"].any()
    talks = wanted["is_p2p"].any() or newest["pg_desc"].struct.field("is_p2p").any()
    if talks or not together:
        return True
    ranks = wanted.select(pl.concat_list("waiting", "absent").explode().implode())
    made = (
        collectives.filter(
            ~pl.col("is_p2p").fill_null(False)
            & pl.col("pg_desc").is_in(
                wanted["pg_desc"].unique().implode(), nulls_equal=True
            )
            & pl.col("rank").is_in(ranks.to_series())
        )
        .select("rank", *GROUP, "seq", _place().alias("what"))
        .collect()
    )
    here = wanted.select("call", *GROUP, "seq", "waiting", "absent")
    now = (
        here.explode("waiting")
        .rename({"waiting": "rank"})
        .join(made, on=["rank", *GROUP, "seq"], nulls_equal=True)
        .select("call", "what")
        .unique()
    )
    before = (
        here.select("call", *GROUP, "absent")
        .explode("absent")
        .rename({"absent": "rank"})
        .join(made, on=["rank", *GROUP], nulls_equal=True)
        .select("call", "rank", "what")
    )
    # to ranks that are in their first step every call is new
    if not before.is_duplicated().any():
        return True
    return not now.join(before, on=["call", "what"], how="semi").is_empty()
