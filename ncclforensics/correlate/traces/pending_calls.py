"""The calls that may block a rank, in the order in which it made them.

A rank is held up by its first unfinished call that no later call has passed; what it
enqueued after that one proves nothing. The messages of a batch are in flight at once,
so a rank may be held up in several.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.correlate.traces.progress import ROOTED, is_one
from ncclforensics.model.frames import once_if_empty
from ncclforensics.model.tables import begun

# columns that are equal on all ranks of one call; the number of a P2P call is its
# rank's own, so `src` and `dst` take its place
SAME = ("group", "seq", "src", "dst")
# the half of a message that its other side posts
OTHER_SIDE = {"send": "recv", "recv": "send"}


@once_if_empty()
def held_up(
    open_calls: pl.DataFrame,
    made: pl.DataFrame,
    standings: pl.DataFrame,
    members: pl.DataFrame,
) -> pl.DataFrame:
    """Return the calls that may hold up each rank, the likeliest first (`choice` 0).

    `open_calls` are unfinished collectives with `group`, `made` is their summary,
    `members` has the `members` of each `group`. A rank without open calls gets the call
    that its watchdog gave up. P2P calls get global `src` and `dst`, and `members` of
    the two; a receive from any rank has no `src`. `members` of other calls may be null:
    those of the group.
    """
    from_dumps = _of_dumps(open_calls, made, standings, members)
    waits = pl.col("waits_in").is_not_null() & pl.col("rank").is_not_null()
    from_logs = (
        standings.filter(waits)
        .join(from_dumps, on="rank", how="anti")
        .sort("rank", "t", maintain_order=True)
        .with_columns(
            pl.lit(None, members.schema["members"]).alias("members"),
            pl.col("waits_in").alias("seq"),
            pl.lit(False).alias("is_p2p"),
            # a line of a timeout does not tell whether the GPU had begun the call
            pl.lit(None, pl.Boolean).alias("started"),
            pl.lit(0).cast(pl.Int64).alias("choice"),
            pl.lit(None, pl.Int64).alias("src"),
            pl.lit(None, pl.Int64).alias("dst"),
            pl.lit(None, pl.UInt64).alias("stack"),
        )
        .select(from_dumps.columns)
    )
    return pl.concat([from_dumps, from_logs]).sort("rank", "choice")


@once_if_empty(decided_by=1)
def _of_dumps(
    open_calls: pl.DataFrame,
    made: pl.DataFrame,
    standings: pl.DataFrame,
    members: pl.DataFrame,
) -> pl.DataFrame:
    newest_done = made.group_by("rank").agg(pl.col("newest_done").max())
    p2p = pl.col("is_p2p").fill_null(False)
    passed = (pl.col("record_id") < pl.col("newest_done")).fill_null(False)
    ordered = (
        open_calls.drop_nulls("rank")
        .join(newest_done, on="rank", how="left", maintain_order="left")
        .with_columns(passed.alias("passed"))
        .sort("rank", "passed", p2p & pl.col("passed"), "record_id")
    )
    ordered = _without_delivered(ordered, standings)
    marked = bool(made["marks_p2p"].any())
    if not marked:
        # no message is marked as finished: those that were passed prove nothing
        ordered = ordered.filter(~(p2p & pl.col("passed")))
    # the first call that no later one passed, and the first collective that one did
    chosen = ordered.filter(
        pl.int_range(pl.len()).over("rank", "passed", p2p & pl.col("passed")) == 0
    )
    numbered = _in_turn(ordered, chosen, of_messages=marked).with_columns(
        pl.int_range(pl.len()).over("rank").alias("choice")
    )
    both = pl.concat([numbered, _batched(ordered, numbered)])
    # only messages need the member list here; one list per rank would be quadratic
    named = both.filter(p2p)["group"].unique()
    ends = members.filter(pl.col("group").is_in(named.implode()))
    # if no message was ever marked as started, this one may have been
    timed = pl.col("rank").is_in(made.filter("times_p2p")["rank"].implode())
    return _with_ends(both.join(ends, on="group", how="left")).select(
        "rank",
        "choice",
        *(*SAME[:2], "pg", "pg_desc", "op", "is_p2p", "members", "src", "dst"),
        pl.when(~p2p | timed).then(begun()).alias("started"),
        *("stack", "t", "source", "line"),
    )


def _without_delivered(
    open_calls: pl.DataFrame, standings: pl.DataFrame
) -> pl.DataFrame:
    """Drop the messages of ranks that peers have passed in a collective.

    The rank's GPU is in that collective: the others finished it with what the rank had
    sent.
    """
    known = standings.filter(is_one())
    front = known.group_by("group").agg(pl.col("completed").max().alias("front"))
    p2p = pl.col("is_p2p").fill_null(False)
    behind = (
        open_calls.filter(~p2p & ~pl.col("op").is_in(ROOTED))
        .join(front, on="group")
        .filter(pl.col("seq") <= pl.col("front"))["rank"]
    )
    return open_calls.filter(~(p2p & pl.col("rank").is_in(behind.implode())))


def _in_turn(
    open_calls: pl.DataFrame, chosen: pl.DataFrame, *, of_messages: bool
) -> pl.DataFrame:
    """Replace each chosen call with the oldest open call of its stream.

    Collectives of one group end in order, whatever calls of other groups do meanwhile,
    and so do the messages between two ranks. If messages are not marked when they are
    over (not `of_messages`), none is known to be open, and the chosen ones are kept.
    """
    place = chosen.with_row_index("place")
    stream = ["rank", "group", "p2p", "low", "high"]
    oldest = (
        _with_stream(open_calls)
        .sort("record_id", maintain_order=True)
        .unique(stream, keep="first", maintain_order=True)
        .drop("passed")
    )
    told = ~pl.col("is_p2p").fill_null(False) | pl.lit(of_messages)
    taken = _with_stream(place.filter(told)).select("place", "passed", *stream)
    return (
        pl.concat(
            [
                place.filter(~told),
                taken.join(oldest, on=stream, nulls_equal=True).select(place.columns),
            ]
        )
        .sort("place")
        .drop("place")
    )


def _with_stream(calls: pl.DataFrame) -> pl.DataFrame:
    """Add what identifies a call's stream beside its group: for messages, both ends."""
    p2p = pl.col("is_p2p").fill_null(False)
    return calls.with_columns(
        p2p.alias("p2p"),
        pl.when(p2p).then(pl.min_horizontal("src", "dst")).alias("low"),
        pl.when(p2p).then(pl.max_horizontal("src", "dst")).alias("high"),
    )


def _batched(open_calls: pl.DataFrame, chosen: pl.DataFrame) -> pl.DataFrame:
    """Return the other open messages of the batches whose first one was chosen."""
    batch = ["rank", "group", "seq", "p2p_seq"]
    first = chosen.filter(pl.col("is_p2p").fill_null(False)).drop_nulls("p2p_seq")
    if first.is_empty():
        return chosen.clear()
    halves = open_calls.filter(pl.col("op").is_in(list(OTHER_SIDE)))
    return (
        halves.join(first.select(*batch, "choice"), on=batch, nulls_equal=True)
        .join(first.select("rank", "record_id"), on=["rank", "record_id"], how="anti")
        .select(chosen.columns)
    )


def _with_ends(calls: pl.DataFrame) -> pl.DataFrame:
    """Turn `src` and `dst` into global ranks, and P2P `members` into both of them."""
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
