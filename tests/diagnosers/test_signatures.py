"""Who differs in one call, from entries made by hand."""

import polars as pl
import pytest

from ncclforensics import tables
from ncclforensics.evidence import purposes, signatures
from ncclforensics.frames import Frames


def frames(entries, stacks=()):
    """Return three ranks that wait in call 7 of a group without a name, number 0.

    `entries` are (rank, pg_id, seq, columns).
    """
    made = [
        {
            "rank": rank,
            "pg_id": pg_id,
            "seq": seq,
            "record_id": number,
            "op": "all_reduce",
            "is_p2p": False,
            "state": "scheduled",
            "source": f"dump_{rank}",
            "line": number,
            **told,
        }
        for number, (rank, pg_id, seq, told) in enumerate(entries)
    ]
    ranks = sorted({rank for rank, *_ in entries})
    states = {name: [] for name in ("behind", "done", "absent", "unseen", "unstarted")}
    call = {"call": 0, "group": "||0", "seq": 7, "op": "all_reduce", "is_p2p": False}
    names = [
        {"rank": rank, "pg_id": pg_id, "group": f"||{pg_id}"}
        for rank in ranks
        for pg_id in ("0", "1")
    ]
    here = {**call, **states, "members": ranks, "waiting": ranks}
    return Frames(
        {
            "calls": tables.rows("calls", [here]),
            "collectives": tables.rows("collectives", made),
            "group_names": tables.rows("group_names", names),
            "stacks": tables.rows("stacks", stacks),
        }
    )


def sizes(many):
    return {"in_sizes": [[many]], "out_sizes": [[many]]}


def test_calls_of_two_groups_without_a_name_are_not_compared():
    both = [
        (rank, pg_id, 7, {"op": op, **sizes(8)})
        for rank in range(3)
        for pg_id, op in (("0", "all_reduce"), ("1", "barrier"))
    ]
    assert not list(signatures.splits(frames(both), "op"))
    differing = [*both[:-2], (2, "0", 7, {"op": "broadcast", **sizes(8)})]
    (found,) = signatures.splits(frames(differing), "op")
    assert found.odd == (2,)


def test_sizes_are_compared_where_dumps_hold_no_dtypes():
    made = [(rank, "0", 7, sizes(8 + (rank == 1))) for rank in range(3)]
    (found,) = signatures.splits(frames(made), "shape")
    assert found.odd == (1,)


@pytest.mark.parametrize(("unseen", "odd"), [(0, (0, 1)), (1, ()), (2, ())])
def test_a_side_that_the_unseen_may_make_as_large_is_not_the_smaller_one(unseen, odd):
    made = [(rank, "0", 7, sizes(8 + (rank < 2))) for rank in range(5)]
    told = frames(made)
    calls = told["calls"].with_columns(
        pl.lit([*range(5 + unseen)], pl.List(pl.Int64)).alias("members")
    )
    (found,) = signatures.splits(Frames({**told.tables, "calls": calls}), "shape")
    assert found.odd == odd


@pytest.mark.parametrize(
    ("function", "kind"), [("evaluate", "conditional"), ("step", None)]
)
def test_of_two_the_one_that_evaluates_alone_made_no_mistake(function, kind):
    file = {"file": "train.py", "depth": 0}
    stacks = [
        {"stack": 1, "function": "train", "file_line": 4, **file},
        {"stack": 2, "function": function, "file_line": 9, **file},
    ]
    made = [
        (0, "0", 6, {**sizes(8), "stack": 1, "state": "completed"}),
        (0, "0", 7, {**sizes(8), "stack": 1}),
        (1, "0", 6, {**sizes(8), "stack": 1, "state": "completed"}),
        (1, "0", 7, {**sizes(3), "stack": 2}),
    ]
    told = frames(made, stacks)
    strays = [split.strays for split in signatures.strays(told, "conditional")]
    assert strays == ([(1,)] if kind else [])
    assert bool(list(signatures.splits(told, "shape"))) == (kind is None)


@pytest.mark.parametrize(
    ("function", "kind"), [("evaluate", "conditional"), ("route", None)]
)
def test_names_compare_with_where_the_thread_of_a_backward_pass_was_not(function, kind):
    """The others are in their backward pass, which no frame of the loop leads to."""
    ways = [
        ["main", "train_one_epoch", "forward"],
        ["main", "train_one_epoch", function],
        ["backward"],
    ]
    stacks = [
        {"stack": stack, "function": name, "depth": -depth, "file_line": 7}
        | {"file": "layers.py" if name == "backward" else "train.py"}
        for stack, way in enumerate(ways)
        for depth, name in enumerate(way)
    ]
    made = []
    for rank in range(3):
        made.append((rank, "0", 5, {**sizes(8), "stack": 0, "state": "completed"}))
        made.append((rank, "0", 6, {**sizes(8), "stack": 2, "state": "completed"}))
        now = {"op": "broadcast", "stack": 1} if rank == 1 else {"stack": 2}
        made.append((rank, "0", 7, {**sizes(8), **now}))
    told = frames(made, stacks)
    found = [split.strays for split in signatures.strays(told, "conditional")]
    assert found == ([(1,)] if kind else [])
    assert not list(signatures.strays(told, "uneven"))
    assert bool(list(signatures.splits(told, "op"))) == (kind is None)


@pytest.mark.parametrize(("stack", "strays"), [(2, [(0,)]), (1, [])])
def test_a_side_is_astray_only_at_a_place_of_its_own(stack, strays):
    """Rank 0 came to this call from where it went to another group before."""
    usual = [(0, "0", 5, sizes(1)), (0, "1", 1, sizes(2)), (0, "0", 6, sizes(1))]
    others = [(rank, "0", 6, sizes(4)) for rank in (1, 2)]
    now = [(0, "0", 7, {**sizes(3), "stack": 1})]
    now += [(rank, "0", 7, {**sizes(8), "stack": stack}) for rank in (1, 2)]
    told = frames([*usual, *others, *now])
    found = [split.strays for split in signatures.strays(told, "conditional")]
    assert found == strays
    assert bool(list(signatures.splits(told, "shape"))) == (not strays)


def test_an_entry_without_an_operation_is_on_no_side():
    told = [
        (rank, "0", 7, {"op": op, **sizes(8)})
        for rank, op in enumerate(("all_reduce", "all_reduce", None))
    ]
    assert not list(signatures.splits(frames(told), "op"))


def test_a_dump_without_stacks_says_nothing_of_what_a_call_is_for():
    """The functions that both sides are in tell nothing either, at whatever line."""
    here, there = [("train_epoch", "t.py", 7)], [("train_epoch", "t.py", 9)]
    away = [("end_of_epoch", "t.py", 20)]
    assert purposes.by_name(away, []) is None
    assert purposes.by_name(here, there) is None
    assert purposes.by_name(away, there) == "uneven"


@pytest.mark.parametrize(
    ("functions", "purpose"),
    [
        (["main", "on_train_epoch_end", "barrier"], "uneven"),
        (["main", "onEpochEnd"], "uneven"),
        (["main", "train_one_epoch", "send_forward"], None),  # the loop itself
        (["main", "save_checkpoint", "barrier"], "conditional"),
    ],
)
def test_the_names_of_functions_tell_a_loop_from_its_end(functions, purpose):
    mine = [(name, "t.py", 1) for name in functions]
    assert purposes.by_name(mine, [("main", "t.py", 2)]) == purpose


def test_where_the_other_side_is_unknown_the_innermost_functions_tell():
    way = [(f"f{n}", "t.py", n) for n in range(4)]
    saves = ("save_checkpoint", "t.py", 1)
    assert purposes.by_name([*way, saves], []) == "conditional"
    assert purposes.by_name([saves, *way], []) is None
