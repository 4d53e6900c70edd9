"""Who did not join the store is named where the store's count proves it."""

JOINED = (
    "[rank0]: torch.distributed.DistStoreError: Timed out after 12 seconds waiting for "
    "clients. {}/4 clients joined.\n"
)
VAIN = (
    "[rank{0}]: torch.distributed.DistNetworkError: The client socket has timed out "
    "after 11000ms while trying to connect to (127.0.0.1, 29999).\n"
)
LATER = (
    "[rank{0}]: torch.distributed.DistStoreError: wait timeout after 11000ms, keys: "
    "/default_pg/0//cpu//0/0\n"
)


def told(analyzed, *lines):
    found = analyzed({"job.log": "".join(lines)}).ranked.verdict
    assert found.slug == "rendezvous-failed"
    return found.ranks


def test_who_tried_in_vain_did_not_join(analyzed):
    others = [LATER.format(r) for r in (1, 3)]
    assert told(analyzed, JOINED.format(3), VAIN.format(2), *others) == (2,)


def test_who_prints_nothing_did_not_join_if_all_others_print(analyzed):
    others = [LATER.format(r) for r in (1, 3)]
    assert told(analyzed, JOINED.format(3), *others) == (2,)


def test_where_the_count_misses_others_nobody_is_named(analyzed):
    assert told(analyzed, JOINED.format(1), VAIN.format(2)) == ()
    assert told(analyzed, JOINED.format(3), LATER.format(1)) == ()


def test_the_rank_that_serves_the_store_is_not_missing(analyzed):
    bare = [line.partition(" ")[2] for line in (JOINED.format(3), LATER.format(1))]
    found = analyzed({"worker-0.log": bare[0], "worker-1.log": bare[1]})
    assert all(0 not in finding.ranks for _, finding in found.ranked.findings)
