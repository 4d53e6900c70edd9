"""Ranks of a node are consecutive, so some of them tell the hosts of the others."""

import polars as pl

from ncclforensics.correlate.identity.node_order import in_blocks


def ranks(known, many=8):
    hosts = [known.get(rank) for rank in range(many)]
    types = {"rank": pl.Int64, "host": pl.String}
    return pl.DataFrame({"rank": [*range(many)], "host": hosts}, schema=types)


def test_hosts_of_equal_blocks_are_those_of_all_their_ranks():
    told = in_blocks(ranks({0: "a1", 2: "a1", 3: "a1", 5: "b1"}))
    assert dict(told.rows())[7] == "b1"


def test_hosts_that_take_turns_are_no_blocks():
    assert in_blocks(ranks({0: "a1", 1: "b1", 2: "a1", 3: "b1"})).is_empty()


def test_one_rank_a_host_may_be_anything():
    assert in_blocks(ranks({0: "a1", 5: "b1"})).is_empty()


def test_a_host_of_which_nothing_is_known_leaves_it_open():
    assert in_blocks(
        ranks({0: "a1", 1: "a1", 4: "b1", 5: "b1", 8: "c1"}, 10)
    ).is_empty()
