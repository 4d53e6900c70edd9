"""Which ranks make a job slow: by how much, and who else could be meant.

A rank is slow if its own time is above that of the ranks of its role by a share of the
time that counts, all through the history, and if it is the last to come far more often
than they are. The share of all time that would be gained is what the next of the others
came earlier.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from ncclforensics.correlate.timing.logged_time import logged_time
from ncclforensics.correlate.timing.own_time import (
    CHANCE,
    NAMED,
    WORTH,
    OwnTime,
    own_time,
)
from ncclforensics.evidence import common, transfers
from ncclforensics.model.frames import Frames, remembered
from ncclforensics.model.step_parts import DATA
from ncclforensics.model.words import percent
from ncclforensics.theory import (
    lateness_test,
    own_excess,
    rank_layouts,
    uneven_load,
)

ERRORS = 2.0  # standard errors above zero, to be a candidate; chance decides later
ABOVE = 2.0  # times the most that any other rank of the role is above
APART = 1.5  # times as far from the others as most of these are from each other
LONG = (
    3.0  # times the usual loss in a call; what one long step costs beyond is left out
)
HAIR = 0.25  # share of the mean loss in a call, up to which being last does not count
FEW = 4  # of so many ranks one may be slow by itself, without all of its host


@dataclass(frozen=True, slots=True)
class Slow:
    """The slow `ranks`, and what they cost.

    `share` is how much longer than its peers a rank works, as share of all time, `gain`
    how much of all time would be gained; `last` of `meetings` calls it came to last, by
    `late` seconds (the median). `is_beside`: a peer that is not slow has its clock.
    `worst` is the row of the call it came latest to, of the kind that costs most.
    `known` ranks have a history. `waits_less`: its log tells that, too.
    `seen` is as in `OwnTime`. `hosts` are those that its lines tell. `may_be_stage`: a
    host as a whole may have other work to do, so nobody is named.
    """

    ranks: tuple[int, ...]
    share: float
    gain: float
    last: int
    meetings: int
    late: float
    seconds: float
    timed: bool
    is_beside: bool
    worst: dict[str, object]
    logged: bool
    known: int
    waits_less: bool
    seen: float
    hosts: tuple[str, ...]
    may_be_stage: bool = False

    @property
    def is_data(self) -> bool:
        """Whether a log tells that it takes longer to load its batches."""
        return self.logged and self.worst["kind"] == DATA

    @property
    def lost(self) -> str:
        """What is lost of each step, as "10 %", or as "3.3 to 10 %".

        A rank that computes longer does so in a backward that holds waits, too.
        """
        if self.is_data or self.seen == 1:
            return percent(self.gain)
        least = percent(self.gain).removesuffix("%").rstrip()
        return f"{least} to {percent(self.gain / self.seen)}"

    @property
    def is_named(self) -> bool:
        """Whether the share, with what no log tells, is large enough for a verdict."""
        least = NAMED * (1.0 if self.is_data else self.seen)
        return min(self.share, self.gain) >= least and not self.may_be_stage


def excess(frames: Frames) -> pl.DataFrame | None:
    """Return `rank role team clock slice more more_otherwise`: what `own_excess` does.

    Both are shares of the time. A role is what ranks of a stage do that make the same
    calls, a team are those of it that meet most. It is that of the calls, or of the
    logs where these alone tell who is slow.
    """
    return _judged(frames)[0]


def slow(frames: Frames) -> Slow | None:
    """Return the slowest ranks if they cost a share worth a line, else None."""
    return _judged(frames)[1]


@remembered
def _judged(frames: Frames) -> tuple[pl.DataFrame | None, Slow | None]:
    first = None
    logged = logged_time(frames)
    # what is logged as a wait may not be all of it
    alone = logged.without_waits() if logged and logged.waits else None
    perhaps = None  # a host that may be a stage
    for told in (own_time(frames), logged, alone):
        if told is None:
            continue
        above = own_excess.above_role(told, frames["groups"])
        found = _slow(told, above)
        first = above if first is None else first
        if found is None or uneven_load.explains(frames, found.ranks, found.share):
            continue
        if not found.may_be_stage:
            return above, found
        perhaps = found if perhaps is None else perhaps
    return first, perhaps


def _slow(told: OwnTime, above: pl.DataFrame) -> Slow | None:
    """Return the slowest ranks of a history, if they cost a share worth a line.

    Ranks of one clock are compared with each other, and hosts as a whole, whose clocks
    are less sure. GPU times need no clock: there ranks of all hosts are compared. Those
    of a team wait for the same others, so they differ by their own time alone.
    """
    ranks = own_excess.of_ranks(above, "role")
    of_role = own_excess.shares(ranks, "role")
    mates = own_excess.of_ranks(above, "role", "team")
    in_team = own_excess.shares(mates, "role", "team")
    if told.timed:
        looks = [of_role, in_team]
    else:
        doubt = told.calls.select("rank", told.doubt.alias("doubt")).unique("rank")
        whole = pl.col("share").quantile(0.5, interpolation="lower")
        hosts = ranks.join(doubt, on="rank").with_columns(
            whole.over("role", "clock", "case"),
            error=(pl.col("error") ** 2 + pl.col("doubt") ** 2).sqrt(),
        )
        beside = own_excess.of_ranks(above, "role", "clock")
        looks = [
            own_excess.shares(beside, "role", "clock"),
            own_excess.shares(hosts, "role"),
            in_team,
        ]
    found = [slowest for look in looks if (slowest := _slowest(told, look))]
    if not found:
        return None
    share, mine, peers, odds = max(found, key=lambda one: one[0])
    for less, fewer, others, chance in found:
        # that a host or a team waits for its slow rank is no second cause
        if {*fewer} < {*mine} and ABOVE * less > share:
            share, mine, peers, odds = less, fewer, others, chance
    if (leader := _leader(told, mine, of_role)) is not None:
        share, alone = leader
        peers, mine = mine.filter(mine != alone), mine.filter(mine == alone)
    # who stands out in any of several looks had as many chances
    last = _told(told, mine, peers, share, len(looks) * odds)
    if last is None or not told.logged or not rank_layouts.is_role(told, last):
        return last
    is_host = rank_layouts.is_whole_host(told, last)
    return replace(last, may_be_stage=True) if is_host else None


def _leader(
    told: OwnTime, mine: pl.Series, ranks: pl.DataFrame
) -> tuple[float, int] | None:
    """Return the share and number of the rank for which the rest of a team waits.

    Most of the time for which the team waits in calls of its own, it waits for that
    rank, which works longer than its mates by a share worth a line. Of a team that is
    slow as a whole, any is the last.
    """
    rank = pl.col("rank")
    own = ranks.filter(rank.is_in(mine.implode())).sort("share", descending=True)
    if own.height < 2 or own["share"][0] - own["share"][1] < WORTH:
        return None
    last = (
        told.calls.filter(pl.col("meets").is_not_null())
        .group_by("meets")
        .agg(
            last=rank.sort_by("late").last(),
            waits=pl.col("late").max() - pl.col("late").sort().slice(-2, 1).first(),
            alone=rank.is_in(mine.implode()).all() & (pl.len() == mine.len()),
        )
        .filter("alone")
    )
    top = int(own["rank"][0])
    waits = last["waits"]
    if 2 * waits.filter(last["last"] == top).sum() <= waits.sum():
        return None
    return float(own["share"][0]), top


def _slowest(
    told: OwnTime, ranks: pl.DataFrame
) -> tuple[float, pl.Series, pl.Series, float] | None:
    """Return the share of the slow ranks, who they are, their peers, and its chance.

    They must stand apart from the others. Many that are no whole hosts are how the job
    is laid out. Where ranks are late in turn, one more than the next, or half of them
    are, or several stages, they wait for each other in what no dump tells: Gloo records
    no messages.
    """
    sure = (pl.col("share") >= WORTH) & (pl.col("share") > ERRORS * pl.col("error"))
    candidates = ranks.filter(sure)
    if candidates.is_empty():
        return None
    top = float(str(candidates["share"].max()))
    named = candidates.filter(pl.col("share") > top / ABOVE)
    mine = named["rank"].sort()
    all_peers = ranks.filter(pl.col("peers").is_in(named["peers"].implode()))
    peers = all_peers.filter(~pl.col("rank").is_in(mine.implode()))
    of_role = ranks.filter(pl.col("role").is_in(named["role"].implode())).height
    if peers.is_empty() or 2 * mine.len() + (not told.timed) > of_role:
        return None
    of_hosts = ranks.filter(pl.col("clock").is_in(named["clock"].implode())).height
    # of ranks whose host is unknown, those in a row may be of one
    alone = named["clock"].n_unique() == mine.len() < mine[-1] - mine[0] + 1
    is_few = mine.len() <= max(1, of_role // FEW)
    if (not is_few and (alone or of_hosts > mine.len())) or (
        rank_layouts.are_everywhere(ranks, mine)
    ):
        return None
    if named["role"].n_unique() > 1 and not told.shows_messages:
        return None
    # what a few long steps of another rank may be is not held against the others
    rest = ranks.filter(~pl.col("rank").is_in(mine.implode()))
    rival = (rest["share"] - rest["error"]).max()
    if float(str(rival)) * ABOVE > top:
        return None
    low, high = (rest["share"].quantile(q, "linear") or 0.0 for q in (0.1, 0.9))
    gap = float(str(named["share"].min())) - high
    if gap < APART * (high - low):
        return None
    odds = own_excess.chance(named, ranks.height)
    return float(str(named["share"].mean())), mine, peers["rank"], odds


def _told(
    told: OwnTime, mine: pl.Series, peers: pl.Series, share: float, odds: float
) -> Slow | None:
    """Return what the calls say of slow ranks; None if others are last as often.

    `odds` is the chance of their own time, which tells more where calls are few. Of
    several ranks it may be that of a team whose calls are quick.
    """
    is_mine = pl.col("rank").is_in(mine.implode())
    come = pl.col("late")
    met = told.calls.filter(pl.col("meets").is_not_null() & pl.col("counts"))
    sides = (
        met.with_columns(mine=is_mine)
        .group_by("meets")
        .agg(
            come.filter("mine").max().alias("own"),
            come.filter(~pl.col("mine")).max().alias("next"),
        )
        .drop_nulls()
    )
    if sides.is_empty():
        return None
    ahead = sides["own"] - sides["next"]
    # being last by a hair, as somebody always is, costs nothing
    leads = ahead.filter(ahead > HAIR * share * told.seconds / sides.height)
    last = leads.len()
    if last == 0:
        return None
    late = float(str(leads.median()))
    compared = pl.col("rank").is_in(pl.concat([mine, peers]).implode())
    compared &= pl.col("meets").is_in(sides["meets"].implode())
    last_so_often = lateness_test.chance(met.filter(compared), mine, LONG * late)
    if min(last_so_often, odds if mine.len() == 1 else 1.0) > CHANCE:
        return None
    gain = float(ahead.clip(0).sum()) / told.seconds
    if gain < WORTH:
        return None
    mean = pl.col("late") * (pl.col("late") > 0)
    worst = (
        met.filter(is_mine & pl.col("meets").is_in(sides["meets"].implode()))
        .drop_nulls("late")  # a call that is still open has none
        .with_columns(mean.sum().over("kind").alias("sum"))
        .sort("sum", "late", "rank", "place", descending=[True, True, False, False])
        .row(0, named=True)
    )
    clocks = met.filter(is_mine)["clock"]
    beside = met.filter(pl.col("rank").is_in(peers.implode()))["clock"]
    return Slow(
        ranks=tuple(mine.to_list()),
        share=share,
        gain=min(gain, share),
        last=last,
        meetings=sides.height,
        late=late,
        seconds=told.seconds,
        timed=told.timed,
        is_beside=bool(clocks.is_in(beside.implode()).all()),
        worst=worst,
        logged=told.logged,
        known=told.calls["rank"].n_unique(),
        waits_less=bool(told.waits),
        seen=told.seen,
        hosts=common.hosts(met.filter(is_mine)["host"]),
    )


def shows_gpus(frames: Frames) -> bool:
    """Whether a slow GPU shows: by its times, or where the CPU waits for it."""
    told = own_time(frames)
    return told is not None and (
        told.timed or not told.calls["backend"].eq("nccl").any()
    )


@remembered
def tells_why(frames: Frames) -> bool:
    """Whether the history names a rank or a group for which ranks wait all the time."""
    told = slow(frames)
    if told is not None and told.is_named:
        return True
    group = transfers.slower(frames)
    return group is not None and not group.even
