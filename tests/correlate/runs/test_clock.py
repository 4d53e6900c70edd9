"""Times that different programs and hosts print become comparable where they can."""

from datetime import UTC, datetime

import polars as pl
import pytest

from ncclforensics.correlate.runs import clock
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.report.rfc3339 import rfc3339

SECOND = 1_000_000_000


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def events(*rows):
    return tables.rows(
        "events", [{"source": "a", "line": i, **r} for i, r in enumerate(rows)]
    )


def times(frames, name="events"):
    return [t and t.isoformat(" ")[:19] for t in frames[name]["t"].to_list()]


def yearless(text):
    return {"yearless": at(f"1972-{text}")}


def test_a_stamp_without_a_year_takes_the_one_of_the_others():
    told = Frames(
        {"events": events({"t": at("2026-03-01 10:00:00")}, yearless("03-01 10:00:05"))}
    )
    assert times(clock.with_year(told)) == [
        "2026-03-01 10:00:00",
        "2026-03-01 10:00:05",
    ]


def test_around_new_year_the_nearer_year_counts():
    told = Frames(
        {
            "events": events(
                {"t": at("2025-12-31 23:59:00")},
                {"t": at("2026-01-01 00:10:00")},
                yearless("12-31 23:59:30"),
                yearless("01-01 00:05:00"),
            )
        }
    )
    assert times(clock.with_year(told))[2:] == [
        "2025-12-31 23:59:30",
        "2026-01-01 00:05:00",
    ]


def test_without_a_full_date_times_can_be_compared_and_are_not_told():
    lines = events(yearless("03-01 10:00:05"), yearless("03-01 10:00:07"))
    told = clock.with_year(Frames({"events": lines}))
    assert times(told) == [None, None]
    first, second = clock.comparable(told)["events"]["t"].dt.epoch("ns")
    assert second - first == 2 * SECOND
    assert rfc3339(first) is None


def test_times_of_a_known_year_stay_as_they_are():
    lines = events({"t": at("2026-03-01 10:00:00")}, yearless("02-29 10:00:00"))
    told = Frames({"events": lines})
    assert clock.comparable(told) is told


def test_the_exits_of_a_table_tell_the_year_of_the_lines_above_it():
    exits = tables.rows("exits", [{"t": at("2026-03-01 10:00:09"), "code": -11}])
    told = Frames({"events": events(yearless("03-01 10:00:05")), "exits": exits})
    assert times(clock.with_year(told)) == ["2026-03-01 10:00:05"]


def test_years_that_lie_far_apart_tell_nothing():
    dated = [{"t": at(f"20{year}-03-01 10:00:00")} for year in (21, 26)]
    told = Frames({"events": events(*dated, yearless("03-01 10:00:05"))})
    assert times(clock.with_year(told))[2] is None


def test_a_day_that_a_year_does_not_have_stays_unknown():
    told = Frames(
        {"events": events({"t": at("2026-03-01 10:00:00")}, yearless("02-29 10:00:00"))}
    )
    assert times(clock.with_year(told))[1] is None


def test_what_a_line_fed_has_the_time_of_the_line():
    fed = tables.rows("positions", [{"rank": 3, "source": "a", "line": 1}])
    lines = events({"t": at("2026-03-01 10:00:00")}, yearless("03-01 10:00:05"))
    found = clock.with_year(Frames({"events": lines, "positions": fed}))
    assert times(found, "positions") == ["2026-03-01 10:00:05"]


@pytest.mark.parametrize(
    ("hours", "said"), [(0, None), (-7, "-7.00 h"), (5.5, "+5.50 h")]
)
def test_a_watchdog_and_a_dump_tell_the_zone_of_local_stamps(hours, said):
    """The call was made at 10:00 UTC and given up after 600 s, at 10:10:05 UTC."""
    made = tables.rows(
        "collectives",
        [
            {
                "rank": 3,
                "seq": 7,
                "t": at("2026-03-01 10:00:00"),
                "source": "d",
                "line": 1,
            }
        ],
    )
    local = at("1972-03-01 10:10:05") + pl.select(pl.duration(hours=hours)).item()
    line = events({"rank": 3, "yearless": local})
    message = line.with_columns(
        timed_out=pl.lit(7, pl.Int64), ran_ms=pl.lit(600_000, pl.Int64)
    )
    found = clock.with_year(
        Frames(
            {"events": line, "collectives": made}, {"c10d.watchdog.timeout": message}
        )
    )
    assert times(found) == ["2026-03-01 10:10:05"]
    told = [t for t in found["notes"]["text"] if "ahead of UTC" in t]
    assert bool(told) == bool(said)
    assert said is None or said in told[0]


def job(errors, calls=5, jitter=0):
    """Return frames of ranks on hosts whose clocks are wrong by `errors` seconds."""
    start = pl.Series([at("2026-03-01 10:00:00")]).dt.epoch("ns").item()
    ranks = [
        {"rank": r, "host": f"gpu000{r}", "source": "a", "line": 1}
        for r in range(len(errors))
    ]
    made = pl.DataFrame(
        [
            {
                "rank": rank,
                "pg": "0",
                "seq": seq,
                "state": "completed",
                "t_completed": start
                + seq * 7 * SECOND
                + int(error * SECOND)
                + rank * seq * jitter,
                "source": "d",
                "line": seq,
            }
            for rank, error in enumerate(errors)
            for seq in range(1, calls + 1)
        ]
    ).with_columns(pl.col("t_completed").cast(tables.TIME))
    lines = events(
        *(
            {"host": f"gpu000{r}", "t": at("2026-03-01 11:00:00")}
            for r in range(len(errors))
        )
    )
    return Frames(
        {
            "ranks": tables.rows("ranks", ranks),
            "collectives": tables.conform("collectives", made),
            "events": lines,
        }
    )


def test_a_clock_that_is_ahead_is_told_by_the_ends_of_common_calls():
    found = clock.skew(job([0, 0, 40])).rows()
    assert [(host, round(wrong / SECOND)) for host, wrong, _ in found] == [
        ("gpu0000", 0),
        ("gpu0001", 0),
        ("gpu0002", 40),
    ]


def test_it_is_corrected_and_said():
    found = clock.on_one_clock(job([0, 0, 40]))
    assert times(found) == ["2026-03-01 11:00:00"] * 2 + ["2026-03-01 10:59:20"]
    (text,) = found["notes"]["text"]
    assert "gpu0002 is +40.0 s ahead" in text


def test_less_than_the_grain_of_the_stamps_is_left_alone():
    told = job([0, 0, 0.4])
    assert times(clock.on_one_clock(told)) == times(told)


@pytest.mark.parametrize("told", [job([0, 0, 40], calls=2), job([40])])
def test_too_few_common_calls_tell_nothing(told):
    assert clock.skew(told).is_empty()


def test_ends_that_wander_are_no_clock():
    wandering = job([0, 0, 40], jitter=9 * SECOND)
    assert times(clock.on_one_clock(wandering))[2] == "2026-03-01 11:00:00"
