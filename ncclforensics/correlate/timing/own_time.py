"""How much of the time each rank is at work itself, and how much it waits for others.

Ranks that meet take equally long in all: who works longer waits less, and the others
wait longer for it. So a slow rank is the one with the most own time among ranks of its
role, and whoever is late because it waited elsewhere is not. Where dumps tell how long
calls took on the GPU, own time is all time outside them. Else it is the time from the
moment that the last member came to a call, to the rank's next call.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.timing.arrivals import KNOWN, LEAST, arrivals
from ncclforensics.correlate.timing.streams import over
from ncclforensics.correlate.traces.progress import ROOTED
from ncclforensics.model.frames import remembered

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

# shares of the time
WORTH = 0.03  # worth a line
NAMED = 0.055  # for a verdict: 10 % of the work, in steps nearly twice as long
CHANCE = 0.002  # that any rank seems slow, if none differs
MOST_SLICES = 128
CALLS_A_SLICE = 3
CARRIED = 0.5  # share of a lateness left at the next call, if the call does not block
SEND = "send"
AT_ONCE = 0.1  # of how the last one's lateness varies: others that begin that close
SLIGHT = 0.01  # share of the pause after a call: a rank so late there carries nothing
AHEAD = 0.9  # share of the calls that a waiter must not leave before the last has come


@dataclass(frozen=True, slots=True)
class OwnTime:
    """Own time of ranks over the common history.

    `slices` has `rank slice own own_otherwise`: the share of the time of each slice, if
    a send holds its rank until it is received, and if it does not. `calls` has the
    calls as `arrivals` returns them, with `slice`, `late` (s; than its peers), `blocks`
    (whether the members wait), and `counts` (once a row and group). `seconds` is the
    length of the common history, `timed` whether no clock is needed, `logged` whether
    logs tell it, and not calls. `waits` are the kinds of waits that all ranks log apart
    (`model.step_parts`); `own_otherwise` is then all time but these. `seen` is the
    share of a rank's computing that is told: a backward may hold waits, and be left
    out.
    """

    slices: pl.DataFrame
    calls: pl.DataFrame
    seconds: float
    timed: bool
    logged: bool = False
    waits: frozenset[str] = frozenset()
    seen: float = 1.0

    def without_waits(self) -> OwnTime:
        """Return the same history as if no log told how long its rank waits."""
        slices = self.slices.with_columns(own_otherwise="own")
        return replace(self, slices=slices, waits=frozenset())

    @property
    def shows_messages(self) -> bool:
        """Whether messages would be among the calls, which Gloo does not record."""
        calls = self.calls
        return not calls["backend"].eq("gloo").any() or bool(calls["is_p2p"].any())

    @property
    def doubt(self) -> pl.Expr:
        """How much of a rank's own time, as a share, its clock may be wrong about."""
        met = pl.col("meets").is_not_null() & pl.col("blocks").fill_null(False)
        return (pl.col("unsure") * met.sum()).over("rank") / self.seconds


@remembered
def own_time(frames: Frames) -> OwnTime | None:
    """Return the own time of each rank; None without a history of several ranks."""
    calls = arrivals(frames)
    if calls.height < 2 * LEAST:
        return None
    timed = _are_timed(calls)
    calls = _timed(calls) if timed else _untimed(calls)
    inside = _sliced(calls)
    if inside.is_empty():
        return None
    made = pl.col("made")
    span = (made.max() - made.min()).alias("span")
    spans = inside.group_by("rank").agg(span)
    length = span / pl.col("slice").n_unique()
    inside = inside.with_columns(length.over("rank").alias("length"))
    length = pl.col("length").first()
    works = pl.col("own").sum() if not timed else length - pl.col("wait").sum()
    sends = pl.col("wait").filter(pl.col("is_p2p") & pl.col("op").str.starts_with(SEND))
    sending = sends.sum() if timed else 0.0
    slices = inside.group_by("rank", "slice").agg(
        (works / length).alias("own"),
        ((works + sending) / length).alias("own_otherwise"),
    )
    seconds = float(str(spans["span"].median()))
    return OwnTime(slices.sort("rank", "slice"), inside, seconds, timed)


def _are_timed(calls: pl.DataFrame) -> bool:
    """Whether the GPU's times are known of the calls that had ended.

    Of the halves of a batch none is; that of all of it is.
    """
    known = pl.col("took").is_not_null()
    told = calls.filter(known.any().over("op"))
    ended = told.filter(pl.col("done").is_not_null())
    told = told if ended.is_empty() else ended
    return not told.is_empty() and float(str(told.select(known.mean()).item())) > KNOWN


def _sliced(calls: pl.DataFrame) -> pl.DataFrame:
    """Return the last calls of each rank with their `slice`; none of too few calls.

    Slices are counted back from the last call that all came to, with as many calls on
    each rank: cut by time, a call at an edge would count on one rank and not on others.
    None is shorter than a step, so that a long step is one of them.
    """
    ends = pl.col("place").filter(pl.col("meets").is_not_null()).max().over("rank")
    calls = calls.filter(pl.col("place") <= ends)
    least = int(str(calls.group_by("rank").len()["len"].min() or 0))
    again = calls.filter(pl.col("meets").is_not_null()).group_by("rank", "turn").len()
    steps = again.filter(pl.col("len") >= LEAST)["len"].min() or least
    many = min(MOST_SLICES, least // CALLS_A_SLICE, int(str(steps)))
    if many < 2:
        return calls.clear()
    size = (pl.len() / many).round().cast(pl.Int64).over("rank")
    back = pl.len().over("rank") - 1 - pl.int_range(pl.len()).over("rank")
    calls = calls.with_columns(slice=many - 1 - back // size)
    return calls.filter(pl.col("slice") >= 0)


def _timed(calls: pl.DataFrame) -> pl.DataFrame:
    """Add `late`, and `wait`: what a call took on the GPU, transfer included.

    A call beside which the GPU works on is no wait: what a rank is late there, it is
    late at the next one as well. Such a row counts once, at the call that ends it, by
    the call in which the row waited most: the others begin where it had ended.
    """
    took, met = pl.col("took"), pl.col("meets").is_not_null()
    calls = calls.with_columns(
        late=pl.when(met).then(took.max().over("meets") - took),
        apart=pl.when(met).then((took.max() - took.median()).over("meets")),
        most=pl.when(met).then((took.max() - took.min()).over("meets")),
    )
    after = pl.col("late", "apart", "most", "turn", "group").shift(-1).over("rank")
    known = calls.with_columns(after.name.prefix("next_"))
    known = known.drop_nulls(["late", "next_late"])
    most = pl.col("next_most")
    # who works between two calls comes to the second at times that vary; of a row of
    # calls, each one begins at once, as the one before ends, but for who is late again
    close = (
        pl.col("next_apart").median() < AT_ONCE * (most - most.median()).abs().median()
    )
    at_once = (
        known.with_columns(stays=pl.col("group") == pl.col("next_group"))
        .group_by("turn", "next_turn")
        .agg(once=close & pl.col("stays").all(), many=pl.len())
        .group_by("turn")
        # of a pair of equal calls the first is in a row as often as the second ends it
        .agg(pl.col("once").sort_by("many", "once").last())
    )
    ends = _carried(known.with_columns(kind="turn")).rename({"kind": "turn"})
    ends = ends.join(at_once, on="turn").select(
        "turn", pl.col("blocks") & ~pl.col("once")
    )
    calls = calls.join(ends, on="turn", how="left", maintain_order="left")
    calls = calls.with_columns(pl.col("blocks").fill_null(True))
    if not calls["blocks"].any():
        calls = calls.with_columns(blocks=_before_the_longest_pause())
    wait = pl.when("blocks").then(took.fill_null(0.0)).otherwise(0.0)
    return _with_rows(calls.with_columns(counts="blocks", wait=wait))


def _before_the_longest_pause() -> pl.Expr:
    """Whether calls end rows, where no kind of call shows it: the last of a step does.

    Calls of a step follow each other, and what uses their results is behind them all.
    """
    pause = pl.col("made").shift(-1).over("rank") - pl.col("made")
    usual = pause.median().over("turn")
    return (usual == usual.max()).fill_null(value=False)


def _with_rows(calls: pl.DataFrame) -> pl.DataFrame:
    """Let the calls that end rows of calls have the `late` and `wait` of their rows."""
    met = pl.col("meets").is_not_null()
    ended = pl.when(met & pl.col("blocks")).then("meets")
    ends = ended.fill_null(strategy="backward").over("rank", "group")
    told = calls.with_columns(
        end=ends, waited=pl.col("took") - pl.col("took").min().over("meets")
    )
    told = told.filter(met).drop_nulls(["end", "late"])
    most = (
        told.group_by("end", "meets")
        .agg(pl.col("late").max())
        .sort("late", "meets")
        .unique("end", keep="last")
        .select("end", "meets")
    )
    row = told.join(most, on=["end", "meets"]).select(
        "rank",
        pl.col("end").alias("meets"),
        pl.col("late").alias("row_late"),
        pl.col("waited").alias("row_waited"),
    )
    transfer = pl.col("took").min().over("meets")
    return (
        calls.join(row, on=["rank", "meets"], how="left", maintain_order="left")
        .with_columns(
            late=pl.when("blocks")
            .then(pl.coalesce("row_late", "late"))
            .otherwise("late"),
            wait=pl.when(pl.col("blocks") & pl.col("row_waited").is_not_null())
            .then(transfer + pl.col("row_waited"))
            .otherwise("wait"),
        )
        .drop("row_late", "row_waited")
    )


def _untimed(calls: pl.DataFrame) -> pl.DataFrame:
    """Add `late`, `wait` and `own`, from when the members came.

    `own` is the time before a call since the rank's last one let it go. It is null
    after a message, as nothing tells when the other side came.
    """
    come = pl.col("made").max().over("meets")
    usual = pl.col("made").median().over("meets")
    met = pl.col("meets").is_not_null()
    calls = calls.with_columns(
        left=pl.when(met).then(come - pl.col("made")),
        late=pl.when(met).then(pl.col("made") - usual),
        next=pl.col("made").shift(-1).over("rank"),
    ).with_columns(next_late=pl.col("late").shift(-1).over("rank"))
    blocks = _blocking(calls.with_columns(kind="turn"))
    calls = calls.join(
        blocks, left_on="turn", right_on="kind", how="left", maintain_order="left"
    )
    calls = over(calls.with_columns(pl.col("blocks").fill_null(False)))
    calls = calls.with_columns(left=pl.when(met).then(pl.col("over") - pl.col("made")))
    gap = pl.col("next") - pl.col("made")
    # who roots a broadcast does not wait: what may be waiting is not counted as work
    at_most = pl.min_horizontal("left", pl.max_horizontal(gap, 0.0))
    waits = pl.when(pl.col("op").is_in(ROOTED)).then(at_most).otherwise("left")
    wait = pl.when("blocks").then(waits).otherwise(0.0)
    calls = calls.with_columns(wait=pl.when(met).then(wait))
    told = pl.when(~pl.col("is_p2p")).then(gap - pl.col("wait"))
    return calls.with_columns(own=told.shift(1).over("rank"))


def _blocking(calls: pl.DataFrame) -> pl.DataFrame:
    """Return `kind blocks`: whether ranks wait in such calls until all have come.

    Then nobody is at its next call before the last member has come, and whoever came
    late is not late at the next call for that reason.
    """
    later = pl.col("next") - (pl.col("made") + pl.col("left"))
    known = calls.filter(pl.col("left").is_not_null() & pl.col("next").is_not_null())
    scale = pl.col("late").abs().mean()
    waited = known.group_by("kind").agg(
        waited=(later > -0.1 * scale).mean(),
        pause=(pl.col("next") - pl.col("made")).median(),
    )
    usual = (
        known.group_by("kind", "rank")
        .agg(pl.col("late").median().abs(), pl.len().alias("many"))
        .group_by("kind")
        .agg(pl.col("late").max(), pl.col("many").sum())
    )
    pause = pl.col("pause")
    slight = (pl.col("late") < SLIGHT * pause) & (pl.col("many") >= LEAST)
    blocks = (pl.col("blocks") | slight) & (pl.col("waited") > AHEAD)
    ends_step = (pause == pause.filter(pl.col("blocks")).max()).fill_null(False)
    told = (
        _carried(known)
        .join(waited, on="kind")
        .join(usual, on="kind")
        .with_columns(blocks=blocks, slight=slight)
        .with_columns(ends_step=ends_step)
    )
    groups = known.select("kind", "group", "backend").unique()
    inside = told.filter(~pl.col("ends_step")).join(groups, on="kind")
    # others would not have been at the next call before the last has come anyway
    tells_nothing = pl.col("stays") & (pl.col("late") < CARRIED * pause)
    sure = pl.col("slight") | pl.col("ends_step")
    return told.join(_staying(inside), on="kind", how="left").select(
        "kind", pl.col("blocks") & (sure | ~tells_nothing.fill_null(False))
    )


def _staying(told: pl.DataFrame) -> pl.DataFrame:
    """Return `kind stays`: whether the calls of its groups on the whole hold nobody.

    NCCL's calls hold no host, but for one whose result it reads, as at the end of a
    step: who is late at one is as late at the next. Some kinds alone may hide that, as
    a delay that changes from call to call. `told` has what `_carried` returns of the
    calls of each `group` and `backend` that end no step.
    """
    weight = pl.col("own") * pl.col("many")
    carried = ((pl.col("carried") * weight).sum() / weight.sum()).fill_nan(0.0)
    stays = (carried > CARRIED) & pl.col("backend").eq("nccl").all()
    of_group = told.group_by("group").agg(stays.alias("stays"))
    return told.join(of_group, on="group").group_by("kind").agg(pl.col("stays").all())


def _carried(known: pl.DataFrame) -> pl.DataFrame:
    """Return `kind many own carried blocks`: whether calls hold who is late there.

    `own` is by how much (s) a rank's lateness changes from one call of the kind to the
    next, `carried` the share of it that is left at the next call of any kind.
    """
    # later than its fellows: all of them may be late for the ranks that they meet next
    apart = pl.col("next_late") - pl.col("next_late").min().over("meets")
    # from one such call of a rank to its next, as a rank may become slow at some time
    own, after = (pl.col(c).diff().over("kind", "rank") for c in ("late", "next_late"))
    carried = (pl.col("after") * pl.col("own").sign()).median()
    return (
        known.with_columns(next_late=apart)
        .with_columns(own=own, after=after)
        .group_by("kind")
        .agg(
            pl.len().alias("many"),
            pl.col("own").abs().median(),
            carried=carried / pl.col("own").abs().median().clip(1e-9),
        )
        .with_columns(
            blocks=(pl.col("many") >= LEAST)
            & (pl.col("carried").fill_null(0.0) < CARRIED),
        )
    )
