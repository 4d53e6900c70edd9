"""Positions get the name of their group, and numbers that count else are dropped."""

import polars as pl

from ncclforensics.correlate.traces import positions, progress
from ncclforensics.model import tables

NOBODY = pl.Series([], dtype=pl.Int64)


def named(status, groups, entries=()):
    """Name the positions (pg_id, pg, last_enqueued) of rank 0's dump."""
    told = tables.rows(
        "positions",
        [
            {"rank": 0, "pg_id": i, "pg": pg, "last_enqueued": n, "source": "d"}
            for i, pg, n in status
        ],
    )
    listed = tables.rows(
        "groups",
        [{"rank": 0, "pg": pg, "pg_desc": desc, "source": "d"} for pg, desc in groups],
    )
    made = progress.summary(tables.rows("collectives", entries), NOBODY)
    found = positions.named(told, listed, made)
    return sorted(found.select("pg", "last_enqueued").rows(), key=str)


def test_numbers_and_counted_names_lie_side_by_side():
    groups = [("112", "Z"), ("0", "default_pg"), ("33", "TP")]
    status = [("0", None, 5), ("11", None, 7), ("4", None, 6)]
    assert named(status, groups) == [("0", 5), ("112", 7), ("33", 6)]


def test_a_name_that_an_entry_told_at_another_place_forbids_it():
    groups = [("0", "default_pg"), ("33", "TP")]
    assert named([("0", None, 5), ("1", "0", 6)], groups) == [("0", 6), (None, 5)]


def test_other_names_than_counters_tell_nothing():
    groups = [("0", "default_pg"), ("mesh_tp", "TP")]
    assert named([("0", None, 5), ("1", None, 6)], groups) == [(None, 5), (None, 6)]


def test_another_number_of_groups_tells_nothing():
    groups = [("0", "default_pg"), ("33", "TP"), ("34", "PP")]
    assert named([("0", None, 5), ("1", None, 6)], groups) == [(None, 5), (None, 6)]


def entry(**more):
    told = {"rank": 0, "pg_id": "1", "pg": "33", "pg_desc": "PP", "source": "d"}
    return {**told, "op": "all_reduce", "seq": 1, "record_id": 1, **more}


def test_gloo_counts_operations_not_collectives():
    status = [("1", "33", 9)]
    assert named(status, [("33", "PP")], [entry(backend="gloo")]) == []
    assert named(status, [("33", "PP")], [entry(backend="nccl")]) == [("33", 9)]


def test_in_a_group_with_messages_the_last_completed_may_be_one():
    told = tables.rows(
        "positions",
        [
            {
                "rank": 0,
                "pg_id": "1",
                "pg": "33",
                "pg_desc": "PP",
                "last_enqueued": 4,
                "last_completed": 86,
                "source": "d",
            }
        ],
    )
    for p2p, completed in ((True, None), (False, 86)):
        made = [entry(seq=3), entry(seq=3, is_p2p=p2p), entry(seq=4)]
        summary = progress.summary(tables.rows("collectives", made), NOBODY)
        found = positions.named(told, tables.empty("groups"), summary)
        assert found.select("last_enqueued", "last_completed").row(0) == (4, completed)


def test_a_group_with_messages_elsewhere_and_no_entry_here_may_count_those():
    groups = [("0", "default_pg"), ("33", "PP")]
    status = [("0", None, 5), ("1", None, 11_986)]
    message = entry(rank=3, source="other", is_p2p=True, op="send", backend="nccl")
    assert named(status, groups, [message]) == [("0", 5)]


def first_open(*given_up):
    """Return by rank the first open call; `given_up` are (rank, call, completed, op)."""
    columns = ("rank", "timed_out", "last_completed", "op")
    rows = [{"group": "g", **dict(zip(columns, row, strict=True))} for row in given_up]
    found = positions.first_open(pl.LazyFrame(rows)).collect()
    return found.select("rank", "timed_out", "op").rows()


def test_a_later_call_that_was_given_up_first_does_not_end_the_one_before_it():
    told = first_open((0, 9, 8, "ALLREDUCE"), (1, 10, 8, "BROADCAST"))
    assert told == [(0, 9, "ALLREDUCE"), (1, 9, "ALLREDUCE")]


def test_but_a_number_that_nobody_gave_up_may_have_no_call():
    told = [(0, 10, 8, "ALLREDUCE"), (1, 10, 9, "ALLREDUCE"), (2, 12, -1, "BROADCAST")]
    assert first_open(*told) == [(rank, call, op) for rank, call, _, op in told]
