"""On what the members of a call differ: its sides, fewest ranks first."""

import pytest
from standstills import STEP, all_but, case

HISTORY = STEP * 4
WAITS = f"{HISTORY}abcdp|W"
LAST = len(WAITS) - 2


def sides(programs, **more):
    """Return of the call of all what each side is and who takes it."""
    made = case(programs, **more)
    return [
        (side.aspect, side.ranks)
        for number, told in made.signatures.items()
        for side in told
        if made.calls[number]["pg_desc"] == "default_pg"
    ]


def test_members_that_agree_take_no_sides():
    assert sides([WAITS] * 4) == []


def test_an_operation_of_its_own_is_the_smaller_side():
    found = sides(all_but(f"{HISTORY}abcdp|Q", WAITS))
    assert found == [("op", (2,)), ("op", (0, 1, 3))]


def test_so_are_other_sizes_and_other_types_of_one_operation():
    assert sides([WAITS] * 4, sizes={(2, LAST): 9})[0] == ("shape", (2,))


def test_where_operations_differ_nobody_asks_for_sizes():
    found = sides(all_but(f"{HISTORY}abcdp|Q", WAITS), sizes={(0, LAST): 9})
    assert {aspect for aspect, _ in found} == {"op"}


def test_calls_of_two_groups_are_not_compared():
    """Both are their group's third: see the names of the groups."""
    assert sides([WAITS, WAITS, f"{HISTORY}abcd|p", f"{HISTORY}abcd|p"]) == []


def test_sizes_are_compared_where_dumps_hold_no_types():
    bare = {"in_dtypes": None, "out_dtypes": None}
    assert sides([WAITS] * 4, sizes={(2, LAST): 9}, **bare)[0] == ("shape", (2,))


def test_who_enqueued_the_call_behind_another_one_takes_a_side_as_well():
    programs = [WAITS, WAITS, f"{HISTORY}abcdp|Q", f"{HISTORY}abcd|pW"]
    assert ("op", (0, 1, 3)) in sides(programs)


@pytest.mark.parametrize("op", ["alltoall_base", "gather", "scatter", "all_to_all"])
def test_what_may_be_uneven_in_health_has_no_sides_by_size(op):
    assert sides([WAITS] * 4, sizes={(2, LAST): 9}, op=op) == []


def test_an_entry_without_an_operation_is_on_no_side():
    assert sides([WAITS] * 4, op=None) == []
