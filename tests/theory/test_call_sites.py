"""What the place of a call in the code tells of it: names, and the loop around."""

from types import SimpleNamespace

import pytest

from ncclforensics.analysis import analyze
from ncclforensics.model.frames import Frames
from ncclforensics.theory import call_sites, stack_ways

LOOP = [[("main", "t.py", 20), ("train", "t.py", line)] for line in (60, 65, 70)]


@pytest.mark.parametrize(
    ("way", "named"),
    [
        (["main", "on_train_epoch_end", "barrier"], "uneven"),
        (["main", "onEpochEnd"], "uneven"),
        (["main", "on_train_batch_end"], ""),
        (["main", "train_one_epoch", "send_forward"], ""),  # the loop itself
        (["main", "save_checkpoint", "barrier"], "conditional"),
        (["main", "evaluate"], "conditional"),
        (["main", "save_epoch"], ""),  # it may be either
        (["main", "step"], ""),
    ],
)
def test_the_names_of_functions_tell_a_loop_from_its_end(way, named):
    mine = [(name, "t.py", 1) for name in way]
    assert call_sites._named(mine, [[("main", "t.py", 2)]]) == named


LIGHTNING = "/opt/venv/lib/python3.11/site-packages/lightning/pytorch/loops/fit_loop.py"


@pytest.mark.parametrize(
    ("way", "named"),
    [
        ([("on_advance_end", LIGHTNING, 3), ("evaluate", "t.py", 9)], "conditional"),
        ([("end_of_epoch", "t.py", 3), ("evaluate", "t.py", 9)], "uneven"),
        ([("evaluate", "t.py", 3), ("end_of_epoch", "t.py", 9)], "conditional"),
        ([("on_advance_end", LIGHTNING, 3), ("step", "t.py", 9)], "uneven"),
    ],
)
def test_the_users_outermost_function_tells_more_than_a_hook_of_a_framework(way, named):
    assert call_sites._named(way, []) == named


def test_functions_that_all_are_in_tell_nothing():
    here = [("main", "t.py", 1), ("train_epoch_end", "t.py", 7)]
    there = [("main", "t.py", 1), ("train_epoch_end", "t.py", 9)]
    assert call_sites._named(here, [there]) == ""


@pytest.mark.parametrize(
    ("theirs", "named"),
    [("reduce_metrics", ""), ("on_epoch_end", "conditional"), ("step", "conditional")],
)
def test_a_name_tells_nothing_if_those_it_meets_have_such_a_one(theirs, named):
    here = [("main", "t.py", 1), ("evaluate", "t.py", 7), ("sync_metrics", "t.py", 9)]
    there = [("main", "t.py", 1), ("evaluate", "t.py", 7), (theirs, "t.py", 5)]
    assert call_sites._named_apart(here, [there], [there]) == named


def test_who_is_above_the_function_of_the_loop_has_left_it():
    above = [("main", "t.py", 26)]
    assert call_sites._is_outside(above, LOOP)
    assert not call_sites._is_inside(above, LOOP)


def test_who_is_in_it_before_its_last_line_has_not():
    inside = [("main", "t.py", 20), ("train", "t.py", 66), ("save", "s.py", 3)]
    assert not call_sites._is_outside(inside, LOOP)
    assert call_sites._is_inside(inside, LOOP)


def test_behind_its_last_line_nobody_knows():
    behind = [("main", "t.py", 20), ("train", "t.py", 90)]
    assert not call_sites._is_outside(behind, LOOP)
    assert not call_sites._is_inside(behind, LOOP)


@pytest.mark.parametrize(
    ("mine", "theirs", "same"), [(7, 7, True), (7, 8, False), (None, None, False)]
)
def test_who_differs_at_the_place_of_the_others_took_no_other_branch(
    mine, theirs, same
):
    odd = SimpleNamespace(ranks=frozenset({5}), stack=mine)
    rest = SimpleNamespace(ranks=frozenset({0, 1}), stack=theirs)
    case = SimpleNamespace(signatures={3: (odd, rest)}, frames=Frames({}))
    assert stack_ways.is_at_one_place(case, (5,), {"call": 3}) is same


PACKAGES = "/opt/venv/lib/python3.11/site-packages"
BARRIER = ("barrier", f"{PACKAGES}/torch/distributed/distributed_c10d.py", 4635)
BACKWARD = (
    ("closure", f"{PACKAGES}/lightning/pytorch/loops/automatic.py", 140),
    ("backward", f"{PACKAGES}/torch/_tensor.py", 648),
    ("_engine_run_backward", f"{PACKAGES}/torch/autograd/graph.py", 823),
)


def timed_out(rank, *frames):
    """Return what a rank prints whose call times out in Gloo, with all its frames."""
    way = (("<module>", "/job/fit.py", 28), ("advance", "/job/loop.py", 300), *frames)
    lines = [
        "Traceback (most recent call last):",
        *(f'  File "{file}", line {line}, in {name}' for name, file, line in way),
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] "
        "Timed out waiting 7000ms for recv operation to complete",
    ]
    return "".join(f"[rank{rank}]: {line}\n" for line in lines)


def verdict(tmp_path, *texts):
    (tmp_path / "job.log").write_text("".join(texts))
    ranked = analyze([str(tmp_path)]).ranked
    told = ranked.verdict
    return ranked.outcome, told and (told.slug, *told.ranks)


@pytest.mark.parametrize("name", ["on_batch", "report"])
@pytest.mark.parametrize("rank", [0, 1])
def test_of_two_ranks_the_one_that_reduces_gradients_is_in_its_program(
    tmp_path, name, rank
):
    apart = (name, "/job/hooks.py", 21)
    outcome, told = verdict(
        tmp_path, timed_out(rank, apart, BARRIER), timed_out(1 - rank, *BACKWARD)
    )
    assert (outcome, told[1:]) == ("failure", (rank,))
    # a barrier outside of a function with a name may stand behind the loop as well
    assert name == "on_batch" or told[0] == "rank-conditional-collective"


def test_of_two_calls_outside_of_that_neither_is_odd(tmp_path):
    places = [("on_batch", "/job/hooks.py", 21), ("check", "/job/hooks.py", 44)]
    logs = [timed_out(rank, at, BARRIER) for rank, at in enumerate(places)]
    outcome, told = verdict(tmp_path, *logs)
    assert outcome == "inconclusive"
    assert told is None or len(told) == 1
