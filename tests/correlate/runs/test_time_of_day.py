"""Stamps that tell the time of day alone: which day it was."""

import os
from datetime import UTC, datetime

import pytest

from ncclforensics.analysis import analyze

STEP = "{at} step {step} loss 0.2\n"
NEVER = datetime(2020, 1, 1, tzinfo=UTC)


def times(path, files):
    """Return the times of the steps of files, of which each has a text and an mtime."""
    for name, (text, written) in files.items():
        (path / name).write_text(text)
        os.utime(path / name, (written.timestamp(),) * 2)
    steps = analyze([str(path)]).frames.message("python.step").sort("source", "line")
    return [t and t.strftime("%m-%d %H:%M:%S") for t in steps["t"].to_list()]


@pytest.mark.parametrize(
    "at", ["{}", "[{}]", "{},250 -", "{}.250 |", "[ckpt] {}", "[titan] 2026-03-01 {}"]
)
def test_the_other_stamps_of_the_file_tell_the_day(tmp_path, at):
    text = "2026-03-01 10:00:00 step 1\n" + STEP.format(
        at=at.format("10:00:07"), step=2
    )
    assert times(tmp_path, {"a.log": (text, NEVER)}) == [
        "03-01 10:00:00",
        "03-01 10:00:07",
    ]


def test_a_time_that_is_earlier_by_half_a_day_begins_another_one(tmp_path):
    clocks = ("23:59:00", "00:05:00", "12:00:00", "23:00:00", "01:00:00")
    lines = (STEP.format(at=at, step=2 + n) for n, at in enumerate(clocks))
    text = "2026-03-01 23:58:00 step 1\n" + "".join(lines)
    assert times(tmp_path, {"a.log": (text, NEVER)})[1:] == [
        "03-01 23:59:00",
        "03-02 00:05:00",
        "03-02 12:00:00",
        "03-02 23:00:00",
        "03-03 01:00:00",
    ]


def test_a_file_without_a_date_is_of_the_day_of_the_others(tmp_path):
    files = {
        "a.log": ("2026-03-01 23:59:00 step 1\n", NEVER),
        "b.log": (STEP.format(at="00:01:00", step=2), NEVER),
    }
    assert times(tmp_path, files)[1] == "03-02 00:01:00"


@pytest.mark.parametrize(
    ("hour", "minute", "day"),
    [
        (10, 0, "03-01 10:00:07"),
        (2, 0, "03-01 10:00:07"),  # written in another zone
        (2, 7, None),  # a copy
    ],
)
def test_a_file_tells_the_day_only_if_it_was_written_with_its_last_line(
    tmp_path, hour, minute, day
):
    written = datetime(2026, 3, 1, hour, minute, 20, tzinfo=UTC)
    text = STEP.format(at="10:00:07", step=1)
    assert times(tmp_path, {"a.log": (text, written)}) == [day]


def test_a_duration_in_front_of_a_line_is_no_time(tmp_path):
    text = "2026-03-01 10:00:00 step 1\n1:00:07 step 2\n00:00:07elapsed step 3\n"
    assert times(tmp_path, {"a.log": (text, NEVER)})[1:] == [None, None]
