"""A program that repeats itself shows which message was left out."""

import pytest

from ncclforensics import tables
from ncclforensics.diagnosers.clues import programs
from ncclforensics.tables import Frames

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
