"""When each rank came to each call of its history, on one clock for all hosts.

A call's time is that of its own host. Hosts are put on one clock by their meetings:
where the dumps tell when calls ended, that is the same moment for all members. Without
it, a host's clock is taken to be off by what its ranks are late on the whole, so that a
clock that is off, or drifts, never looks like a rank that is slow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.timing import pace
from ncclforensics.correlate.timing.turns import TIGHT, with_turns
from ncclforensics.correlate.traces import coll_logs, inspected
from ncclforensics.correlate.traces.progress import ROOTED, grouped, signature
from ncclforensics.model.frames import remembered
from ncclforensics.model.plans import collected

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from ncclforensics.model.frames import Frames

    Numbers = npt.NDArray[np.float64]
    Indices = npt.NDArray[np.int64]

KEPT = (
    *("rank", "pg", "pg_desc", "pg_id", "seq", "record_id", "op", "backend", "is_p2p"),
    *("src", "dst", "t", "t_completed", "duration_ms", "stack", "source", "line"),
)
LEAST = 16  # calls of a rank, below which its history tells nothing
MOST, FEWEST = 1 << 17, 256  # calls of all ranks that are compared, and of each
KNOWN = 0.9  # share of the calls that must tell when they ended, or how long they took
FEW = 4  # meetings in each half of the history
MEDIAN = 1.9  # standard error of a median, in median deviations
ERRORS = 4.0  # standard errors in the most that clocks are apart
DRIFT = 2e-4  # seconds a second; no clock gains more, but uneven ranks seem to
POLL = 0.1  # seconds between two looks of NCCL's watchdog
EVEN = POLL / 12**0.5  # standard deviation of looks that fall anywhere between calls
BATCHES = 12  # of the history, to estimate the error of a mean from
SOME = 0.02  # share of the calls
ROUNDS = 60  # of the fit; each halves the error of hosts that meet through others


@remembered
def arrivals(frames: Frames) -> pl.DataFrame:
    """Return the calls of all ranks with a history, in order, as `made` s.

    Columns: `rank group op place host clock kind what is_p2p meets turn`, `made`
    (f64, seconds on one clock), `raw` (on the host's own), `took` (s), `source line`.
    `kind` is the same call of a program in one group, `same` in groups alike; `what` is
    any call of the same operation and size. `meets` numbers the collectives to which
    all members came whose dumps are here; `clock` the hosts, or the ranks whose host is
    unknown.
    """
    made = _made(frames)
    made = made.filter(pl.col("t").is_not_null() & pl.col("rank").is_not_null())
    made = made.filter(pl.len().over("rank") >= LEAST)
    if made["rank"].n_unique() < 2:
        return made.clear().with_columns(meets=pl.lit(0), made=pl.lit(0.0))
    first = made["t"].min()
    seconds = {"raw": "t", "done": "t_completed"}
    hosts = frames["ranks"].select("rank", "host").unique("rank", keep="first")
    made = (
        made.join(hosts, on="rank", how="left")
        .sort("rank", "record_id", "line")
        .with_columns(
            *(
                ((pl.col(c) - first).dt.total_nanoseconds() / 1e9).alias(name)
                for name, c in seconds.items()
            ),
            took=pl.col("duration_ms") / 1e3,
            is_p2p=pl.col("is_p2p").fill_null(False),
            clock=pl.coalesce("host", pl.format("rank {}", "rank")).rank("dense") - 1,
            kind=pl.struct("group", "kind").hash(seed=0),
            same=pl.struct(
                "kind", "pg_desc", pl.col("rank").n_unique().over("group")
            ).hash(seed=0),
            place=pl.int_range(pl.len()).over("rank"),
        )
        .drop("t_completed", "duration_ms", "pg_id")
    )
    return _on_one_clock(with_turns(_met(made)))


def _made(frames: Frames) -> pl.DataFrame:
    """Return the calls of dumps, else of NCCL's log or Inspector, as `group kind what`.

    Of many ranks only the last calls: more history costs time, and tells no more.
    """
    what = signature().alias("what")
    told = pl.struct(what, "stack").hash(seed=0).alias("kind")
    logged = coll_logs.history(frames)
    if frames.has("collectives"):
        ranks = frames.scan("collectives").select(pl.col("rank").n_unique())
        # entries may be left of dumps whose templates belong to another job
        size = max(FEWEST, MOST // max(ranks.collect().item(), 1))
        some = frames.scan("collectives", last=size)
        made = some.select(*KEPT, what, told).collect()
        if made.height > logged.height:
            return grouped(made, frames["group_names"])
    beside = logged if logged.height else inspected.calls(frames)
    return beside.select(*KEPT, "group", "kind", what="kind")


def _met(made: pl.DataFrame) -> pl.DataFrame:
    """Add `meets`, a number for each collective that all known members made once."""
    call = ["group", "seq"]
    alone = ~pl.col("is_p2p") & pl.col("group").is_not_null()
    sides = (
        made.filter(alone)
        .group_by(call)
        .agg(pl.len().alias("rows"), pl.col("rank").n_unique().alias("ranks"))
        .with_columns(pl.col("ranks").max().over("group").alias("all"))
        .filter((pl.col("ranks") == pl.col("all")) & (pl.col("rows") == pl.col("all")))
        .filter(pl.col("all") > 1)
        .sort(call)
        .with_row_index("meets")
        .select(*call, pl.col("meets").cast(pl.Int64))
    )
    meets = pl.when(alone).then("meets").alias("meets")
    return made.join(sides, on=call, how="left", maintain_order="left").with_columns(
        meets
    )


def _on_one_clock(made: pl.DataFrame) -> pl.DataFrame:
    """Add `made` and `ended`, the times without what each clock is off and drifts."""
    together = made.filter(pl.col("meets").is_not_null() & ~pl.col("op").is_in(ROOTED))
    tells_end = together["done"].is_not_null().mean() or 0.0
    off, seen = offsets(together), False
    if off.height and float(str(tells_end)) > KNOWN:
        off, seen = _as_seen(together, off)
    told = _corrected(made, off)
    # nobody leaves a call before the last has come: else clocks are not off like that;
    # a watchdog sees the end of a call when it looks, which is not at once
    alike = _corrected(made, off.with_columns(off=0.0 * pl.col("off"), drift=0.0))
    if _is_earlier(_left_early(told), _left_early(alike)):
        return alike
    if seen:
        return told
    for late in pace.ahead_for_real(told):
        apart = pace.apart(offsets(together, [late]), late, told)
        if apart is None:
            continue
        # the clocks agree: who is further off comes late, or waits for one that does
        shift = told.select("clock", "off", "drift").unique("clock").sort("clock")
        kept = pl.when(pl.col("off").abs() <= apart)
        right = shift.select(
            "clock",
            *(kept.then(c).otherwise(0.0).alias(c) for c in ("off", "drift")),
            unsure=pl.lit(apart / ERRORS),
        )
        again = _corrected(made, right)
        # if more leave early then, that clock was ahead
        if not _is_earlier(_left_early(again), _left_early(told)):
            return again
    return told


def _as_seen(together: pl.DataFrame, off: pl.DataFrame) -> tuple[pl.DataFrame, bool]:
    """Return offsets that agree with when watchdogs saw calls end, and if any changed.

    All members leave a call at one moment. Ranks that are late at every call look like
    a clock that is behind; who sees the calls end early by that clock was only late. A
    watchdog sees an end up to POLL later. Where its looks fall anywhere between two
    calls, that evens out over the history; of looks that keep step with the calls it
    does not, and these spread less.
    """
    ended = pl.col("done") - (pl.col("raw") - pl.col("made"))
    known = together.join(off, on="clock", how="semi", maintain_order="left")
    told = _corrected(known, off).drop_nulls("done").with_columns(ended=ended)
    nth = pl.col("ended").median().over("meets").rank("dense").cast(pl.Int64) - 1
    told = told.with_columns(
        late=pl.col("ended") - pl.col("ended").median().over("meets"),
        batch=nth * BATCHES // (nth.max() + 1),
    ).with_columns(spread=pl.col("late").std().over("rank", "group"))
    spread = told.group_by("clock").agg(pl.col("spread").mean())
    many = int(str(off["clock"].max())) + 1
    shifts = _joined_in_batches(told, many).join(spread, on="clock", how="left")
    both = off.join(shifts, on="clock", how="left", maintain_order="left")
    error = pl.col("error") + (EVEN - pl.col("spread")).clip(0.0)
    is_off = (pl.col("shift").abs() > ERRORS * error).fill_null(False)
    changed = both.select(
        "clock",
        pl.col("off") + pl.when(is_off).then("shift").otherwise(0.0),
        "drift",
        unsure=pl.when(is_off).then(error).otherwise("unsure"),
    )
    return changed, bool(both.select(is_off.any()).item())


def _joined_in_batches(told: pl.DataFrame, known: int) -> pl.DataFrame:
    """Return `clock shift error`: the mean `late` of each of so many clocks.

    It is found in each batch of the history; the error is that of their mean.
    """
    lines = (
        told.group_by("batch", "group", "clock")
        .agg(pl.col("late").mean(), pl.len().cast(pl.Float64).alias("weight"))
        .sort("batch", "group", "clock")
        .with_columns(name=pl.col("group").rank("dense").over("batch") - 1)
    )
    every = pl.int_range(known, dtype=pl.UInt32, eager=True).alias("clock")
    parts = []
    for some in lines.partition_by("batch", maintain_order=True):
        names = some["name"].cast(pl.Int64).to_numpy()
        late, weight, clocks = (some[c].to_numpy() for c in ("late", "weight", "clock"))
        shift = pl.Series("shift", _joined(late, weight, clocks, names, known))
        here = pl.col("clock").is_in(some["clock"].implode())
        parts.append(pl.DataFrame([every, shift]).filter(here))
    mean, error = pl.col("shift").mean(), pl.col("shift").std() / pl.len().sqrt()
    return pl.concat(parts).group_by("clock").agg(mean, error.alias("error"))


def _corrected(made: pl.DataFrame, off: pl.DataFrame) -> pl.DataFrame:
    """Return the calls with `off`, `drift` and `unsure` of their clocks, and `made`."""
    skew = pl.col("off") + pl.col("drift") * pl.col("raw")
    return made.join(off, on="clock", how="left", maintain_order="left").with_columns(
        (pl.col("raw") - skew.fill_null(0.0)).alias("made"),
        pl.col("unsure").fill_null(0.0),
    )


def _left_early(made: pl.DataFrame) -> tuple[float, float]:
    """Return the share of the calls that a member left before the last had come.

    The first counts of each group only the calls that this is true of least: on NCCL,
    ranks leave at once all calls but those that end a row. The second counts all.
    """
    come = pl.col("made").max().over("meets")
    early = pl.col("made").shift(-1).over("rank") < come - TIGHT
    met = pl.col("meets").is_not_null() & ~pl.col("op").is_in(ROOTED)
    told = made.with_columns(early=early).filter(met)
    ends = (
        told.filter(pl.col("clock").n_unique().over("meets") > 1)
        .group_by("group", "turn")
        .agg(pl.col("early").mean(), pl.len().alias("many"))
        .filter(pl.col("many") >= LEAST)
        .group_by("group")
        .agg(pl.col("early").min(), pl.col("many").sum())
        .select((pl.col("early") * pl.col("many")).sum() / pl.col("many").sum())
    )
    return float(ends.item() or 0.0), float(str(told["early"].mean() or 0.0))


def _is_earlier(left: tuple[float, float], than: tuple[float, float]) -> bool:
    """Whether more calls were left early, of those that end rows.

    If as many were, of all calls: ranks that leave some at once leave many.
    """
    if abs(left[0] - than[0]) > SOME:
        return left[0] > than[0]
    return than[1] <= SOME and left[1] > than[1] + SOME


def offsets(together: pl.DataFrame, without: Sequence[int] = ()) -> pl.DataFrame:
    """Return `clock off drift unsure`: seconds that each clock is ahead, and gains.

    `unsure` is the standard error in seconds. The clocks `without` are left out.

    `together` are calls with `meets group kind clock` and `raw` in seconds. A host's
    time in a meeting is that of its earlier half, so that one late rank does not move
    it. The steadiest kind of call of a group tells most: ranks come to it together.
    """
    middle = pl.col("raw").quantile(0.5, interpolation="lower")
    of = ["group", "kind", "clock"]
    host = collected(
        together.lazy()
        .filter(pl.col("raw").is_not_null() & ~pl.col("clock").is_in(without))
        .filter(pl.col("clock").n_unique().over("meets") > 1)
        .group_by("meets", *of)
        .agg(middle)
        .with_columns(
            late=pl.col("raw") - pl.col("raw").median().over("meets"),
            half=pl.col("raw") > pl.col("raw").median().over("group", "kind"),
        )
    )
    median = pl.col("late").median()
    halves = host.group_by(*of, "half").agg(
        median,
        (pl.col("late") - median).abs().median().alias("spread"),
        pl.col("raw").median().alias("at"),
        pl.len().alias("n"),
    )
    both = halves.filter("half").join(halves.filter(~pl.col("half")), on=of)
    apart = pl.col("at") - pl.col("at_right")
    gains = ((pl.col("late") - pl.col("late_right")) / apart).alias("drift")
    slope = gains.clip(-DRIFT, DRIFT)
    loose = (pl.col("spread") + pl.col("spread_right")).mean().over("group", "kind")
    lines = both.filter((apart > 0) & (pl.col("n") >= FEW)).select(
        *("group", "clock"),
        slope,
        off=(pl.col("late") + pl.col("late_right")) / 2
        - slope * (pl.col("at") + pl.col("at_right")) / 2,
        loose=loose,
        n=pl.col("n"),
        weight=1 / (loose + TIGHT) ** 2,
    )
    if lines.is_empty():
        return pl.DataFrame(
            schema={"clock": pl.UInt32}
            | dict.fromkeys(("off", "drift", "unsure"), pl.Float64())
        )
    best = pl.col("weight") == pl.col("weight").max().over("group")
    lines = lines.filter(best).sort("group", "clock")
    clocks = lines["clock"].to_numpy()
    names = lines["group"].rank("dense").cast(pl.Int64).to_numpy() - 1
    weight = lines["weight"].to_numpy() / float(str(lines["weight"].max()))
    known = int(clocks.max()) + 1
    found = [
        _joined(lines[c].to_numpy(), weight, clocks, names, known)
        for c in ("off", "drift")
    ]
    every = pl.int_range(known, dtype=pl.UInt32, eager=True)
    error = MEDIAN * pl.col("loose") / (2 * pl.col("n")).sqrt()
    unsure = lines.group_by("clock").agg(error.min().alias("unsure"))
    return pl.DataFrame({"clock": every, "off": found[0], "drift": found[1]}).join(
        unsure, on="clock", maintain_order="left"
    )


def _joined(
    late: Numbers, weight: Numbers, clocks: Indices, groups: Indices, known: int
) -> Numbers:
    """Return one number a clock from what it differs by in each of its groups."""
    # importing numpy starts threads, after which workers must not be forked
    import numpy as np

    found = np.zeros(known)
    heavy = np.maximum(np.bincount(clocks, weight, known), 1e-12)
    size = np.bincount(groups)
    for _ in range(ROUNDS):
        level = np.bincount(groups, found[clocks] - late) / size
        found = np.bincount(clocks, weight * (late + level[groups]), known) / heavy
    return found - np.median(found)
