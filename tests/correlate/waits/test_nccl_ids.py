"""Ranks that wait for a communicator's id wait for the first rank of its group."""

import pytest

from log_lines import verdict

RAISED = (
    "[rank{0}]: Traceback (most recent call last):\n"
    '[rank{0}]:   File "/w/train.py", line 20, in main\n'
    "[rank{0}]:     dist.barrier()\n"
    "[rank{0}]: torch.distributed.DistBackendError: [{1}] is setting up NCCL "
    "communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key "
    "'0', but store->get('0') got error: {2}\n"
)
WAITED = "wait timeout after 600000ms, keys: /default_pg/0//cuda//0"


def waiting(*ranks, place=0, error=WAITED):
    """Return a log of each rank, whose group rank is its number less `place`."""
    return {f"rank_{r}.log": RAISED.format(r, r - place, error) for r in ranks}


@pytest.mark.parametrize("error", [WAITED, "Socket Timeout"])
def test_the_rank_that_publishes_it_is_missing_not_dead(analyzed, error):
    logs = waiting(1, 2, 3, error=error)
    logs["rank_0.log"] = "2026-11-20 10:00:01 downloading the dataset\n"
    assert verdict(analyzed(logs))[:2] == ("missing-rank", (0,))


def test_it_is_named_where_nothing_of_it_was_collected(analyzed):
    assert verdict(analyzed(waiting(1, 2, 3)))[:2] == ("missing-rank", (0,))


def test_of_a_group_whose_first_rank_is_unknown_nobody_is_named(analyzed):
    assert verdict(analyzed(waiting(5, 6, 7, place=4))) == "inconclusive"


def test_a_store_that_is_gone_is_no_timeout(analyzed):
    logs = waiting(1, 2, 3, error="Connection reset by peer")
    assert verdict(analyzed(logs))[0] != "missing-rank"


def test_rank_0_that_gave_up_as_well_is_not_the_one(analyzed):
    logs = waiting(1, 2, 3)
    logs["rank_0.log"] = RAISED.format(0, 1, WAITED)
    assert verdict(analyzed(logs)) == "inconclusive"


UNTAGGED = RAISED.replace("[rank{0}]: ", "")


def test_the_key_of_the_group_of_all_tells_the_rank_where_no_prefix_does(analyzed):
    logs = {"out.log": UNTAGGED.format(0, 3, WAITED)}
    assert verdict(analyzed(logs))[:2] == ("missing-rank", (0,))


@pytest.mark.parametrize(
    ("place", "error"),
    [
        (3, "wait timeout after 600000ms, keys: /default_pg/7//cuda//0"),
        (3, "Socket Timeout"),
        (0, WAITED),
    ],
)
def test_of_another_group_or_of_rank_0_itself_the_key_names_nobody(
    analyzed, place, error
):
    logs = {"out.log": UNTAGGED.format(0, place, error)}
    assert verdict(analyzed(logs)) == "inconclusive"
