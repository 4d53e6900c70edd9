"""Clocks are put on one by their meetings, and never against the order of calls."""

import polars as pl
import pytest

from ncclforensics.correlate.timing import arrivals
from ncclforensics.correlate.timing.turns import with_turns

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
