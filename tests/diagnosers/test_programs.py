"""A program that repeats itself shows which message was left out."""

import pytest

from ncclforensics import tables
from ncclforensics.evidence import programs
from ncclforensics.frames import Frames

# rank 1 waits in its first entry for what rank 0 sends
PEER = {"op": "recv", "pg": "7", "pg_desc": "PP", "source": "1", "line": 0}


def entries(rank, program):
    """Rank 0 has stage 0: S sends to stage 1, R receives; letters are collectives."""
    ops = {"S": ("send", 0, 1), "R": ("recv", 1, 0)}
    made = []
    for number, letter in enumerate(program):
        op, src, dst = ops.get(letter, (letter, None, None))
        made.append(
            {
                "rank": rank,
                "record_id": number,
                "line": number,
                "source": str(rank),
                "op": op,
                "is_p2p": letter in ops,
                "src": src,
                "dst": dst,
                "pg": "7",
                "pg_desc": "PP",
                "seq": number if letter not in ops else 0,
                "state": "completed",
            }
        )
    return made


def skipped(program):
    """Whether rank 0 left out a send that rank 1 waits for in its first entry."""
    waits = [{**entries(1, "R")[0], "src": 0, "dst": 1}]
    frames = Frames(
        {"collectives": tables.rows("collectives", [*entries(0, program), *waits])}
    )
    return programs.skipped(frames, {**PEER, "waiting": [1]}, (0,))


@pytest.mark.parametrize("at", [0, 1])
def test_a_send_that_was_left_out_shows_though_layers_repeat(at):
    step = "aaSaaSRaaRaaz"
    places = [i for i, letter in enumerate(step) if letter == "S"]
    short = step[: places[at]] + step[places[at] + 1 :]
    assert skipped(step * 3 + short[: short.index("R") + 1])


def test_a_rank_that_is_only_on_its_way_to_it_left_nothing_out():
    step = "aaSaaSRaaRaaz"
    for made in range(len(step)):
        assert not skipped(step * 3 + step[:made])


def test_an_extra_call_is_not_one_left_out():
    step = "aaSaaSRaaRaaz"
    assert not skipped(step * 3 + "aax")


def test_less_than_a_step_of_history_tells_nothing():
    assert not skipped("aaSaaR")


def left_loop(program, dtype=None):
    """Whether rank 0 left its loop with its last call, told by its own way there.

    `dtype` is that of the last call alone.
    """
    made = entries(0, program)
    made[-1]["in_dtypes"] = [dtype] if dtype else made[0].get("in_dtypes")
    names = {"rank": 0, "pg": "7", "pg_desc": "PP", "pg_id": None, "group": "7|PP"}
    frames = Frames(
        {
            "collectives": tables.rows("collectives", made),
            "group_names": tables.rows("group_names", [names]),
        }
    )
    call = {"group": "7|PP", "seq": len(program) - 1}
    return programs.left_loop(frames, call, 0)


def test_a_rank_that_leaves_its_loop_earlier_than_last_time():
    assert left_loop("i" + "abc" * 5 + "vs" + "abc" * 3 + "v")


def test_a_call_of_other_types_is_not_the_one_behind_the_loop():
    assert not left_loop("i" + "abc" * 5 + "vs" + "abc" * 3 + "v", dtype="Double")


def test_a_rank_that_leaves_its_loop_by_another_way_than_last_time():
    assert left_loop("i" + "abc" * 5 + "vs" + "abc" * 3 + "s")


def test_a_ring_that_begins_in_the_epoch_before_shows_it_as_well():
    assert left_loop("bcabc" + "vs" + "abc" * 2 + "v")


def test_a_call_that_was_never_made_before_does_not_hide_the_way():
    assert left_loop("i" + "abc" * 5 + "v" + "abc" * 3 + "xv")
    assert not left_loop("i" + "abc" * 5 + "v" + "abc" * 3 + "xa")


@pytest.mark.parametrize(
    "program",
    [
        "i" + "abc" * 5 + "vs" + "abc" * 3 + "a",  # goes round
        "i" + "abc" * 5 + "vs" + "abc" * 5 + "v",  # an epoch as long as the last
        "i" + "aaab" * 5 + "vs" + "aaab" * 2 + "aaab",  # a loop in the loop
        "i" + "abc" * 5 + "x",  # a call of which nobody knows
        "i" + "abc" * 5 + "ac",  # a call of every step, too early
        "iab" + "abc" * 5 + "i",  # one from before the loop
        "v",
    ],
)
def test_a_rank_that_did_as_always_or_never_left_no_loop(program):
    assert not left_loop(program)


@pytest.mark.parametrize(("numel", "apart"), [(8, False), (2, True)])
def test_without_a_stack_an_entry_takes_a_side_if_it_is_another_call(numel, apart):
    made = [
        {**entry, "in_sizes": [[size]], "stack": stack}
        for rank, (size, stack) in enumerate([(8, 1), (numel, None)])
        for entry in entries(rank, "a")
    ]
    frames = Frames({"collectives": tables.rows("collectives", made)})
    here = frames["collectives"].with_columns(programs.what(frames))
    assert (programs.comparable(frames, here).height == 2) == apart
