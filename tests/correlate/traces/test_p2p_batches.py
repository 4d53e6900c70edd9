"""Messages of a batch are as far as the entry that closes the batch says."""

import polars as pl
import pytest

from ncclforensics.correlate.traces import p2p_batches
from ncclforensics.model import tables

HEAD = {"source": "a", "rank": 0, "pg": "3", "pg_desc": "PP", "pg_id": "1"}


def entries(*rows):
    """Return collectives of one group: (op, p2p_seq, state) in order of recording."""
    told = [
        {
            **HEAD,
            "op": op,
            "p2p_seq": number,
            "state": state,
            "retired": state == "completed",
            "is_p2p": op != "all_reduce",
            "record_id": record,
        }
        for record, (op, number, state) in enumerate(rows)
    ]
    return tables.rows("collectives", told)


def older(*rows):
    """Return such calls as older torch counts them: (op, seq, state)."""
    made = entries(*rows)
    return made.with_columns(
        pl.col("p2p_seq").alias("seq"),
        pl.lit(0, pl.Int64).alias("p2p_seq"),
        pl.col("op").is_in(p2p_batches.HALVES).alias("is_p2p"),
    )


def states(frame):
    return p2p_batches.ended(frame)["state"].to_list()


def test_messages_end_with_their_batch():
    made = entries(
        ("send", 1, "scheduled"),
        ("recv", 1, "scheduled"),
        ("coalesced", 1, "completed"),
        ("send", 2, "scheduled"),
        ("recv", 2, "scheduled"),
        ("coalesced", 2, "started"),
    )
    assert states(made) == ["completed"] * 3 + ["started"] * 3


def test_a_batch_whose_end_was_left_out_is_over_where_only_open_calls_are_dumped():
    made = entries(
        ("send", 1, "scheduled"),
        ("recv", 1, "scheduled"),
        ("send", 2, "scheduled"),
        ("recv", 2, "scheduled"),
        ("coalesced", 2, "scheduled"),
    )
    assert states(made) == ["completed"] * 2 + ["scheduled"] * 3


def test_so_is_the_newest_one_where_the_ends_of_others_were_left_out():
    made = entries(
        ("send", 1, "scheduled"),
        ("recv", 1, "scheduled"),
        ("coalesced", 1, "left out"),
        ("send", 2, "scheduled"),
        ("recv", 2, "scheduled"),
    ).filter(pl.col("state") != "left out")
    assert states(made) == ["completed"] * 4


def test_the_newest_one_stays_open_where_batches_have_no_ends_at_all():
    made = entries(
        ("send", 1, "scheduled"),
        ("recv", 1, "scheduled"),
        ("send", 2, "scheduled"),
        ("recv", 2, "scheduled"),
    )
    assert states(made) == ["completed"] * 2 + ["scheduled"] * 2


def test_without_its_end_a_batch_of_a_whole_dump_stays_open():
    made = entries(
        ("all_reduce", 0, "completed"),
        ("send", 1, "scheduled"),
        ("recv", 1, "scheduled"),
        ("all_reduce", 1, "scheduled"),
    )
    assert states(made) == made["state"].to_list()


@pytest.mark.parametrize("number", [None, 1])
def test_messages_on_their_own_keep_what_they_say(number):
    made = entries(
        ("send", number, "scheduled"),
        ("recv", None if number is None else 2, "scheduled"),
        ("all_reduce", 0, "scheduled"),
    )
    assert states(made) == ["scheduled"] * 3


def test_the_order_and_all_other_columns_stay():
    made = entries(
        ("coalesced", 7, "completed"), ("send", 9, "scheduled"), ("recv", 9, "x")
    )
    ended = p2p_batches.ended(made)
    assert ended.columns == made.columns
    assert ended.select(pl.exclude(p2p_batches.TOLD)).equals(
        made.select(pl.exclude(p2p_batches.TOLD))
    )


def test_older_torch_counts_batches_among_the_collectives():
    made = older(
        ("send", 1, "scheduled"),
        ("recv", 1, "scheduled"),
        ("coalesced", 1, "completed"),
        ("all_reduce", 2, "completed"),
        ("send", 3, "scheduled"),
        ("recv", 3, "scheduled"),
        ("coalesced", 3, "started"),
    )
    assert states(made) == ["completed"] * 4 + ["started"] * 3
    is_p2p = [op != "all_reduce" for op in made["op"]]
    assert p2p_batches.ended(made)["is_p2p"].to_list() == is_p2p


def test_a_batch_of_collectives_stays_one():
    made = older(
        ("send", 1, "scheduled"),
        ("coalesced", 1, "completed"),
        ("all_reduce", 2, "scheduled"),
        ("coalesced", 2, "completed"),
    )
    assert states(made) == ["completed", "completed", "scheduled", "completed"]
    assert p2p_batches.ended(made)["is_p2p"].to_list() == [True, True, False, False]
