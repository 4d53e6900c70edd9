"""Halves of messages in rings that lost their beginning: posted, delivered or unseen."""

from ncclforensics.correlate.traces import p2p_messages
from ncclforensics.model import tables


def entry(rank, record, op, seq=0, state="completed"):
    """Rank 0 sends to rank 1; anything else is a collective of both."""
    p2p = op in ("send", "recv")
    return {
        "source": str(rank),
        "line": record,
        "rank": rank,
        "record_id": record,
        "pg": "0",
        "seq": seq,
        "op": op,
        "is_p2p": p2p,
        "src": 0 if p2p else None,
        "dst": 1 if p2p else None,
        "state": state,
        "backend": "nccl",
    }


def receives(*sender, before=()):
    """Rank 1 is held in the second receive since call 5 of both; `sender` made these."""
    mine = [
        *before,
        entry(1, 40, "recv"),
        entry(1, 41, "recv", state="scheduled"),
    ]
    calls = tables.rows(
        "calls",
        [
            {
                "call": 0,
                "op": "recv",
                "is_p2p": True,
                "waiting": [1],
                "absent": [0],
                **{state: [] for state in ("behind", "done", "unseen", "unstarted")},
                "source": "1",
                "line": 41,
            }
        ],
    )
    made = tables.rows("collectives", [*mine, *sender]).lazy()
    return p2p_messages.posted(calls, made).row(0, named=True)


BOTH = [entry(1, 39, "all_reduce", seq=5)]


def state(row):
    return [s for s in ("absent", "behind", "done", "unseen") if row[s] == [0]]


def test_the_last_collective_of_both_says_whether_a_half_was_posted():
    start = entry(0, 70, "all_reduce", seq=5)
    one, other = entry(0, 71, "send"), entry(0, 72, "send")
    waits = entry(0, 72, "send", state="scheduled")
    assert state(receives(start, one, before=BOTH)) == ["absent"]
    assert state(receives(start, one, other, before=BOTH)) == ["done"]
    assert state(receives(start, one, waits, before=BOTH)) == ["behind"]


def test_what_was_posted_before_that_collective_does_not_count():
    made = [entry(0, 69, "send"), entry(0, 70, "all_reduce", seq=5)]
    assert state(receives(*made, entry(0, 71, "send"), before=BOTH)) == ["absent"]


def test_a_ring_that_lost_its_beginning_may_hold_the_half_that_is_looked_for():
    assert state(receives(entry(0, 71, "send", state="scheduled"))) == ["unseen"]
    assert state(receives(entry(0, 71, "send"))) == ["absent"]
    assert state(receives(entry(0, 71, "all_reduce", seq=9))) == ["absent"]


def test_without_a_collective_of_both_halves_are_counted_from_those_that_are_over():
    sent = entry(0, 71, "send")
    behind = receives(sent, entry(0, 72, "send", state="scheduled"))
    assert state(behind) == ["behind"]
    assert state(receives(sent, entry(0, 72, "all_reduce", seq=9))) == ["absent"]


def test_the_messages_of_a_batch_are_not_counted_from_those_that_are_over():
    closed = entry(0, 72, "coalesced")
    assert state(receives(entry(0, 71, "send"), closed)) == ["unseen"]


def test_a_dump_of_open_calls_is_no_ring_that_lost_its_beginning():
    assert state(receives(entry(0, 60, "send"), entry(0, 71, "send"))) == ["absent"]


def test_calls_without_messages_stay_as_they_are():
    calls = tables.rows("calls", [{"call": 0, "is_p2p": False, "absent": [0]}])
    made = tables.rows("collectives", []).lazy()
    assert p2p_messages.posted(calls, made).equals(calls)
