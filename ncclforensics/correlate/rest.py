"""Has the job come to rest, and whose evidence shows that a call was never made?

Dumps can be asked of a job that runs. Then a rank is not late because its file is a
moment older than its peers', which is seen where a peer finished a call that needs all
members and this file does not have it yet. A hang is proved by a line or an exit that
tells of a failure or by a call that was given up. Without such proof a job counts as
hung only if nearly all that is known of it hangs on the same few; where ranks go on, it
runs; and what is left is a doubt, in which nobody is accused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import polars as pl

from ncclforensics.correlate import arrivals, job, moments, outline, waits
from ncclforensics.correlate.standings import KEY, ROOTED
from ncclforensics.tables import FAILING, done

if TYPE_CHECKING:
    from ncclforensics.frames import Frames

Rest = Literal["still", "doubtful", "moves"]

# of a job that stands still, at most this share of the ranks hangs on nothing, and of
# a large one at most so few
FREE = 1 / 10
FREE_OF_MANY = 1 / 32
# more ranks than these, or than this share, do not fall behind their peers at once
FEW = 2
FEW_OF = 1 / 8
# nor does so large a share stop making calls at once, and never a quarter
MANY_OF = 1 / 8
QUARTER = 1 / 4
# a rank that is fewer calls behind its peers may only have dumped a moment earlier
SKEW = 4


def failed(frames: Frames) -> pl.Series:
    """Return the ranks that failed by their own words, or by their exit code.

    A process that its agent ended by a signal had not failed before.
    """
    lines = frames["events"].filter(pl.col("role").is_in(FAILING))
    ended = frames["exits"].filter(pl.col("code") > 0)
    return pl.concat([lines["rank"], ended["rank"]]).drop_nulls().unique().sort()


def given_up(collectives: pl.DataFrame) -> pl.Series:
    """Return the ranks that gave up a call of Gloo's, which counts as retired then.

    A member made it when theirs had passed its timeout. By how much two clocks differ
    the members' earlier calls in that group tell; without such nobody gave up.
    """
    gloo = collectives.filter(
        (pl.col("backend") == "gloo") & ~pl.col("op").is_in(ROOTED)
    ).drop_nulls(["rank", "seq", "t", "timeout_ms"])
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
    frames: Frames, made: pl.DataFrame, standings: pl.DataFrame
) -> pl.DataFrame:
    """Return the ranks of which there is evidence that would show the calls they made.

    That is a dump, even one without entries, or a position in a group. `whole` says
    that all calls since the start are there, `since` when the oldest was made,
    `is_sparse` that calls in between are left out, `is_stale` that the last ones are,
    `is_older` that this is because the dump is older than its peers'. What holds an
    `is_blind` rank has left its ring: all that is kept is open. Of an `is_gloo` rank a
    call that ended may have failed.
    """
    dumps = frames["sources"].filter(outline.is_dump() & (pl.col("bytes") > 0))
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
    # where nobody's dump has a finished call, such calls were not dumped
    active_only = bool(told.height) and not told["has_done"].any()
    torn = pl.col("rank").is_in(dumps.filter("cut")["rank"].drop_nulls().implode())
    older = pl.col("rank").is_in(_older(made, standings).implode())
    # nor does a dump without entries tell anything, unless only open calls are dumped
    told_of = pl.concat([frames["positions"]["rank"], made["rank"]]).drop_nulls()
    void = ~pl.col("rank").is_in(told_of.implode()) & pl.lit(not active_only)
    void |= pl.col("rank").is_in(outline.emptied(frames).implode())
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


def _older(made: pl.DataFrame, standings: pl.DataFrame) -> pl.Series:
    """Return the ranks of which a peer finished a call that they had not yet made."""
    front = made.drop_nulls("group").group_by("group").agg(pl.col("proves").max())
    behind = (
        standings.join(made.select(KEY).unique(), on=KEY, how="semi")
        .join(front, on="group")
        .filter(pl.col("enqueued") < pl.col("proves"))
    )
    return behind["rank"].unique()


def mute(collectives: pl.DataFrame) -> set[int]:
    """Return the ranks that send or receive what their recorder leaves out.

    Gloo records no messages, but numbers them among its operations.
    """
    steps = [pl.col(c).max() - pl.col(c).min() for c in ("op_id", "seq")]
    gloo = collectives.filter(pl.col("backend") == "gloo").drop_nulls(["op_id", "seq"])
    counted = gloo.group_by("rank", "pg", "pg_id").agg((steps[0] > steps[1]).alias("x"))
    return set(counted.filter("x")["rank"].drop_nulls())


def is_told(frames: Frames) -> bool:
    """Whether a line or an exit tells that the job failed, and not calls alone.

    What a kernel or driver prints of its machine need not have touched the job.
    """
    told = not job.failing(frames).is_empty()
    return told or bool((frames["exits"]["code"] != 0).any())


def judged(
    calls: pl.DataFrame,
    roots: pl.DataFrame,
    standings: pl.DataFrame,
    seen: pl.DataFrame,
    collectives: pl.LazyFrame,
    outline_: pl.DataFrame,
    stacks: pl.DataFrame,
) -> Rest:
    """Say whether the open calls alone show a job that stands still as a whole.

    Of what is not known, because a dump is torn or lost, nothing is concluded either
    way. `seen` is the `evidence`, `outline_` the outline of all `collectives`.
    """
    told = waits.graph(calls)
    accused = roots.filter(pl.col("why") != "stuck")
    if moments.are_fresh(outline_, accused["rank"]):
        return "moves"
    circling = {rank for circle in waits.circles(calls) for rank in circle}
    unseen = set(calls["unseen"].explode().drop_nulls())
    blind = set(seen.filter("is_blind")["rank"])
    # who else belongs to a group that nothing lists may not have come
    unlisted = set(calls.filter(pl.col("members").list.len().fill_null(0) == 0)["call"])
    moving = _joined(
        [
            ranks
            for call, wanted in told.why.items()
            if not wanted
            and call not in told.done
            and call not in unlisted
            and not (ranks := set(told.waiters[call])) <= blind
        ]
    )
    ends = {*accused["rank"], *circling} or (unseen if not moving else set())
    if not ends and len(moving) != 1:
        return "doubtful" if (blind or unlisted) and not moving else "moves"
    held = ends or moving[0]
    held = held | waits.behind(told, sorted(held))
    # what waits only for ranks of which nothing is known speaks neither way
    vague = waits.behind(told, sorted(unseen)) - held
    known = set(seen.filter(~pl.col("is_stale"))["rank"]) - blind - vague
    allowed = min(FREE * len(known), max(FEW, FREE_OF_MANY * len(known)))
    if len(known - held) > allowed or any(not ranks <= held for ranks in moving):
        return "moves"
    if len(vague) > len(held):
        return "doubtful"
    if seen["is_older"].any() or not _is_few(calls, accused, len(known), collectives):
        return "doubtful"
    wanted = calls.filter(pl.col("call").is_in(accused["call"].implode()))
    gone = accused.filter(pl.col("why") == "absent")["rank"]
    if not gone.is_empty() and told.collective.isdisjoint(
        call for rank in gone for call in told.wanted_in[rank]
    ):
        # one stage of a pipeline is at work, and all others wait for its message
        return "doubtful"
    if moments.are_late_there(wanted, gone, collectives):
        return "doubtful"
    if moments.may_be_alone(wanted, gone, collectives, stacks):
        return "doubtful"
    if not gone.is_empty() and _is_starting(calls, seen, outline_):
        return "doubtful"
    slow = accused.filter(pl.col("why").is_in(["stalled", "unstarted"]))
    if slow.height and not _is_stalled(calls, slow, len(known), standings, collectives):
        return "doubtful"
    return "still"


def _is_starting(
    calls: pl.DataFrame, seen: pl.DataFrame, outline_: pl.DataFrame
) -> bool:
    """Whether nobody has finished a call yet: ranks start one after the other."""
    if outline_.select(done().any()).item():
        return False
    begun = pl.col("rank").is_in(calls["waiting"].explode().implode())
    return bool(seen.filter(begun)["whole"].all())


def is_spare(beside: pl.DataFrame, seen: pl.DataFrame) -> bool:
    """Whether the ranks that nobody waits for yet are as few as a standstill allows."""
    known = seen.filter(~pl.col("is_stale")).height
    ranks = beside["absent"].explode().drop_nulls().n_unique()
    return 0 < ranks <= max(FEW, FREE_OF_MANY * known)


def _joined(sets: list[set[int]]) -> list[set[int]]:
    """Unite the sets that share a rank: the messages of one batch, for example."""
    found: list[set[int]] = []
    for ranks in sets:
        touched = [other for other in found if other & ranks]
        found = [other for other in found if not other & ranks]
        found.append(ranks.union(*touched))
    return found


def _is_few(
    calls: pl.DataFrame, accused: pl.DataFrame, known: int, collectives: pl.LazyFrame
) -> bool:
    """Whether those who have not come yet are so few that a running job is unlike it.

    Of members that were not seen some may not have come either. Many of them are those
    of a running job if they have made such a call before; a call that is new to them is
    one that only the others make. Up to half are not, where so many were seldom the
    last ones at earlier calls of their group.
    """
    gone = accused.filter(pl.col("why") == "absent")
    wanted = calls.filter(pl.col("call").is_in(gone["call"].implode()))
    unseen = wanted["unseen"].explode().drop_nulls().n_unique()
    everyone = known + unseen
    few = min(max(FEW, MANY_OF * everyone), QUARTER * everyone)
    if gone.height + unseen <= max(1, few):
        return True
    if 2 * gone.height <= known and not wanted["is_p2p"].any():
        ranks = set(gone["rank"])
        late = [(call, ranks & {*call["absent"]}) for call in wanted.to_dicts()]
        if all(arrivals.is_seldom(call, last, collectives) for call, last in late):
            return True
    return not moments.may_come(wanted, collectives)


def _is_stalled(
    calls: pl.DataFrame,
    slow: pl.DataFrame,
    known: int,
    standings: pl.DataFrame,
    collectives: pl.LazyFrame,
) -> bool:
    """Whether GPUs really stand still, or the ranks' dumps may just be the older ones.

    Dumps of different moments spread over many calls, of which only the oldest looks
    like a root. Where all others came equally far, it is decided by a host that made a
    call when its peers had long got past the one in question; by how few lag, and how
    far: an older dump is behind in what was enqueued as well.
    """
    over = (pl.col("done").list.len() > 0) & ~pl.col("is_p2p").fill_null(False)
    lagging = set(calls.filter(over)["waiting"].explode().drop_nulls())
    wanted = set(
        calls.select(pl.concat_list("behind", "absent").explode().drop_nulls())
        .to_series()
        .to_list()
    )
    ranks = set(slow["rank"])
    # one that lags as well and that nobody has come as far as to wait for is another
    if (lagging - ranks) & wanted or len(lagging | ranks) > max(FEW, FEW_OF * known):
        return False
    if len(ranks) <= FEW_OF * known or moments.outlived(calls, slow, collectives):
        return True
    stalled = slow.filter(pl.col("why") == "stalled")["rank"]
    lags = _lags(standings, stalled)
    if len(ranks) == 1 and not lagging - ranks:
        if stalled.len():
            return lags["enqueued"].to_list() == [0]
        late = calls.filter(pl.col("unstarted").list.len() > 0).to_dicts()
        if late and all(
            arrivals.is_seldom(call, call["unstarted"], collectives, "t_started")
            for call in late
        ):
            return True
    far = lags.filter(pl.col("done") >= SKEW)
    fresh = (far["enqueued"] < far["done"]).any()
    return far.height == len(ranks) and bool(fresh)


def _lags(standings: pl.DataFrame, ranks: pl.Series) -> pl.DataFrame:
    """Return how many of its peers' calls each rank has not enqueued, and not done.

    Columns `rank enqueued done`.
    """
    done = pl.coalesce("completed", pl.col("waits_in") - 1)
    told = standings.select(*KEY, "enqueued", done.alias("done")).with_columns(
        (pl.col(c).max().over("group") - pl.col(c)).alias(c)
        for c in ("enqueued", "done")
    )
    mine = told.filter(pl.col("rank").is_in(ranks.implode()))
    return mine.group_by("rank").agg(pl.col("enqueued", "done").sum())
