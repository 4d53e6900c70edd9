"""What is told of each rank where there are only logs."""

from datetime import UTC, datetime

import polars as pl
import pytest

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.report.timeline.outcomes import outcomes, told


def at(second):
    return datetime(2026, 11, 20, 11, 35, second, tzinfo=UTC)


def frames(events=(), exits=()):
    def rows(name, given):
        found = pl.DataFrame(
            [{"source": "a.log", "line": n, **row} for n, row in enumerate(given, 1)]
        )
        return tables.conform(name, found) if given else tables.empty(name)

    return Frames({"events": rows("events", events), "exits": rows("exits", exits)})


def made(steps=(), **given):
    schema = {"rank": pl.Int64, "step": pl.Int64}
    found = outcomes(
        frames(**given), pl.DataFrame(list(steps), schema=schema, orient="row")
    )
    return {row["rank"]: row for row in found.to_dicts()}


def test_the_first_error_is_the_first_in_time_and_no_agents_line():
    line = {"rank": 1, "message": "m", "level": None}
    found = made(
        events=[
            {**line, "role": "victim", "text": "later", "t": at(9)},
            {**line, "role": "culprit", "text": "first", "t": at(5)},
            {**line, "role": None, "text": "healthy", "t": at(2)},
            {**line, "role": "agent", "text": "rank 1 failed", "t": at(30)},
        ]
    )
    assert found[1]["error"] == "first"
    assert found[1]["last"] == at(9)


def test_the_end_is_a_signal_or_a_code_and_nothing_where_nobody_tells():
    found = made(
        steps=[(2, 7)],
        exits=[
            {"rank": 0, "code": -9, "t": at(1)},
            {"rank": 1, "code": 1},
            {"rank": 3, "code": 0},
            {"rank": 4, "code": None},
        ],
    )
    ends = {rank: row["ended"] for rank, row in found.items()}
    assert ends == {0: "SIGKILL", 1: "exit 1", 2: None, 3: "exit 0"}


def test_a_rank_is_behind_by_more_than_a_step():
    steps = [(0, 499), (1, 500), (2, 500), (3, 312), (4, 499)]
    found = made(steps=steps)
    assert [rank for rank, row in found.items() if row["is_behind"]] == [3]


@pytest.mark.parametrize(
    ("seconds", "span"),
    [((21, 21), "11:35:21"), ((21, 33), "11:35:21-33"), ((), "")],
)
def test_ranks_that_share_a_line_tell_a_span(seconds, span):
    line = {"message": "m", "role": None, "text": "x"}
    events = [{**line, "rank": n, "t": at(s)} for n, s in enumerate(seconds)]
    rows = outcomes(frames(events=events), pl.DataFrame())
    assert told(rows)["last"] == span


def test_different_steps_and_ends_are_told_as_such():
    exits = [{"rank": 0, "code": 1}, {"rank": 1, "code": -15}]
    steps = pl.DataFrame({"rank": [0, 1], "step": [499, 500]})
    texts = told(outcomes(frames(exits=exits), steps))
    assert (texts["step"], texts["ended"]) == ("499-500", "2 ways")
