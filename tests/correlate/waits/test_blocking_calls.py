"""What each member of a call does about it, on few calls made by hand."""

import datetime

import polars as pl
import pytest

from ncclforensics.correlate.traces import pending_calls
from ncclforensics.correlate.waits import blocking_calls
from ncclforensics.model import tables

EPOCH = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
MEMBERS = pl.DataFrame({"group": ["g"], "members": [[0, 1, 2]]})
SEEN = {
    "whole": True,
    "is_sparse": False,
    "is_stale": False,
    "is_gloo": False,
    "since": EPOCH,
}
NO_MESSAGES = pl.DataFrame(
    schema={
        **dict.fromkeys(
            ("rank", "src", "dst", "total", "finished", "posted"), pl.Int64
        ),
        **dict.fromkeys(("group", "op"), pl.String),
    }
)


def states(waiting, standing, seen, op="all_reduce", listed=True, passed=(), **call):
    """The states of the members of call 5 of group g, in which ranks wait.

    `passed` are those that are held in call 9 of a group of their own, made behind it.
    """
    places = [(rank, 0, "g", 5) for rank in waiting]
    places += [(rank, 0, f"h{rank}", 9) for rank in passed]
    places += [(rank, 1, "g", 5) for rank in passed]
    entries = [
        {
            "rank": rank,
            "choice": choice,
            "group": group,
            "seq": seq,
            "pg": "7",
            "pg_desc": "DP",
            "op": op,
            "is_p2p": False,
            "members": None,
            "src": None,
            "dst": None,
            "started": False,
            "stack": None,
            "t": EPOCH,
            "source": "d",
            "line": 1,
            **call,
        }
        for rank, choice, group, seq in places
    ]
    kinds = {"members": pl.List(pl.Int64), "src": pl.Int64, "dst": pl.Int64}
    made = pl.DataFrame(entries, schema_overrides={**kinds, "stack": pl.UInt64})
    told = tables.rows("standings", [{"group": "g", **row} for row in standing])
    evidence = pl.DataFrame(
        [{"rank": rank, **SEEN, **more} for rank, more in seen.items()]
    )
    known = MEMBERS if listed else MEMBERS.clear()
    found = blocking_calls.calls(made, told, NO_MESSAGES, evidence, known)
    (found,) = found.filter(pl.col("group") == "g").to_dicts()
    return {state: found[state] for state in blocking_calls.STATES if found[state]}


def place(rank, **told):
    return {"rank": rank, "enqueued": 5, **told}


@pytest.mark.parametrize(
    ("op", "unseen"), [("all_reduce", {}), ("broadcast", {"unseen": [2]})]
)
def test_who_finished_a_call_that_needs_all_has_seen_the_unseen_come(op, unseen):
    standing = [place(0, waits_in=5), place(1, completed=5)]
    found = states([0], standing, {0: {}, 1: {}}, op=op)
    assert found == {"waiting": [0], "done": [1], **unseen}


def test_what_a_rank_made_before_the_call_that_holds_it_does_not_wait_for_that_one():
    standing = [place(rank, waits_in=5) for rank in (0, 1, 2)]
    seen = {0: {}, 1: {}, 2: {}}
    assert states([0, 1], standing, seen, passed=[2]) == {"waiting": [0, 1, 2]}
    later = [*standing[:2], place(2, waits_in=4)]
    assert states([0, 1], later, seen) == {"waiting": [0, 1], "behind": [2]}


def test_a_call_that_ended_on_gloo_may_have_failed_without_them():
    standing = [place(0, waits_in=5), place(1, completed=5)]
    found = states([0], standing, {0: {}, 1: {"is_gloo": True}})
    assert found == {"waiting": [0], "done": [1], "unseen": [2]}


def test_a_torn_dump_whose_counters_tell_of_the_call_does_not_show_it_done():
    standing = [place(0, waits_in=5), place(1, waits_in=5), place(2, completed=4)]
    torn = {0: {}, 1: {}, 2: {"is_stale": True}}
    assert states([0, 1], standing, torn) == {"waiting": [0, 1], "unseen": [2]}


@pytest.mark.parametrize(("whole", "state"), [(True, "absent"), (False, "unseen")])
def test_before_its_first_call_a_rank_is_absent_if_nothing_left_its_ring(whole, state):
    late = {"since": EPOCH + datetime.timedelta(seconds=9), "whole": whole}
    standing = [place(0, waits_in=5), place(1, waits_in=5)]
    found = states([0, 1], standing, {0: {}, 1: {}, 2: late})
    assert found == {"waiting": [0, 1], state: [2]}


def test_a_rank_is_held_in_the_oldest_open_call_of_the_group():
    """Although its stream of another group has gone on meanwhile."""
    made = [
        {"group": group, "seq": seq, "record_id": number, "state": state}
        for number, (group, seq, state) in enumerate(
            [("a", 1, "scheduled"), ("b", 1, "completed"), ("a", 2, "scheduled")]
        )
    ]
    rows = [
        {"rank": 0, "is_p2p": False, "op": "all_reduce", "line": m["record_id"]}
        | {"seq": m["seq"], "record_id": m["record_id"], "state": m["state"]}
        for m in made
    ]
    entries = tables.rows("collectives", rows).with_columns(
        pl.Series("group", [m["group"] for m in made])
    )
    summary = pl.DataFrame(
        {"rank": [0], "newest_done": [1], "marks_p2p": [False], "times_p2p": [False]}
    )
    open_calls = entries.filter(pl.col("state") != "completed")
    found = pending_calls.held_up(
        open_calls, summary, tables.empty("standings"), MEMBERS
    )
    assert found.filter(pl.col("choice") == 0)["seq"].to_list() == [1]


def test_of_a_group_that_nothing_lists_those_are_known_that_came():
    assert states([0], [place(0, waits_in=5)], {0: {}, 1: {}}, listed=False) == {
        "waiting": [0]
    }


@pytest.mark.parametrize(
    ("started", "group"), [((False, True), "beside"), ((True, True), "g")]
)
def test_a_rank_is_in_the_call_that_its_gpu_has_begun(started, group):
    """A call of another group passed the one beside it."""
    entry = {"rank": 0, "seq": 5, "pg": "7", "pg_desc": "DP", "op": "all_reduce"}
    rest = {"is_p2p": False, "source": "d", "line": 1, "t": EPOCH}
    rows = [
        {**entry, **rest, "choice": choice, "group": name, "started": begun}
        for choice, (name, begun) in enumerate(
            zip(("g", "beside"), started, strict=True)
        )
    ]
    none = ("src", "dst", "members", "stack")
    kinds = (pl.Int64, pl.Int64, pl.List(pl.Int64), pl.UInt64)
    made = pl.DataFrame(rows).with_columns(
        pl.lit(None, kind).alias(name) for name, kind in zip(none, kinds, strict=True)
    )
    groups = pl.DataFrame({"group": ["g", "beside"], "members": [[0, 1], [0, 1]]})
    evidence = pl.DataFrame([{"rank": rank, **SEEN} for rank in (0, 1)])
    told = tables.empty("standings")
    found = blocking_calls.calls(made, told, NO_MESSAGES, evidence, groups)
    assert found["group"].to_list() == [group]


def held_in(*made, completed=None):
    """What rank 0 is held in, of (op, seq, columns) in the order in which it made them.

    Its peers have completed so much in group g.
    """
    rows = [
        {"rank": 0, "op": op, "seq": seq, "record_id": n, "line": n, "backend": "nccl"}
        | {"is_p2p": op in ("send", "recv"), "state": "scheduled", **more}
        for n, (op, seq, more) in enumerate(made)
    ]
    entries = tables.rows("collectives", rows).with_columns(pl.lit("g").alias("group"))
    over = pl.col("state") == "completed"
    done = entries.filter(over)["record_id"].max()
    summary = pl.DataFrame(
        {
            "rank": [0],
            "newest_done": [done],
            "marks_p2p": [True],
            "times_p2p": [False],
        },
        schema_overrides={"newest_done": pl.Int64},
    )
    peers = [{"rank": 1, "group": "g", "completed": completed}]
    standing = tables.rows("standings", peers)
    found = pending_calls.held_up(entries.filter(~over), summary, standing, MEMBERS)
    return found.filter(pl.col("choice") == 0)["line"].to_list()


def test_messages_of_two_ranks_end_in_their_order_whatever_passed_them():
    send, recv = {"src": 0, "dst": 1}, {"src": 1, "dst": 0}
    step = ("all_reduce", 1, {"state": "completed"})
    assert held_in(("send", 0, send), step, ("recv", 0, recv)) == [0]
    other = {"src": 0, "dst": 2}
    assert 2 in held_in(("send", 0, other), step, ("recv", 0, recv))


@pytest.mark.parametrize(("completed", "line"), [(5, 1), (4, 0)])
def test_a_rank_that_others_got_past_is_in_that_call_and_in_no_message(completed, line):
    made = ("send", 0, {"src": 0, "dst": 1}), ("all_reduce", 5, {})
    assert held_in(*made, completed=completed) == [line]


@pytest.mark.parametrize(
    ("theirs", "unstarted"), [((True, False), []), ((False, False), [1])]
)
def test_one_message_of_a_batch_that_has_begun_shows_that_its_gpu_is_in_it(
    theirs, unstarted
):
    message = {"group": "g", "src": 1, "dst": 0, "is_p2p": True, "choice": 0}
    about = {"seq": 5, "pg": "7", "pg_desc": "PP", "source": "d", "line": 1, "t": EPOCH}
    batches = {0: ("recv", (True, False)), 1: ("send", theirs)}
    rows = [
        {**message, **about, "rank": rank, "op": op, "started": started}
        for rank, (op, halves) in batches.items()
        for started in halves
    ]
    made = pl.DataFrame(rows).with_columns(
        members=pl.lit([0, 1]), stack=pl.lit(None, pl.UInt64)
    )
    evidence = pl.DataFrame([{"rank": rank, **SEEN} for rank in (0, 1)])
    groups = pl.DataFrame({"group": ["g"], "members": [[0, 1]]})
    nothing = tables.empty("standings"), NO_MESSAGES
    (call,) = blocking_calls.calls(made, *nothing, evidence, groups).to_dicts()
    assert call["unstarted"] == unstarted


@pytest.mark.parametrize(
    ("mine", "theirs", "told"),
    [
        (False, True, {"waiting": [0, 1], "unstarted": [0]}),
        (True, True, {"waiting": [0, 1], "unstarted": []}),
        (False, False, {"waiting": [0], "unstarted": []}),
        (None, True, {"waiting": [0, 1], "unstarted": []}),
    ],
)
def test_a_rank_is_in_the_message_that_its_gpu_has_begun(mine, theirs, told):
    """It is held in a call of another stream, and its peer has yet to begin its half.

    A rank that never marks when its messages begin (None) may have begun this one.
    """
    message = {"group": "g", "src": 1, "dst": 0, "is_p2p": True}
    rows = [
        {"rank": 0, "choice": 0, "op": "recv", "started": mine, **message},
        {"rank": 1, "choice": 0, "op": "all_reduce", "started": True, "group": "h"},
        {"rank": 1, "choice": 1, "op": "send", "started": theirs, **message},
    ]
    about = {"seq": 5, "pg": "7", "pg_desc": "PP", "source": "d", "line": 1, "t": EPOCH}
    made = pl.DataFrame(
        [{"is_p2p": False, "src": None, "dst": None, **about, **row} for row in rows],
        schema_overrides={"src": pl.Int64, "dst": pl.Int64},
    ).with_columns(
        pl.when("is_p2p").then(pl.lit([0, 1])).alias("members"),
        pl.lit(None, pl.UInt64).alias("stack"),
    )
    groups = pl.DataFrame({"group": ["g", "h"], "members": [[0, 1], [1, 2]]})
    evidence = pl.DataFrame([{"rank": rank, **SEEN} for rank in (0, 1, 2)])
    talk = pl.concat(
        [
            NO_MESSAGES,
            pl.DataFrame(
                [{"rank": 1, "src": 1, "dst": 0, "total": 1, "finished": 0}]
            ).with_columns(posted=1, group=pl.lit("g"), op=pl.lit("send")),
        ],
        how="diagonal_relaxed",
    )
    found = blocking_calls.calls(
        made, tables.empty("standings"), talk, evidence, groups
    )
    (call,) = found.filter(pl.col("group") == "g").to_dicts()
    assert {state: call[state] for state in told} == told
