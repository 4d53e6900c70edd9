"""The calls that ranks cannot get past, and what each member does about them.

A rank is held up by its first unfinished call that nothing it made later has passed, in
the order in which it made them; what it enqueued behind that one says nothing. Members
of that call are waiting in it, done with it, absent (they have evidence and never made
it), behind (they made it, and are held up in an earlier call themselves) or unseen
(nothing of them was given that would show it).
"""

from __future__ import annotations

import polars as pl

from ncclforensics import tables
from ncclforensics.correlate.standings import KEY, count

STATES = ("waiting", "behind", "done", "absent", "unseen")
# what two sides have to agree on to be in one call; the number of a P2P call is its
# rank's own, so the two sides take its place
SAME = ("group", "seq", "src", "dst")
OTHER_SIDE = {"send": "recv", "recv": "send"}


def held_up(
    open_calls: pl.DataFrame,
    made: pl.DataFrame,
    standings: pl.DataFrame,
    members: pl.DataFrame,
) -> pl.DataFrame:
    """Return the calls that may hold up each rank, the likeliest first (`choice`).

    `open_calls` are unfinished collectives with `group`, `made` their summary,
    `members` has the `members` of each `group`. A rank without any
    takes the call that its watchdog gave up. P2P calls get global `src` and `dst`, and
    `members` of the two; a receive from anybody has no `src`.
    """
    newest_done = made.group_by("rank").agg(pl.col("newest_done").max())
    p2p = pl.col("is_p2p").fill_null(False)
    passed = (pl.col("record_id") < pl.col("newest_done")).fill_null(False)
    ordered = (
        open_calls.drop_nulls("rank")
        .join(newest_done, on="rank", how="left", maintain_order="left")
        .with_columns(passed.alias("passed"))
        .sort("rank", "passed", p2p & pl.col("passed"), "record_id")
    )
    if not made["marks_p2p"].any():
        # nobody's messages are marked as over: those that were passed tell nothing
        ordered = ordered.filter(~(p2p & pl.col("passed")))
    # the first that nothing passed, and the first collective that something did
    chosen = ordered.filter(
        pl.int_range(pl.len()).over("rank", "passed", p2p & pl.col("passed")) == 0
    )
    numbered = chosen.with_columns(pl.int_range(pl.len()).over("rank").alias("choice"))
    both = pl.concat([numbered, _batched(ordered, numbered)])
    from_dumps = _ends(both.join(members, on="group", how="left")).select(
        "rank",
        "choice",
        *(*SAME[:2], "pg", "pg_desc", "op", "is_p2p", "members", "src", "dst"),
        (pl.col("t_started").is_not_null() | (pl.col("state") == "started"))
        .fill_null(False)
        .alias("started"),
        *("stack", "t", "source", "line"),
    )
    waits = pl.col("waits_in").is_not_null() & pl.col("rank").is_not_null()
    from_logs = (
        standings.filter(waits)
        .join(from_dumps, on="rank", how="anti")
        .sort("rank", "t", maintain_order=True)
        .group_by("rank", maintain_order=True)
        .first()
        .join(members, on="group", how="left", maintain_order="left")
        .with_columns(
            pl.col("waits_in").alias("seq"),
            pl.lit(False).alias("is_p2p"),
            pl.lit(False).alias("started"),
            pl.lit(0).cast(pl.Int64).alias("choice"),
            pl.lit(None, pl.Int64).alias("src"),
            pl.lit(None, pl.Int64).alias("dst"),
            pl.lit(None, pl.UInt64).alias("stack"),
        )
        .select(from_dumps.columns)
    )
    return pl.concat([from_dumps, from_logs]).sort("rank", "choice")


def _batched(open_calls: pl.DataFrame, chosen: pl.DataFrame) -> pl.DataFrame:
    """Return the other open messages of the batches whose first one was chosen."""
    batch = ["rank", "group", "p2p_seq"]
    first = chosen.filter(pl.col("is_p2p").fill_null(False)).drop_nulls("p2p_seq")
    if first.is_empty():
        return chosen.clear()
    halves = open_calls.filter(pl.col("op").is_in(list(OTHER_SIDE)))
    return (
        halves.join(first.select(*batch, "choice"), on=batch, how="inner")
        .join(first.select("rank", "record_id"), on=["rank", "record_id"], how="anti")
        .select(chosen.columns)
    )


def _ends(calls: pl.DataFrame) -> pl.DataFrame:
    """Turn `src` and `dst` into global ranks, and `members` of P2P calls into both."""
    p2p = pl.col("is_p2p").fill_null(False)
    members = pl.col("members")
    sender = pl.when(p2p).then(members.list.get(pl.col("src"), null_on_oob=True))
    receiver = pl.when(p2p).then(members.list.get(pl.col("dst"), null_on_oob=True))
    return calls.with_columns(sender.alias("src"), receiver.alias("dst")).with_columns(
        pl.when(p2p)
        .then(pl.concat_list("src", "dst").list.drop_nulls())
        .otherwise(members)
        .alias("members")
    )


def messages(
    collectives: pl.DataFrame, names: pl.DataFrame, members: pl.DataFrame
) -> pl.DataFrame:
    """Return how many halves of messages each rank posted.

    `rank group src dst op total finished posted` with global ranks; `posted` counts
    those that are not over.
    """
    ends = ("rank", "pg", "pg_desc", "pg_id", "src", "dst", "op")
    over = (pl.col("state") == "completed").fill_null(False)
    return (
        collectives.filter(pl.col("is_p2p").fill_null(False))
        .group_by(ends)
        .agg(
            count(collectives).cast(pl.Int64).alias("total"),
            count(collectives, over).cast(pl.Int64).alias("finished"),
        )
        .join(names, on=["rank", "pg", "pg_desc", "pg_id"], nulls_equal=True)
        .join(members, on="group", how="left")
        .with_columns(
            pl.col("members").list.get(pl.col("src"), null_on_oob=True).alias("src"),
            pl.col("members").list.get(pl.col("dst"), null_on_oob=True).alias("dst"),
            (pl.col("total") - pl.col("finished")).alias("posted"),
        )
        .select("rank", "group", "src", "dst", "op", "total", "finished", "posted")
    )


def calls(
    held: pl.DataFrame,
    standings: pl.DataFrame,
    told: pl.DataFrame,
    evidence: pl.DataFrame,
) -> pl.DataFrame:
    """Return the `calls` frame: each call that holds somebody up, once.

    `told` are `messages`. `evidence` has `rank whole since is_sparse is_stale` of every
    rank whose evidence would show its calls; see `rest.evidence`.
    """
    held = _undelivered(held, told, evidence)
    first = _calls(held.filter(pl.col("choice") == 0), standings, told, evidence)
    # everybody came, so this call holds nobody up: it waits for an earlier one to end
    # on the GPU, which other calls have passed on the host
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
    return _calls(again.drop("last").sort("rank"), standings, told, evidence)


def _undelivered(
    held: pl.DataFrame, told: pl.DataFrame, evidence: pl.DataFrame
) -> pl.DataFrame:
    """Leave out the messages of a batch that the other side has finished.

    They were delivered; the batch as a whole waits for its other messages.
    """
    whole = evidence.filter("whole")["rank"].implode()
    ends = ["rank", "group", "src", "dst", "op"]
    sent = pl.col("op") == "send"
    finished = told.select(*ends, "finished")
    batch = ["rank", "choice"]
    many = held.filter((pl.len().over(batch) > 1) & pl.col("op").is_in([*OTHER_SIDE]))
    over = (
        many.select(*batch, *ends[1:])
        .with_columns(
            pl.when(sent).then("dst").otherwise("src").alias("peer"),
            pl.when(sent).then(pl.lit("recv")).otherwise(pl.lit("send")).alias("half"),
        )
        .filter(pl.col("rank").is_in(whole) & pl.col("peer").is_in(whole))
        .join(finished, on=ends, how="inner")
        .join(
            finished.rename({"rank": "peer", "op": "half", "finished": "theirs"}),
            on=["peer", "group", "src", "dst", "half"],
            how="inner",
        )
        .filter(pl.col("theirs") > pl.col("finished"))
        .select(*batch, *ends[1:])
        .unique()
    )
    if over.is_empty():
        return held
    left = held.join(over, on=[*batch, *ends[1:]], how="anti", nulls_equal=True)
    # of a batch that was delivered as a whole, its rank's GPU has not seen the end
    gone = held.join(left.select(batch).unique(), on=batch, how="anti")
    return pl.concat([left, gone]).sort("rank", "choice", maintain_order=True)


def _calls(
    held: pl.DataFrame,
    standings: pl.DataFrame,
    told: pl.DataFrame,
    evidence: pl.DataFrame,
) -> pl.DataFrame:
    p2p = pl.col("is_p2p").fill_null(False)
    keyed = held.with_columns(
        pl.when(p2p).then(None).otherwise("seq").alias("seq"),
        pl.col("seq").alias("printed"),
    )
    begun = pl.col("started").any()
    distinct = (
        keyed.group_by(SAME, maintain_order=True)
        .agg(
            pl.col("rank").alias("stuck"),
            *(
                pl.col(c).first()
                for c in ("pg", "pg_desc", "is_p2p", "members", "printed")
            ),
            pl.col("op").mode().sort().first(),
            pl.col("op").first().alias("half"),
            pl.when(begun)
            .then(pl.col("rank").filter(~pl.col("started")).implode())
            .otherwise(pl.lit([], pl.List(pl.Int64)))
            .alias("unstarted"),
            *(pl.col(c).first() for c in ("stack", "source", "line")),
            pl.col("t").min(),
        )
        .with_row_index("call")
        .with_columns(pl.col("call").cast(pl.Int64))
    )
    members = distinct.select(
        *("call", *SAME, "stuck", "is_p2p", "half", "t"),
        pl.col("members").alias("rank"),
    ).explode("rank")
    states = _states(members, standings, told, evidence)
    by_state = states.group_by("call", maintain_order=True).agg(
        pl.col("rank").filter(pl.col("state") == state).sort().alias(state)
        for state in STATES
    )
    found = distinct.with_columns(pl.col("printed").alias("seq")).join(
        by_state, on="call", how="left", maintain_order="left"
    )
    schema = tables.SCHEMAS["calls"]
    return tables.conform(
        "calls", found.select(c for c in found.columns if c in schema)
    )


def unreached(
    stuck: pl.DataFrame,
    open_calls: pl.DataFrame,
    members: pl.DataFrame,
    standings: pl.DataFrame,
    evidence: pl.DataFrame,
) -> pl.DataFrame:
    """Return calls that peers made behind the one that holds them, and a rank did not.

    Nothing holds that rank: it waits in no call, nobody has yet come as far as to wait
    for it, and all others hang. The frame is that of `calls`, numbered on from `stuck`.
    """
    busy = pl.concat([open_calls["rank"], stuck["waiting"].explode()]).drop_nulls()
    wanted = pl.concat([stuck["absent"].explode(), stuck["unseen"].explode()])
    idle = evidence.filter(
        ~pl.col("is_stale")
        & ~pl.col("rank").is_in(pl.concat([busy, wanted]).implode())
        & pl.col("rank").is_in(standings["rank"].implode())
    ).select("rank")
    if idle.is_empty() or stuck.is_empty():
        return stuck.clear()
    made = open_calls.filter(~pl.col("is_p2p").fill_null(False)).drop_nulls("seq")
    behind = (
        idle.join(members.explode("members"), left_on="rank", right_on="members")
        .join(standings.select(*KEY, "enqueued"), on=KEY)
        .join(made.drop("rank"), on="group")
        .filter(pl.col("seq") > pl.col("enqueued"))
        .sort("rank", "seq", "group")
        .unique("rank", keep="first", maintain_order=True)
    )
    if behind.is_empty():
        return stuck.clear()
    here = behind.group_by("group", "seq", maintain_order=True).agg(
        pl.col("rank").alias("absent"),
        *(
            pl.col(c).first()
            for c in ("pg", "pg_desc", "op", "stack", "source", "line")
        ),
        pl.col("t").min(),
    )
    came = made.join(here.select("group", "seq"), on=["group", "seq"]).group_by(
        "group", "seq"
    )
    told = here.join(
        came.agg(pl.col("rank").unique().sort().alias("behind")), on=["group", "seq"]
    )
    none = pl.lit([], pl.List(pl.Int64()))
    number = pl.int_range(pl.len()) + stuck["call"].max() + 1
    return tables.conform(
        "calls",
        told.join(members, on="group", how="left", maintain_order="left").with_columns(
            number.alias("call"),
            pl.lit(False).alias("is_p2p"),
            *(none.alias(c) for c in ("waiting", "done", "unseen", "unstarted")),
        ),
    )


def _states(
    members: pl.DataFrame,
    standings: pl.DataFrame,
    told: pl.DataFrame,
    evidence: pl.DataFrame,
) -> pl.DataFrame:
    """Return `call rank state` for every member of every call."""
    standing = standings.select(
        *KEY, "enqueued", "completed", "waits_in", pl.lit(True).alias("known")
    )
    sides = ["group", "src", "dst", "op"]
    own = told.select(
        "rank", *sides, pl.col("finished").alias("mine"), pl.col("total").alias("all")
    )
    their_half = pl.col("half").replace_strict(OTHER_SIDE, default=None)
    ends = pl.when(pl.col("is_p2p")).then(pl.col("stuck").list.first())
    both = (
        members.with_columns(their_half.alias("op"), ends.alias("waiter"))
        .join(evidence.with_columns(pl.lit(True).alias("seen")), on="rank", how="left")
        .join(standing, on=KEY, how="left")
        .join(told, on=["rank", *sides], how="left")
        .join(
            own,
            left_on=["waiter", *sides[:3], "half"],
            right_on=["rank", *sides],
            how="left",
        )
        .join(
            evidence.select(pl.col("rank").alias("waiter"), pl.col("whole").alias("w")),
            on="waiter",
            how="left",
        )
    )
    # the waiter's first open half is the one behind those that are over
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
    unknown = (
        pl.col("is_stale")
        | (pl.col("known").is_not_null() & pl.col("enqueued").is_null())
        | (
            pl.col("known").is_null()
            & (pl.col("is_sparse") | (pl.col("t") < pl.col("since")))
        )
    )
    state = (
        pl.when(pl.col("stuck").list.contains(pl.col("rank")))
        .then(pl.lit("waiting"))
        .when(pl.col("seen").is_null())
        .then(pl.lit("unseen"))
        .when(pl.col("is_p2p").fill_null(False))
        .then(p2p)
        .when(passed.fill_null(False))
        .then(pl.lit("done"))
        .when(joined.fill_null(False))
        .then(pl.when(held_here).then(pl.lit("behind")).otherwise(pl.lit("done")))
        .when(unknown.fill_null(False))
        .then(pl.lit("unseen"))
        .otherwise(pl.lit("absent"))
    )
    return both.select("call", "rank", state.alias("state")).unique(
        ["call", "rank"], keep="first", maintain_order=True
    )
