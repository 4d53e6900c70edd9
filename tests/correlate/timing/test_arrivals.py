"""Clocks are put on one by their meetings, and never against the order of calls."""

import polars as pl
import pytest

from ncclforensics.correlate.timing import arrivals
from ncclforensics.correlate.timing.turns import with_turns
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames

LAG = 0.008  # seconds


def calls(clock_off, seen_late):
    """Three ranks that meet in pairs of calls: 40 us apart, then 20 ms of work."""
    rows = []
    for rank in range(3):
        odd = rank == 1
        now = 0.0
        for n in range(60):
            come = now + 1e-6 * ((rank + n) % 3) + clock_off * odd
            ends = now + 1e-5 + clock_off * odd + seen_late * odd * (1 + n % 2 / 10)
            rows.append(
                {
                    "rank": rank,
                    "clock": rank,
                    "group": "0",
                    "kind": n % 2,
                    "same": n % 2,
                    "op": "all_reduce",
                    "place": n,
                    "meets": n,
                    "raw": come,
                    "done": ends,
                }
            )
            now += 4e-5 if n % 2 == 0 else 0.02
    return pl.DataFrame(rows, schema_overrides={"clock": pl.UInt32})


@pytest.mark.parametrize(
    ("clock_off", "seen_late"),
    [(0.0, LAG), (LAG, 0.0)],
    ids=["a watchdog that looks later", "a clock that is ahead"],
)
def test_nobody_who_comes_with_its_peers_is_late(clock_off, seen_late):
    told = arrivals._on_one_clock(with_turns(calls(clock_off, seen_late)))
    apart = told.group_by("meets").agg(pl.col("made").max() - pl.col("made").min())
    assert apart["made"].max() < LAG / 10


def looked_at(late, poll=0.1, steps=150, step=0.4673, keeps_step=False):
    """Three ranks with clocks of their own, of which one is `late` at every call.

    A watchdog each sees calls end at its next look. `keeps_step`: the looks of each
    fall at one moment of the steps.
    """
    rows = []
    for rank in range(3):
        off, looks = (0.0, 0.2, -0.05)[rank], 0.03 * rank
        for n in range(steps):
            begins = n * step
            ends = begins + late + 0.01
            seen = ends + (looks - ends) % poll
            if keeps_step:
                seen = ends + 0.03 * rank
            rows.append(
                {
                    "rank": rank,
                    "clock": rank,
                    "group": "0",
                    "kind": 0,
                    "same": 0,
                    "op": "all_reduce",
                    "place": n,
                    "meets": n,
                    "raw": begins + late * (rank == 1) + 1e-4 * (n * 7 % 5) + off,
                    "done": seen + off,
                }
            )
    return pl.DataFrame(rows, schema_overrides={"clock": pl.UInt32})


def lateness(told):
    """Return the median seconds that rank 1 comes after the others."""
    made = told.pivot(on="rank", index="meets", values="made")
    return (made["1"] - (made["0"] + made["2"]) / 2).median()


@pytest.mark.parametrize("late", [0.06, 0.0])
def test_who_sees_calls_end_early_by_its_clock_is_late_and_its_clock_is_right(late):
    told = arrivals._on_one_clock(with_turns(looked_at(late)))
    assert lateness(told) == pytest.approx(late, abs=0.012)


def test_watchdogs_that_keep_step_with_the_calls_tell_nothing():
    """The look-alike: what they see is late by as much in each step."""
    told = arrivals._on_one_clock(with_turns(looked_at(0.0, keeps_step=True)))
    assert abs(lateness(told)) < 0.001


def test_ranks_of_one_clock_need_none_to_agree():
    made = looked_at(0.06).with_columns(clock=pl.lit(0, pl.UInt32))
    told = arrivals._on_one_clock(with_turns(made))
    assert told["made"].equals(told["raw"])


def test_a_clock_that_meets_others_too_seldom_keeps_its_own_time():
    made = looked_at(0.06)
    seldom = made.filter(pl.col("rank") == 0).with_columns(
        rank=pl.lit(3, pl.Int64),
        clock=pl.lit(3, pl.UInt32),
        raw=pl.col("raw") + 5.0,
    )
    some = [made.filter(pl.col("rank") != 1), seldom.head(2)]
    some.append(
        made.filter(pl.col("rank") == 1).with_columns(clock=pl.lit(5, pl.UInt32))
    )
    told = arrivals._on_one_clock(with_turns(pl.concat(some)))
    alone = told.filter(pl.col("rank") == 3)
    assert alone["made"].equals(alone["raw"])
    assert lateness(told) == pytest.approx(0.06, abs=0.012)


def test_entries_whose_templates_are_of_another_job_have_no_history():
    schema = tables.SCHEMAS["entries"]
    left = pl.DataFrame({c: [None] for c in schema}, schema=schema)
    kept = {"entries": left, "templates": tables.empty("templates")}
    assert arrivals.arrivals(Frames(kept)).is_empty()
