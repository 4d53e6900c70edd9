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


@pytest.mark.parametrize(
    ("key", "missing"), [("default_pg/0/0", True), ("mesh_tp/0/0", False)]
)
def test_the_key_tells_the_group_of_all_where_no_prefix_tells_the_rank(
    analyzed, key, missing
):
    raised = RAISED.replace("[rank{0}]: ", "")
    error = f"Timeout waiting for key: {key} after 1800000 ms"
    told = verdict(analyzed({"job.log": raised.format(1, 1, error)}))
    assert (told[:2] == ("missing-rank", (0,))) is missing
