"""Groups are told apart by name and members; finished is what really is."""

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from ncclforensics.correlate.traces import progress
from ncclforensics.correlate.waits import rank_evidence
from ncclforensics.model import tables

NOBODY = pl.Series([], dtype=pl.Int64)
NO_POSITIONS = tables.empty("positions")


def entry(rank, seq, **more):
    told = {
        "pg": "7",
        "pg_desc": "DP",
        "pg_id": "1",
        "op": "all_reduce",
        "backend": "nccl",
        "is_p2p": False,
        "state": "scheduled",
        "retired": False,
        "record_id": seq,
        "source": f"rank_{rank}",
        "line": seq,
    }
    return {"rank": rank, "seq": seq, **told, **more}


def open_calls(entries, positions=NO_POSITIONS, failed=NOBODY, torn=NOBODY):
    made = tables.rows("collectives", entries)
    told = progress.summary(made, failed)
    names, _ = progress.name_groups(tables.empty("groups"), told, positions)
    told = progress.grouped(positions, names)
    found = progress.unfinished(made, names, told, failed, torn)
    return sorted(zip(found["rank"], found["seq"], strict=True))


def group(rank, members, **more):
    told = {"pg": "7", "pg_desc": "DP", "pg_id": None, "source": f"rank_{rank}"}
    return {"rank": rank, "members": members, **told, **more}


def named(groups, entries):
    told = progress.summary(tables.rows("collectives", entries), NOBODY)
    names, members = progress.name_groups(
        tables.rows("groups", groups), told, NO_POSITIONS
    )
    listed = dict(members.rows())
    return {row["rank"]: listed.get(row["group"]) for row in names.to_dicts()}, names


def test_split_groups_that_share_a_name_are_two():
    halves = [[0, 1], [2, 3]]
    groups = [group(rank, halves[rank // 2]) for rank in range(4)]
    found, names = named(groups, [entry(rank, 1) for rank in range(4)])
    assert found == {0: [0, 1], 1: [0, 1], 2: [2, 3], 3: [2, 3]}
    assert names["group"].n_unique() == 2


def test_the_number_of_a_group_on_its_rank_does_not_matter():
    groups = [group(rank, [0, 1]) for rank in (0, 1)]
    entries = [entry(0, 1, pg_id="3"), entry(1, 1, pg_id="9")]
    _, names = named(groups, entries)
    assert names["group"].n_unique() == 1


def test_members_that_nothing_lists_are_those_seen():
    found, _ = named([], [entry(0, 1), entry(5, 1)])
    assert found == {0: [0, 5], 5: [0, 5]}


def test_a_group_without_a_name_is_known_by_its_members():
    groups = [
        group(rank, [0, 1], pg=None, pg_desc=None, pg_id=str(rank + 1))
        for rank in (0, 1)
    ]
    entries = [
        entry(rank, 1, pg=None, pg_desc=None, pg_id=str(rank + 1)) for rank in (0, 1)
    ]
    found, names = named(groups, entries)
    assert found == {0: [0, 1], 1: [0, 1]}
    assert names["group"].n_unique() == 1


def test_of_a_group_without_name_and_members_only_number_0_holds_all():
    entries = [
        entry(rank, 1, pg="", pg_desc="", pg_id=number)
        for rank, number in ((0, "0"), (1, "0"), (0, "1"), (1, "1"))
    ]
    told = progress.summary(tables.rows("collectives", entries), NOBODY)
    names, members = progress.name_groups(tables.empty("groups"), told, NO_POSITIONS)
    known = names.join(members, on="group", how="left").sort("pg_id", "rank")
    assert known["members"].to_list() == [[0, 1], [0, 1], None, None]


def test_completed_is_over_and_retired_alone_is_not_on_nccl():
    entries = [
        entry(0, 1, state="completed", retired=True),
        entry(0, 2, retired=True),
        entry(0, 3),
    ]
    assert open_calls(entries) == [(0, 2), (0, 3)]


def test_gloo_retires_what_is_over_but_not_the_last_call_of_a_rank_that_failed():
    entries = [
        entry(rank, seq, backend="gloo", retired=True)
        for rank in (0, 1)
        for seq in (1, 2)
    ]
    assert open_calls(entries) == []
    assert open_calls(entries, failed=pl.Series([0])) == [(0, 2)]


def test_gloo_finished_what_a_peer_has_passed_though_the_rank_failed_later():
    entries = [
        entry(0, 1, backend="gloo", retired=True),
        entry(1, 1, backend="gloo", retired=True),
        entry(1, 2, backend="gloo"),
    ]
    assert open_calls(entries, failed=pl.Series([0, 1])) == [(1, 2)]


def test_a_status_that_counts_further_closes_what_stays_scheduled_for_ever():
    told = tables.rows(
        "positions",
        [{"rank": 0, "pg": "7", "pg_desc": "DP", "pg_id": "1", "last_completed": 2}],
    )
    assert open_calls([entry(0, 1), entry(0, 2), entry(0, 3)], told) == [(0, 3)]


def test_a_message_that_later_ones_of_the_same_two_have_passed_is_over():
    def message(record, src, dst, **more):
        return entry(0, record, is_p2p=True, op="send", src=src, dst=dst, **more)

    entries = [
        message(1, 0, 1),
        message(2, 0, 2),
        message(3, 0, 1, state="completed"),
        message(4, 0, 1),
    ]
    assert open_calls(entries) == [(0, 2), (0, 4)]


def test_the_end_of_a_batch_ends_its_messages():
    def message(record):
        return entry(0, record, is_p2p=True, op="send", src=0, dst=1)

    batch = entry(0, 3, op="coalesced", is_p2p=True, state="completed")
    entries = [message(1), message(2), batch, message(4)]
    assert open_calls(entries) == [(0, 4)]
    # a dump that is cut may have lost the entry that closes the last batch
    assert open_calls(entries, torn=pl.Series([0])) == []
    assert open_calls(entries, torn=pl.Series([1])) == [(0, 4)]


def test_which_of_two_groups_of_the_same_members_is_told_by_all_that_a_dump_lists():
    """Rank 1 has no call of the first one in its ring any more."""
    nameless = {"pg": None, "pg_desc": None}
    groups = [
        group(rank, [0, 1], pg_id=number, **nameless)
        for rank in (0, 1)
        for number in ("0", "1")
    ]
    entries = [
        entry(rank, 1, pg_id=number, **nameless)
        for rank, number in ((0, "0"), (0, "1"), (1, "1"))
    ]
    _, names = named(groups, entries)
    of = {(row["rank"], row["pg_id"]): row["group"] for row in names.to_dicts()}
    assert of[1, "1"] == of[0, "1"] != of[0, "0"]


@pytest.mark.parametrize(
    ("late", "earlier", "op", "timeout_ms", "who"),
    [
        (9, 0, "all_reduce", 7_000, {0, 1}),
        (6, 0, "all_reduce", 7_000, set()),
        # a clock that goes wrong did so before, and a root waits for nobody
        (9, 9, "all_reduce", 7_000, set()),
        (9, 0, "broadcast", 7_000, set()),
        (9, 0, "all_reduce", None, set()),
    ],
)
def test_gloo_gave_up_what_a_member_made_when_the_timeout_had_passed(
    late, earlier, op, timeout_ms, who
):
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    made = [
        entry(
            rank,
            seq,
            op=op,
            backend="gloo",
            timeout_ms=timeout_ms,
            retired=seq < 3 or rank < 2,
            t=begin + timedelta(seconds=seq + (rank == 2) * seconds),
        )
        for rank in range(3)
        for seq, seconds in ((1, earlier), (2, earlier), (3, late))
    ]
    assert set(rank_evidence.given_up(tables.rows("collectives", made))) == who
    of_nccl = [{**call, "backend": "nccl"} for call in made]
    assert rank_evidence.given_up(tables.rows("collectives", of_nccl)).is_empty()


@pytest.mark.parametrize(
    ("calls_of", "op", "backend", "who"),
    [
        ((3, 3, 2), "all_reduce", "gloo", {0, 1}),
        ((3, 3, 3), "all_reduce", "gloo", set()),
        # two calls cannot have ended without it: that dump is an earlier one
        ((3, 3, 1), "all_reduce", "gloo", set()),
        ((3, 3, 2), "broadcast", "gloo", set()),
        ((3, 3, 2), "all_reduce", "nccl", set()),
    ],
)
def test_a_gloo_call_that_a_member_never_made_did_not_end(calls_of, op, backend, who):
    made = [
        entry(rank, seq, op=op, backend=backend, retired=True)
        for rank, calls in enumerate(calls_of)
        for seq in range(1, calls + 1)
    ]
    found = rank_evidence.unmet(
        tables.rows("collectives", made), tables.empty("groups")
    )
    assert set(found) == who


def test_two_groups_of_one_name_are_told_apart_before_a_call_lacks_a_member():
    members = ([0, 1], [0, 1], [2, 3], [2, 3])
    made = [
        entry(rank, seq, op="all_reduce", backend="gloo", retired=True)
        for rank, calls in enumerate((3, 3, 2, 2))
        for seq in range(1, calls + 1)
    ]
    listed = [group(rank, some) for rank, some in enumerate(members)]
    found = rank_evidence.unmet(
        tables.rows("collectives", made), tables.rows("groups", listed)
    )
    assert found.is_empty()


@pytest.mark.parametrize(
    ("groups", "pgs"),
    [
        (("tp|low", "tp|low", "tp|high"), ["tp|low", "tp|low", "tp|high"]),  # split
        (("tp|all", "tp|all", "tp|all"), ["tp", "tp", "tp"]),
    ],
)
def test_a_name_that_several_groups_share_gives_way_to_the_group(groups, pgs):
    about = {"pg": "tp", "pg_desc": "TP", "pg_id": "1"}
    names = tables.rows(
        "group_names",
        [{"rank": r, "group": group, **about} for r, group in enumerate(groups)],
    )
    made = tables.rows("collectives", [{"rank": r, **about} for r in range(3)])
    assert progress.told_apart(made.lazy(), names).collect()["pg"].to_list() == pgs
