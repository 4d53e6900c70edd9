"""The calls that ranks are blocked in, and the state of each member there.

A rank is held up by its first unfinished call, in the order in which it made them, that
no later one has passed; what it enqueued after that proves nothing. Members of that
call are waiting in it, done with it, absent (they have evidence and never made it),
behind (they made it, but are held up in an earlier call) or unseen (no evidence was
given that would show it).
"""

from __future__ import annotations

import polars as pl

from ncclforensics.correlate.traces import p2p_messages
from ncclforensics.correlate.traces.pending_calls import OTHER_SIDE, SAME
from ncclforensics.correlate.traces.progress import KEY, ROOTED, is_one
from ncclforensics.model import tables
from ncclforensics.model.plans import collected

STATES = ("waiting", "behind", "done", "absent", "unseen")
# total members of all calls; a thousand calls of a group of 4,096 need half of it
MOST_MEMBERS = 1 << 23


def calls(
    held: pl.DataFrame,
    standings: pl.DataFrame,
    told: pl.DataFrame,
    evidence: pl.DataFrame,
    groups: pl.DataFrame,
) -> pl.DataFrame:
    """Return the `calls` frame: each call that holds up a rank, once.

    `told` is the result of `p2p_messages.messages`. `groups` has the `members` of each
    `group`; calls beyond MOST_MEMBERS rows in total are left out. `evidence` has `rank
    whole since is_sparse is_stale is_gloo` of every rank whose evidence would show its
    calls; see `rank_evidence.evidence`.
    """
    if held.is_empty():
        return tables.empty("calls")
    held = _begun(p2p_messages.undelivered(held, told, evidence))
    # a rank is also in a call that it made before the one that holds it, if later ones
    # passed it, and in the message that its GPU has started
    p2p = pl.col("is_p2p").fill_null(False)
    beside = held.filter(
        (pl.col("choice") > 0)
        & pl.when(p2p).then("started").otherwise(pl.col("seq").is_not_null())
    )
    beside = beside.pipe(_keyed).select("rank", *SAME, "is_p2p", "started")
    first = _calls(
        held.filter(pl.col("choice") == 0), beside, standings, told, evidence, groups
    )
    # all members came, so this call blocks none: it waits for an earlier one to end on
    # the GPU, which other calls have passed on the host
    full = first.filter(
        pl.all_horizontal(
            pl.col(c).list.len() == 0 for c in ("behind", "done", "absent", "unstarted")
        )
    )
    others = first.filter(~pl.col("call").is_in(full["call"].implode()))
    settled = pl.col("rank").is_in(full["waiting"].explode().implode()) & ~pl.col(
        "rank"
    ).is_in(others["waiting"].explode().implode())
    last = held.group_by("rank").agg(pl.col("choice").max().alias("last"))
    again = held.join(last, on="rank", how="left").filter(
        pl.col("choice") == pl.when(settled).then("last").otherwise(0)
    )
    if again.filter(pl.col("choice") > 0).is_empty():
        return first
    again = again.drop("last").sort("rank")
    return _calls(again, beside, standings, told, evidence, groups)


def _keyed(held: pl.DataFrame) -> pl.DataFrame:
    """Null the number of messages, which is a rank's own; keep it as `printed`."""
    p2p = pl.col("is_p2p").fill_null(False)
    return held.with_columns(
        pl.when(p2p).then(None).otherwise("seq").alias("seq"),
        pl.col("seq").alias("printed"),
    )


def _begun(held: pl.DataFrame) -> pl.DataFrame:
    """Take the call that a rank's GPU is in, if it has not started the likeliest.

    Calls of another group, and messages, run concurrently, so such a call may have
    passed it.
    """
    started = pl.col("started").fill_null(False)
    place = pl.col("choice")
    in_it = held.group_by("rank").agg(
        pl.col("started").filter(place == 0).any().alias("first"),
        place.filter(started & (place > 0)).min().alias("in_it"),
    )
    other = in_it.filter(~pl.col("first")).select("rank", "in_it")
    return (
        held.join(other, on="rank", how="left", maintain_order="left")
        .with_columns(place - pl.col("in_it").fill_null(0))
        .filter(place >= 0)
        .drop("in_it")
    )


def _calls(
    held: pl.DataFrame,
    beside: pl.DataFrame,
    standings: pl.DataFrame,
    told: pl.DataFrame,
    evidence: pl.DataFrame,
    groups: pl.DataFrame,
) -> pl.DataFrame:
    p2p = pl.col("is_p2p").fill_null(False)
    own = beside.filter(p2p & pl.col("started")).select(*SAME, "rank", mine=True)
    begun_beside = own.select(*SAME, begun=True)
    begun = pl.col("started").any() | pl.col("begun").any()
    # a dump whose last entries are lost does not show what its GPU has started
    stale = evidence.filter("is_stale")["rank"].implode()
    # one started message of a batch shows that the rank's GPU is in the batch
    mine = (pl.col("started") | pl.col("mine").fill_null(False)).any()
    of_each = (
        _keyed(held)
        .lazy()
        .join(
            begun_beside.lazy().unique(),
            on=SAME,
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
        .join(
            own.lazy().unique(),
            on=[*SAME, "rank"],
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
        .with_columns(mine.over(*SAME, "rank").alias("mine"))
        .group_by(SAME, maintain_order=True)
        .agg(
            pl.col("rank").alias("stuck"),
            *(
                pl.col(c).first()
                for c in ("pg", "pg_desc", "is_p2p", "members", "printed")
            ),
            pl.col("op").mode().sort().first(),
            pl.col("op").first().alias("half"),
            pl.when(begun)
            .then(
                pl.col("rank")
                .filter(
                    ~pl.col("started") & ~pl.col("mine") & ~pl.col("rank").is_in(stale)
                )
                .unique()
                .sort()
                .implode()
            )
            .otherwise(pl.lit([], pl.List(pl.Int64)))
            .alias("unstarted"),
            *(pl.col(c).first() for c in ("stack", "source", "line")),
            pl.col("t").min(),
        )
    )
    distinct = collected(
        _with_members(of_each, groups.lazy(), _left_behind(standings, evidence).lazy())
        .with_row_index("call")
        .with_columns(pl.col("call").cast(pl.Int64))
    )
    members = distinct.select(
        *("call", *SAME, "is_p2p", "half", "t"),
        pl.when(p2p).then(pl.col("stuck").list.first()).alias("waiter"),
        # if nothing lists the members, only those that came are known
        pl.coalesce("members", "stuck").alias("rank"),
    ).explode("rank")
    stuck = distinct.select("call", pl.col("stuck").alias("rank")).explode("rank")
    same = distinct.select("call", *SAME)
    also = same.join(beside, on=SAME, nulls_equal=True).select("call", "rank")
    stuck = pl.concat([stuck, also]).unique().with_columns(is_stuck=pl.lit(True))
    members = members.join(
        stuck, on=["call", "rank"], how="left", maintain_order="left"
    )
    states = _states(members, standings, told, evidence)
    # if a rank finished a call that needs all members, the unseen ones came too
    together = distinct.filter(
        ~pl.col("is_p2p").fill_null(False) & ~pl.col("op").is_in(ROOTED)
    )
    complete = pl.col("call").is_in(together["call"].implode())
    came = (pl.col("state") == "unseen") & (
        complete & pl.col("passed").any().over("call")
    )
    by_state = (
        states.with_columns(pl.when(~came).then("state").alias("state"))
        .group_by("call", maintain_order=True)
        .agg(
            # a group with unknown members has one row, with a null rank
            pl.col("rank")
            .filter(pl.col("state") == state)
            .drop_nulls()
            .sort()
            .alias(state)
            for state in STATES
        )
    )
    found = (
        distinct.with_columns(pl.col("printed").alias("seq"))
        .join(by_state, on="call", how="left", maintain_order="left")
        .with_columns(pl.col(STATES).fill_null([]))
    )
    return tables.picked("calls", found)


def _left_behind(standings: pl.DataFrame, evidence: pl.DataFrame) -> pl.DataFrame:
    """Return `group seq lone`: the one rank that has not made a call of its group.

    Of groups that are known by a number, which each process counts for itself: several
    groups have it. All members of a group have made all calls before the one that some
    wait in, so each of them has made one call less than those who wait for it. Where
    one rank has, others of that number wait for it. Only if all ranks left evidence.
    """
    shown = evidence.filter(~pl.col("is_stale"))["rank"]
    there = standings.filter(~is_one())
    if there.is_empty() or {*shown} != {*range(shown.len())}:
        return there.select("group", seq="enqueued", lone="rank").clear()
    return (
        there.filter(pl.col("waits_in").is_null())
        .group_by("group", (pl.col("enqueued") + 1).alias("seq"))
        .agg(pl.col("rank").first().alias("lone"), pl.len().alias("many"))
        .filter(pl.col("many") == 1)
        .drop("many")
    )


def _with_members(
    calls: pl.LazyFrame, groups: pl.LazyFrame, behind: pl.LazyFrame
) -> pl.LazyFrame:
    """Give calls their group's members, up to MOST_MEMBERS rows in total.

    The calls in which most ranks are stuck are kept first. Where nothing lists the
    members, they are those in the call and the one that is left `behind`.
    """
    of_group = groups.select("group", pl.col("members").alias("all"))
    size = groups.select("group", pl.col("members").list.len().alias("size"))
    own = pl.col("members").list.len()
    rows = pl.coalesce(own, "size").fill_null(0).cast(pl.Int64)
    most = pl.col("stuck").list.len()
    kept = (
        calls.join(size, on="group", how="left", maintain_order="left")
        .with_row_index("_order")
        .sort(most, descending=True, maintain_order=True)
        .filter(rows.cum_sum() <= MOST_MEMBERS)
        .sort("_order")
        .drop("_order", "size")
    )
    together = ~pl.col("is_p2p").fill_null(False) & ~pl.col("op").is_in(ROOTED)
    seen = pl.when(together & pl.col("lone").is_not_null()).then(
        pl.concat_list("stuck", "lone").list.unique().list.sort()
    )
    return (
        kept.join(of_group, on="group", how="left", maintain_order="left")
        .join(behind, on=["group", "seq"], how="left", maintain_order="left")
        .with_columns(pl.coalesce("members", "all", seen).alias("members"))
        .drop("all", "lone")
    )


def _states(
    members: pl.DataFrame,
    standings: pl.DataFrame,
    told: pl.DataFrame,
    evidence: pl.DataFrame,
) -> pl.DataFrame:
    """Return `call rank state passed` for every member of every call."""
    standing = standings.lazy().select(
        *KEY, "enqueued", "completed", "waits_in", pl.lit(True).alias("known")
    )
    sides = ["group", "src", "dst", "op"]
    known, side = evidence.lazy(), told.lazy()
    own = side.select(
        "rank", *sides, pl.col("finished").alias("mine"), pl.col("total").alias("all")
    )
    their_half = pl.col("half").replace_strict(OTHER_SIDE, default=None)
    both = (
        members.lazy()
        .with_columns(their_half.alias("op"))
        .join(known.with_columns(pl.lit(True).alias("seen")), on="rank", how="left")
        .join(standing, on=KEY, how="left")
        .join(side, on=["rank", *sides], how="left")
        .join(
            own,
            left_on=["waiter", *sides[:3], "half"],
            right_on=["rank", *sides],
            how="left",
        )
        .join(
            known.select(pl.col("rank").alias("waiter"), pl.col("whole").alias("w")),
            on="waiter",
            how="left",
        )
    )
    # the waiter's first open half comes after its finished ones
    wanted = pl.col("mine").fill_null(0) + 1
    counted = (pl.col("whole") & pl.col("w")).fill_null(False)
    posted = pl.when(counted).then(pl.col("total") >= wanted)
    p2p = (
        pl.when(counted & (pl.col("finished").fill_null(0) >= wanted))
        .then(pl.lit("done"))
        .when(posted.otherwise(pl.col("posted") > 0).fill_null(False))
        .then(pl.lit("behind"))
        .when(pl.col("is_stale"))
        .then(pl.lit("unseen"))
        .otherwise(pl.lit("absent"))
    )
    seq = pl.col("seq")
    passed = (pl.col("completed") >= seq) | (pl.col("waits_in") > seq)
    joined = pl.col("enqueued") >= seq
    held_here = pl.col("waits_in").is_not_null()
    # its ring may have lost the entry of a call that its counters call open
    is_open = pl.col("completed").is_between(1, seq - 1) & pl.col("since").is_not_null()
    is_open = is_open.fill_null(False)
    unknown = (
        pl.col("is_stale")
        | (pl.col("known").is_not_null() & pl.col("enqueued").is_null())
        | (
            pl.col("known").is_null()
            & ~pl.col("whole")
            & (pl.col("is_sparse") | (pl.col("t") < pl.col("since")))
        )
    )
    state = (
        pl.when(pl.col("is_stuck").fill_null(False))
        .then(pl.lit("waiting"))
        .when(pl.col("seen").is_null())
        .then(pl.lit("unseen"))
        .when(pl.col("is_p2p").fill_null(False))
        .then(p2p)
        .when(passed.fill_null(False))
        .then(pl.lit("done"))
        .when((joined & ~held_here & pl.col("is_stale")).fill_null(False))
        .then(pl.lit("unseen"))
        .when(joined.fill_null(False))
        .then(
            pl.when(held_here | is_open)
            .then(pl.lit("behind"))
            .otherwise(pl.lit("done"))
        )
        .when(unknown.fill_null(False))
        .then(pl.lit("unseen"))
        .otherwise(pl.lit("absent"))
    )
    over = passed.fill_null(False) & ~pl.col("is_gloo").fill_null(True)
    over &= state == "done"
    told_of = both.select("call", "rank", state.alias("state"), over.alias("passed"))
    each = ["call", "rank"]
    return collected(told_of.unique(each, keep="first", maintain_order=True))
