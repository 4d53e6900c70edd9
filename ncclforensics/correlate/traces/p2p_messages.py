"""Messages between two ranks: how many were posted, and which were delivered.

The number of a P2P call is its rank's own, so a message is identified by its two ends.
A batch completes only as a whole, though single messages of it may be delivered.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.correlate.traces.pending_calls import OTHER_SIDE
from ncclforensics.correlate.traces.progress import count
from ncclforensics.model.frames import once_if_empty
from ncclforensics.model.tables import done

ENDS = ("pg", "pg_desc", "src", "dst")


@once_if_empty(decided_by=1)
def messages(
    collectives: pl.DataFrame, names: pl.DataFrame, members: pl.DataFrame
) -> pl.DataFrame:
    """Return how many halves of messages (sends, receives) each rank posted.

    Columns `rank group src dst op total finished posted` with global ranks; the counts
    are Int64. `posted` counts those that are not finished.
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


def undelivered(
    held: pl.DataFrame, told: pl.DataFrame, evidence: pl.DataFrame
) -> pl.DataFrame:
    """Return `held` without messages of a batch that the other side has finished.

    They were delivered; the batch as a whole waits for its other messages.
    """
    whole = evidence.filter("whole")["rank"].implode()
    ends = ["rank", "group", "src", "dst", "op"]
    sent = pl.col("op") == "send"
    finished = told.select(*ends, "finished")
    batch = ["rank", "choice"]
    many = held.filter((pl.len().over(batch) > 1) & pl.col("op").is_in([*OTHER_SIDE]))
    if many.is_empty():
        return held
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
    # keep a batch that was delivered as a whole: its rank's GPU has not seen it end
    gone = held.join(left.select(batch).unique(), on=batch, how="anti")
    return pl.concat([left, gone]).sort("rank", "choice", maintain_order=True)


def posted(calls: pl.DataFrame, collectives: pl.LazyFrame) -> pl.DataFrame:
    """Return `calls` without absent peers whose ring buffer shows their half.

    A ring buffer that evicted its beginning is counted from the last collective that
    both sides made before the message: by then each has posted as many halves as the
    other. Without one, from the last halves that are over, which are of one message;
    not of batches, whose messages end together. A peer without such halves is unseen.
    """
    if calls.is_empty():
        return calls
    wanted = (
        calls.filter(
            pl.col("is_p2p").fill_null(False) & (pl.col("absent").list.len() == 1)
        )
        .select(
            *("call", "source", "line"),
            pl.col("op").replace_strict(OTHER_SIDE, default=None).alias("half"),
            pl.col("waiting").list.first().alias("waiter"),
            pl.col("absent").list.first().alias("peer"),
        )
        .drop_nulls(["half", "waiter"])
    )
    if wanted.is_empty():
        return calls
    ranks = pl.concat([wanted["waiter"], wanted["peer"]]).unique()
    made = (
        collectives.filter(pl.col("rank").is_in(ranks.implode()))
        .select(
            *("rank", "record_id", *ENDS, "seq", "op", "source", "line"),
            pl.col("is_p2p").fill_null(False),
            done().alias("done"),
        )
        .collect()
    )
    told = wanted.join(
        made.select(*ENDS, "op", "source", "line", pl.col("record_id").alias("held")),
        on=["source", "line"],
    )
    anchored = told.join(_anchors(told, made), on="call")
    apart = told.join(anchored, on="call", how="anti")
    state = pl.concat([_since(anchored, made), _from_end(apart, made)])
    with_state = calls.join(state, on="call", how="left", maintain_order="left")
    came = pl.col("came")
    return with_state.with_columns(
        *(
            pl.when(came == state).then("absent").otherwise(state).alias(state)
            for state in ("unseen", "done", "behind")
        ),
        pl.when(came.is_null())
        .then("absent")
        .otherwise(pl.col("absent").list.head(0))
        .alias("absent"),
    ).drop("came")


def _since(told: pl.DataFrame, made: pl.DataFrame) -> pl.DataFrame:
    """Return `call came` of calls with an anchor: "done", "behind", null if absent."""
    record = pl.col("record_id")
    own = _halves(told, made, "waiter", "op").filter(record.is_between("mine", "held"))
    other = _halves(told, made, "peer", "half").filter(record > pl.col("theirs"))
    wanted = own.group_by("call").agg(pl.len().alias("wanted"))
    posted = other.group_by("call").agg(
        pl.len().alias("posted"), pl.col("done").sum().alias("over")
    )
    return (
        told.select("call")
        .join(wanted, on="call", how="left")
        .join(posted, on="call")
        .select(
            "call",
            pl.when(pl.col("over") >= pl.col("wanted"))
            .then(pl.lit("done"))
            .when(pl.col("posted") >= pl.col("wanted"))
            .then(pl.lit("behind"))
            .alias("came"),
        )
    )


def _from_end(told: pl.DataFrame, made: pl.DataFrame) -> pl.DataFrame:
    """Return `call came` of calls whose peer's ring has wrapped, as `_since` does.

    Messages of one direction end in order, so whatever the peer posted after its last
    half that is over is in the ring, and meets the waiter's open halves one by one.
    """
    record = pl.col("record_id")
    cut_off = made.group_by(pl.col("rank").alias("peer")).agg(
        ((record.min() > 0) & (record.max() - record.min() < pl.len())).alias("wrapped")
    )
    told = told.join(cut_off.filter("wrapped"), on="peer")
    own = _halves(told, made, "waiter", "op").filter(record <= pl.col("held"))
    other = _halves(told, made, "peer", "half")
    is_open = ~pl.col("done")
    sides = [
        side.group_by("call").agg(is_open.sum().alias(name), pl.col("done").any())
        for side, name in ((own, "wanted"), (other, "posted"))
    ]
    batched = made.filter(pl.col("op").str.ends_with("coalesced"))["rank"].implode()
    whole = ~pl.any_horizontal(pl.col("waiter", "peer").is_in(batched))
    return (
        told.join(sides[0], on="call")
        .join(sides[1], on="call", suffix="_peer")
        .select(
            "call",
            pl.when(~(whole & pl.col("done") & pl.col("done_peer")))
            .then(pl.lit("unseen"))
            .when(pl.col("posted") >= pl.col("wanted"))
            .then(pl.lit("behind"))
            .alias("came"),
        )
    )


def _halves(
    told: pl.DataFrame, made: pl.DataFrame, who: str, half: str
) -> pl.DataFrame:
    """Return the halves of some calls' direction that their ranks `who` posted."""
    return told.join(
        made,
        left_on=[who, *ENDS, half],
        right_on=["rank", *ENDS, "op"],
        nulls_equal=True,
    )


def _anchors(told: pl.DataFrame, made: pl.DataFrame) -> pl.DataFrame:
    """Return `call mine theirs`: the last collective of both ends before a message.

    `mine` and `theirs` are its record ids on the two ranks.
    """
    key = (*ENDS[:2], "seq", "op")
    together = made.filter(
        ~pl.col("is_p2p") & ~pl.col("op").str.ends_with("coalesced")
    ).select("rank", *key, "record_id")
    return (
        told.select("call", "waiter", "peer", "held")
        .join(together.rename({"rank": "waiter", "record_id": "mine"}), on="waiter")
        .filter(pl.col("mine") < pl.col("held"))
        .join(
            together.rename({"rank": "peer", "record_id": "theirs"}),
            on=["peer", *key],
            nulls_equal=True,
        )
        .sort("mine")
        .unique("call", keep="last")
        .select("call", "mine", "theirs")
    )
