"""How far each rank came in each process group, from dumps and logs together.

A group is identified by its name and its members, never by `pg_id`, which counts the
groups of one process. A dump shows for every call whether it finished; a watchdog line
shows which call its rank gave up. Both count calls per group, so both give a standing.

Finished means: `completed`, or `retired` on a backend that retires what it finishes
(Gloo; NCCL retires what it aborts, too), or not above the group's last completed call.
A rank that reports a failure did not finish its last call on Gloo, retired or not. A
P2P call that later ones between the same two ranks have passed is finished as well:
batched P2P entries of NCCL are often never marked (pytorch#137969).
"""

from __future__ import annotations

import polars as pl

from ncclforensics.correlate.traces.positions import first_open, since
from ncclforensics.model import tables
from ncclforensics.model.frames import once_if_empty
from ncclforensics.model.plans import collected
from ncclforensics.model.tables import begun, done

# operations that some members can finish before others have begun
ROOTED = (
    *("broadcast", "_broadcast_oop", "reduce", "_reduce_oop", "gather", "scatter"),
    *("coalesced", "send", "recv"),
)
# members may pass different sizes, or only some of them pass any
UNEVEN = (
    *("all_to_all", "all_to_all_single", "all_to_all_v_single", "all_gather_v"),
    *("reduce_scatter_v", "gather", "scatter", "all_gather", "_broadcast_oop"),
    *("ALLTOALL", "ALLTOALL_BASE", "GATHER", "SCATTER", "COALESCED", "ALLGATHER"),
    *("_reduce_oop", "coalesced", "BARRIER", "barrier", "monitored_barrier"),
)
# suffix of the name of a group whose members nothing lists
UNLISTED = "?"
# the names of such groups that have only a process's own number: several groups may
# have one of them, but for the default group's
NUMBERED = r"^\|\|[1-9]\d*\|\?$"
NAME = ("rank", "pg", "pg_desc", "pg_id")
KEY = ("rank", "group")


def is_one() -> pl.Expr:
    """Return whether the name in `group` is that of one group, on all ranks."""
    return ~pl.col("group").str.contains(NUMBERED)


def count(calls: pl.DataFrame, which: pl.Expr | None = None) -> pl.Expr:
    """Return how many calls the rows of an outline (or of all calls) stand for."""
    if "times" not in calls.columns:
        return pl.len() if which is None else which.sum()
    times = pl.col("times")
    return (times if which is None else times.filter(which)).sum()


def signature() -> pl.Expr:
    """Return a hash that identifies a call of a program, to compare it between ranks.

    It covers `op`, dtypes and sizes; sizes only for ops whose members pass equal ones.
    """
    even = pl.when(~pl.col("op").is_in(UNEVEN)).then("in_sizes")
    return pl.struct("op", even.alias("sizes"), "in_dtypes").hash(seed=0)


@once_if_empty(decided_by=1)
def summary(collectives: pl.DataFrame, failed: pl.Series) -> pl.DataFrame:
    """Return one row per rank, group name and source: a summary of its entries.

    `enqueued` is the highest number, `finished` the highest that is done, `proves` the
    highest that no member can have finished before all had made it; `newest` is the
    last entry's record id. `failed` are the ranks that report a failure: their last
    call on Gloo did not finish.
    """
    collective = pl.col("is_p2p").not_().fill_null(True)
    together = collective & ~pl.col("op").is_in(ROOTED)
    gave_up = pl.col("rank").is_in(failed.implode()) & (pl.col("backend") == "gloo")
    told = collectives.group_by(*NAME, "source", "backend", maintain_order=True).agg(
        pl.col("seq").max().alias("enqueued"),
        pl.col("seq").filter(done() & collective).max().alias("finished"),
        done().any().alias("has_done"),
        pl.col("is_p2p").any().fill_null(False).alias("has_p2p"),
        (pl.col("is_p2p") & done()).any().fill_null(False).alias("marks_p2p"),
        (pl.col("is_p2p") & pl.col("t_started").is_not_null())
        .any()
        .fill_null(False)
        .alias("times_p2p"),
        collective.any().alias("has_collective"),
        pl.col("line").last(),
        pl.col("record_id").min().alias("oldest"),
        pl.col("record_id").max().alias("newest"),
        pl.col("record_id").filter(done()).max().alias("newest_done"),
        count(collectives).alias("entries"),
        pl.col("t").min().alias("oldest_t"),
        pl.max_horizontal("t", "t_started", "t_completed").max().alias("newest_t"),
        begun().any().alias("timed"),
        (pl.col("retired") & ~done()).any().fill_null(False).alias("aborted"),
        pl.col("seq").filter(done() & together).max().alias("proves"),
    )
    # a call that others or this rank itself have passed did finish
    last = (
        gave_up
        & (pl.col("finished") == pl.col("enqueued"))
        & (pl.col("newest") == pl.col("newest").max().over("rank"))
        & (pl.col("enqueued") == pl.col("enqueued").max().over("pg", "pg_desc"))
    )
    return told.with_columns(
        pl.when(last.fill_null(False)).then(pl.col(c) - 1).otherwise(c).alias(c)
        for c in ("finished", "proves")
    )


@once_if_empty()
def name_groups(
    groups: pl.DataFrame, made: pl.DataFrame, positions: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the group of each rank's name for it, and the `members` of groups.

    The first frame is `rank pg pg_desc pg_id group`. `group` is the same on all members
    and differs between groups that share a name. The second is `group members`, the
    global ranks in the group's own order. If no evidence lists them, they are the ranks
    seen in a call of that name; of a group without a name and with a number other than
    0 they are unknown.
    """
    named = [part.select(NAME) for part in (made, positions)]
    used = pl.concat(named).unique(maintain_order=True).lazy()
    nameless = pl.col("pg").fill_null("") == ""
    listed = collected(
        groups.lazy()
        .filter(pl.col("members").list.len() > 0)
        .with_columns(pl.col("members").hash(seed=0).alias("hash"))
    ).lazy()
    by_name = (
        listed.filter(~nameless)
        .unique(["rank", "pg", "pg_desc"], keep="first", maintain_order=True)
        .select("rank", "pg", "pg_desc", "hash")
    )
    # a rank whose own evidence does not list the group takes the list of its peers,
    # if all of them agree
    agreed = (
        by_name.group_by("pg", "pg_desc")
        .agg(pl.col("hash").unique().alias("hashes"))
        .filter(pl.col("hashes").list.len() == 1)
        .select("pg", "pg_desc", pl.col("hashes").list.first().alias("agreed"))
    )
    with_name = (
        used.filter(~nameless)
        .join(by_name, on=["rank", "pg", "pg_desc"], how="left", nulls_equal=True)
        .join(agreed, on=["pg", "pg_desc"], how="left", nulls_equal=True)
        .join(_world(listed), on=["rank", "pg_desc"], how="left")
        .select(*NAME, pl.coalesce("hash", "agreed", "all"), pl.lit("").alias("turn"))
    )
    number = pl.col("pg_id").cast(pl.Int64, strict=False).alias("number")
    by_number = (
        listed.filter(nameless)
        .drop_nulls("pg_id")
        .unique(["rank", "pg_id"], keep="first", maintain_order=True)
        # two groups with the same members are distinguished by order of creation
        .with_columns(number.rank("dense").over("rank", "hash").cast(pl.String))
        .select("rank", "pg_id", "hash", pl.col("number").alias("turn"))
    )
    without_name = (
        used.filter(nameless)
        .join(by_number, on=["rank", "pg_id"], how="left")
        .with_columns(pl.coalesce("turn", "pg_id"))
    )
    both = collected(
        pl.concat([with_name, without_name]).with_columns(
            pl.concat_str(
                pl.col("pg").fill_null(""),
                pl.col("pg_desc").fill_null(""),
                pl.col("turn").fill_null(""),
                pl.col("hash").cast(pl.String).fill_null(UNLISTED),
                separator="|",
            ).alias("group")
        )
    )
    lists = listed.unique("hash", keep="first", maintain_order=True)
    known = (
        both.lazy()
        .drop_nulls("hash")
        .unique("group", keep="first", maintain_order=True)
        .join(lists.select("hash", "members"), on="hash", how="left")
        .select("group", "members")
    )
    seen = (
        both.lazy()
        .filter(pl.col("hash").is_null() & pl.col("rank").is_not_null())
        .filter(~nameless | (pl.col("pg_id") == "0"))
        .group_by("group", maintain_order=True)
        .agg(pl.col("rank").unique().sort().alias("members"))
    )
    return both.select(*NAME, "group"), collected(pl.concat([known, seen]))


def _world(listed: pl.LazyFrame) -> pl.LazyFrame:
    """Return the members of the default group if a dump lists it without its name.

    Gloo does so while there is no other group.
    """
    nameless = (pl.col("pg") == "") & pl.col("pg_desc").eq_missing("")
    found = listed.filter(nameless & (pl.len().over("source") == 1))
    return found.unique("rank", keep="first", maintain_order=True).select(
        "rank", pl.lit("default_pg").alias("pg_desc"), pl.col("hash").alias("all")
    )


@once_if_empty(decided_by=1)
def grouped(frame: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Add `group` to rows that name a group by `rank pg pg_desc pg_id`."""
    return frame.join(
        names, on=NAME, how="left", nulls_equal=True, maintain_order="left"
    )


def told_apart(collectives: pl.LazyFrame, names: pl.DataFrame) -> pl.LazyFrame:
    """Replace `pg` with the `group` if it names no group, or several."""
    vague = _vague(names)
    if vague.is_empty():
        return collectives
    told = vague.select(*NAME, pl.col("group").alias("_group"))
    return collectives.join(
        told.lazy(), on=NAME, how="left", nulls_equal=True, maintain_order="left"
    ).with_columns(pl.coalesce("_group", "pg").alias("pg"))


@once_if_empty(decided_by=1)
def _vague(names: pl.DataFrame) -> pl.DataFrame:
    """Return the names that stand for no group, or for several."""
    nameless = pl.col("pg").fill_null("") == ""
    shared = pl.col("group").n_unique().over("pg", "pg_desc") > 1
    return names.filter(nameless | shared)


@once_if_empty(decided_by=1)
def unfinished(
    collectives: pl.DataFrame,
    names: pl.DataFrame,
    positions: pl.DataFrame,
    failed: pl.Series,
    torn: pl.Series,
) -> pl.DataFrame:
    """Return the calls of `collectives` that did not finish, with `group`.

    `positions` have `group`; `failed` are the ranks that report a failure, `torn` those
    whose dump is cut: the entry that closes its last batch may be lost.
    """
    unmarked = collectives.filter(~done())
    gloo = collectives.filter(pl.col("backend") == "gloo")
    last = pl.col("record_id") == pl.col("record_id").max().over("rank")
    front = pl.col("seq") == pl.col("seq").max().over("pg", "pg_desc")
    gave_up = pl.col("rank").is_in(failed.implode())
    retired = gloo.filter(last & front).filter(gave_up & done())
    completed = (
        positions.lazy()
        .filter(pl.col("last_completed").is_not_null())
        .group_by(KEY)
        .agg(pl.col("last_completed").max())
    )
    ends = ("rank", "pg", "pg_desc", "src", "dst", "op")
    calls = collectives.lazy()
    passed = (
        calls.filter(pl.col("is_p2p") & done())
        .group_by(ends)
        .agg(pl.col("record_id").max().alias("passed"))
    )
    # the messages between two ranks are one stream: those before one that the GPU has
    # started are over
    pair = ("rank", "pg", "pg_desc", "low", "high")
    low, high = (f("src", "dst") for f in (pl.min_horizontal, pl.max_horizontal))
    now = (
        calls.filter(pl.col("is_p2p").fill_null(False) & begun() & ~done())
        .with_columns(low.alias("low"), high.alias("high"))
        .group_by(pair)
        .agg(pl.col("p2p_seq").max().alias("now"))
    )
    # the entry that closes a batch applies to the messages in it
    batched = (
        calls.filter(pl.col("op").str.ends_with("coalesced") & done())
        .group_by(NAME)
        .agg(pl.col("record_id").max().alias("batched"))
    )
    over = (
        pl.when(pl.col("is_p2p").fill_null(False))
        .then(
            (pl.col("record_id") < pl.max_horizontal("passed", "batched"))
            | (pl.col("p2p_seq") < pl.col("now")).fill_null(False)
            | (pl.col("rank").is_in(torn.implode()) & pl.col("batched").is_not_null())
        )
        .otherwise(pl.col("seq") <= pl.col("last_completed"))
        .fill_null(False)
    )
    return collected(
        grouped(pl.concat([unmarked, retired]), names)
        .lazy()
        .join(completed, on=KEY, how="left", maintain_order="left")
        .join(passed, on=ends, how="left", maintain_order="left", nulls_equal=True)
        .join(batched, on=NAME, how="left", maintain_order="left", nulls_equal=True)
        .with_columns(low.alias("low"), high.alias("high"))
        .join(now, on=pair, how="left", maintain_order="left", nulls_equal=True)
        .filter(~over)
        .drop("last_completed", "passed", "batched", "low", "high", "now")
    )


@once_if_empty()
def standings(
    made: pl.DataFrame, open_calls: pl.DataFrame, positions: pl.DataFrame
) -> pl.DataFrame:
    """Return the `standings` frame: how far each rank came in each group.

    `made` is the summary of all collectives and `open_calls` the unfinished ones, both
    with `group`; `positions` likewise.
    """
    about = ("pg", "pg_desc")
    collective = pl.col("is_p2p").not_().fill_null(True)
    first = (
        open_calls.lazy()
        .filter(collective)
        .sort("record_id", maintain_order=True)
        .group_by(KEY, maintain_order=True)
        .first()
        .select(
            *KEY,
            pl.col("seq").alias("waits_in"),
            "op",
            pl.col("record_id").alias("place"),
            "t",
            "source",
            "line",
        )
    )
    from_dumps = (
        made.lazy()
        .drop_nulls(["group", "rank"])
        .group_by(KEY, maintain_order=True)
        .agg(
            *(pl.col(c).first() for c in about),
            pl.col("enqueued").max(),
            pl.col("finished").max(),
            pl.col("source").last().alias("seen_in"),
            pl.col("line").last().alias("seen_at"),
        )
        .join(first, on=KEY, how="left")
    )
    from_logs = (
        first_open(positions.lazy().drop_nulls(["group", "rank"]))
        .group_by(KEY, maintain_order=True)
        .agg(
            *(pl.col(c).first() for c in about),
            pl.max_horizontal("last_enqueued", "timed_out")
            .max()
            .alias("told_enqueued"),
            pl.col("last_completed").max().alias("completed"),
            pl.col("timed_out").min(),
            pl.col("op").sort_by("timed_out", nulls_last=True).first().alias("told_op"),
            since().min().alias("told_t"),
            pl.col("source").first().alias("told_in"),
            pl.col("line").first().alias("told_at"),
        )
    )
    both = from_dumps.join(from_logs, on=KEY, how="full", coalesce=True, suffix="_told")
    in_dump = pl.col("source").is_not_null()
    # `finished` may include a retired failure: it ends before the first open call
    finished = pl.min_horizontal("finished", pl.col("waits_in") - 1)
    placed = collected(
        both.select(
            *KEY,
            *(pl.coalesce(c, f"{c}_told").alias(c) for c in about),
            pl.coalesce("waits_in", "timed_out").alias("waits_in"),
            pl.when(in_dump).then("op").otherwise("told_op").alias("op"),
            pl.max_horizontal("enqueued", "told_enqueued").alias("enqueued"),
            pl.max_horizontal(
                "completed",
                pl.when(pl.col("waits_in").is_null())
                .then("finished")
                .otherwise(finished),
            ).alias("completed"),
            "place",
            pl.when(in_dump).then("t").otherwise("told_t").alias("t"),
            pl.coalesce("source", "told_in", "seen_in").alias("source"),
            pl.when(in_dump)
            .then("line")
            .otherwise(pl.coalesce("told_at", "seen_at"))
            .alias("line"),
        ).sort("group", "rank")
    )
    return tables.conform("standings", placed)
