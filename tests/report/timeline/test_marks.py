"""Log lines and exits stand between the calls that surround them in time."""

import pytest

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.report.timeline import marks
from ncclforensics.report.timeline.build import build
from ncclforensics.report.timeline.states import text

SECOND = 1_000_000_000


def call(rank, seq, t):
    done = {"state": "completed", "retired": True}
    place = {"source": f"dump{rank}", "line": seq, "record_id": seq}
    who = {"rank": rank, "pg": "0", "seq": seq, "op": "all_reduce", "is_p2p": False}
    return {**who, **done, **place, "t": t}


def said(rank, message, t, line=1, role="victim"):
    place = {"source": f"log{rank}", "line": line, "text": message}
    return {"rank": rank, "message": message, "role": role, "t": t, **place}


def drawn(report, calls, events=(), exits=()):
    """The timeline, and a row of cells per rank in the order of the columns."""
    frames = Frames(
        {
            "collectives": tables.rows("collectives", calls),
            "events": tables.rows("events", events),
            "exits": tables.rows("exits", exits),
            "ranks": tables.rows("ranks", [{"rank": rank} for rank in (0, 1)]),
        }
    )
    timeline = build(frames, report)
    axis = timeline.axis(None)
    rows = [timeline.cells(row) for row in range(len(timeline.ranks))]
    return timeline, [text(bytes(row[col] for col in axis)) for row in rows[:2]]


@pytest.fixture
def report(fixture_timeline):
    return fixture_timeline("torch-healthy")[1]


@pytest.fixture
def calls():
    return [call(rank, seq, seq * SECOND) for rank in (0, 1) for seq in (1, 2, 3)]


def test_a_mark_stands_between_the_calls_around_it(report, calls):
    events = [
        said(0, "nic.down", int(1.5 * SECOND)),
        said(1, "nic.down", int(1.6 * SECOND)),
        said(1, "nic.down", int(2.5 * SECOND), line=2),
    ]
    ended = {"rank": 1, "code": 1, "t": 4 * SECOND, "source": "agent", "line": 1}
    timeline, rows = drawn(report, calls, events, [ended])
    assert rows == ["·!· · ", "·!·!·E"]
    (kind,) = (k for k in timeline.columns.kinds if k.is_call)
    alone = timeline.axis(kind.name)
    assert alone == timeline.axis(None)


def test_a_process_that_fell_first_has_its_exit_before_the_call_it_missed(report):
    calls = [call(0, seq, seq * SECOND) for seq in (1, 2, 3)]
    calls += [call(1, 1, SECOND)]
    ends = [
        {"rank": 1, "code": 1, "t": int(1.5 * SECOND), "source": "agent", "line": 1},
        {"rank": 0, "code": -15, "t": 9 * SECOND, "source": "agent", "line": 2},
    ]
    _, rows = drawn(report, calls, exits=ends)
    assert rows[0] == "· ··E"
    assert rows[1][:2] == "·E"


def test_marks_without_a_time_come_last(report, calls):
    _, rows = drawn(report, calls, [said(0, "nic.down", None)])
    assert rows == ["···!", "··· "]


def test_calls_without_times_have_all_marks_behind_them(report, calls):
    untimed = [{**one, "t": None} for one in calls]
    _, rows = drawn(report, untimed, [said(0, "nic.down", SECOND)])
    assert rows == ["···!", "··· "]


def test_too_many_places_give_a_column_a_message(report):
    calls = [call(0, seq, seq * SECOND) for seq in range(1, 101)]
    events = [
        said(0, "again", seq * SECOND + SECOND // 2, line=seq) for seq in range(1, 101)
    ]
    timeline, rows = drawn(report, calls, events)
    assert timeline.columns.messages == ("again",)
    assert rows[0][:3] == "·!·"
    assert rows[0].count("!") == 1
    assert len(events) > marks.MOST
