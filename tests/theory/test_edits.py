"""What a rank did in place of what its program foresaw."""

import pytest
from standstills import STEP, all_but, frames

from ncclforensics.theory import edits, program

HISTORY = STEP * 16


def edit(odd, usual=f"{HISTORY}abcdp|W", before=HISTORY, elements=None):
    """Return the edit of rank 2; `elements` of its calls by their place in `odd`."""
    sizes = {(2, len(before) + at): many for at, many in (elements or {}).items()}
    made = frames(all_but(before + odd, usual), sizes=sizes)
    told = program.program(made, range(4))
    return edits.edit(told, told.deviations[2]), told


@pytest.mark.parametrize(
    ("odd", "kind"),
    [
        ("ab|dc", "swap"),
        ("abcd|Wp", "swap"),
        ("ab|d", "skip"),
        ("abcdpab|cd", "skip"),  # the call of all
        ("abX|cd", "extra"),
        ("|X", "extra"),
        ("abcdp|X", "other"),  # in the place of another call of its group
        ("X|", "extra"),  # Gloo counts what it gave up as over
        ("abcdpX|", "other"),
    ],
)
def test_the_edit_that_makes_it_the_usual_program(odd, kind):
    assert edit(odd)[0].kind == kind


LOOP = "pW" * 16


@pytest.mark.parametrize(
    ("odd", "usual", "kind"),
    [
        ("|Wp", "|pW", "swap"),
        ("|WpWp", "|pWpW", "swap"),
        ("|Wp", "|p", "skip"),  # a call of W more than the others
        ("|WpW", "|pW", "skip"),
    ],
)
def test_in_a_loop_who_swapped_two_calls_made_as_many_as_the_others(odd, usual, kind):
    assert edit(odd, LOOP + usual, LOOP)[0].kind == kind


def test_what_is_skipped_is_told_and_what_was_made_since():
    told, of = edit("ab|dpW")
    (row,) = told.skips
    letters = [chr(n) for n in of.calls["stack"].to_list()]
    assert letters[row] == "c"
    assert told.behind == 2


def test_a_call_from_behind_the_loop_means_that_it_was_left():
    """An epoch ends with F; this one is shorter than the last."""
    before = ("i" + STEP * 20 + "FG") * 2 + STEP * 12
    told, _ = edit("|F", f"{before}abcdp|W", before)
    assert told.kind == "left"


@pytest.mark.parametrize(("odd", "kind"), [("|Y", "left"), ("abc|Y", "skip")])
def test_who_goes_through_its_loop_once_less_has_left_it(odd, kind):
    """A whole round is left out before the call behind the loop, or a part of one."""
    loop = "abcd" * 7
    before = (loop + "Y") * 4 + "abcd" * 6
    told, _ = edit(odd, f"{before}abcd|Y", before)
    assert told.kind == kind


def test_who_makes_a_call_before_a_run_of_others_has_left_no_loop():
    """Gradients are reduced in two buckets `ww`, those of the experts as `F`."""
    step = "abcwwF"
    odd, _ = edit("abc|F", f"{step * 8}abcw|w", step * 8)
    assert odd.kind == "skip"


def test_who_left_out_what_all_others_made_skips_it():
    told, _ = edit("|abcd", f"{HISTORY}|X")
    assert told.kind == "skip"


ROUND = f"{STEP * 2}F"  # all ranks evaluate in every second step


def test_who_makes_a_call_that_its_peers_skip_makes_an_extra_one():
    before = ROUND * 10 + STEP * 2
    told, _ = edit("|F", f"{before}abcdp|W", before)
    assert told.kind == "extra"


@pytest.mark.parametrize(("rounds", "kind"), [(20, "due"), (12, "left")])
def test_a_call_after_as_many_rounds_as_before_was_left_out_by_others(rounds, kind):
    before = ("i" + STEP * 20 + "FG") * 3 + STEP * rounds
    told, _ = edit("|F", f"{before}abcdp|W", before)
    assert told.kind == kind


@pytest.mark.parametrize(("elements", "kind"), [(ord("W"), "moved"), (1, "extra")])
def test_the_same_call_at_another_line_has_moved_and_a_new_one_has_not(elements, kind):
    told, _ = edit("abcd|Vp", elements={4: elements})
    assert told.kind == kind


def test_who_goes_on_behind_a_call_at_another_line_skipped_what_is_before_it():
    found, told = edit("abcd|Vabcd", elements={4: ord("W")})
    assert (found.kind, len(found.skips)) == ("skip", 1)
    assert told.calls["stack"][found.skips[0]] == ord("p")


@pytest.mark.parametrize(("odd", "kind"), [("|VppW", "swap"), ("|VpW", "skip")])
def test_who_made_it_at_another_line_and_lacks_no_call_swapped_two(odd, kind):
    """As one that reduces the gradients of two networks in the other order."""
    told, _ = edit(odd, f"{LOOP}|pWpW", LOOP, elements={0: ord("W")})
    assert told.kind == kind


@pytest.mark.parametrize(("behind", "goes_on"), [("abcd", True), ("YZ", False)])
def test_who_makes_the_calls_of_its_program_behind_an_extra_one_goes_on(
    behind, goes_on
):
    found, _ = edit(f"|X{behind}")
    assert (found.kind, found.goes_on) == ("extra", goes_on)


@pytest.mark.parametrize(("elements", "kind"), [(ord("c"), "swap"), (1, "skip")])
def test_two_calls_changed_places_though_a_path_of_its_own_makes_one(elements, kind):
    """`e` is the call `c` at another line, or another call."""
    told, _ = edit("ab|dep", elements={3: elements})
    assert told.kind == kind
