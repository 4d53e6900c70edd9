"""What two sides have open of their messages tells which one left out a half."""

import pytest

from ncclforensics import tables
from ncclforensics.evidence import halves
from ncclforensics.frames import Frames

HALVES = {"S": ("send", 0), "R": ("recv", 1)}


def entries(rank, program, over):
    """S sends to the other stage, R receives from it; letters are collectives."""
    made = []
    for number, letter in enumerate(program):
        op, away = HALVES.get(letter, (letter, None))
        ends = {} if away is None else {"src": rank ^ away, "dst": rank ^ away ^ 1}
        made.append(
            {
                "rank": rank,
                "record_id": number,
                "line": number,
                "source": str(rank),
                "op": op,
                "is_p2p": letter in HALVES,
                **ends,
                "p2p_seq": number if letter in HALVES else None,
                "pg": "7",
                "pg_desc": "PP",
                "seq": 0 if letter in HALVES else 40 + "abc".index(letter),
                "state": "completed" if number < over else "scheduled",
            }
        )
    return made


def left_out(program, waits, *, over=0, completed=39):
    """Whether rank 0 left out its half of what holds rank 1, its first open entry."""
    theirs = entries(1, waits, 0)
    name = {"pg": "7", "pg_desc": "PP", "pg_id": None, "group": "7|PP"}
    frames = Frames(
        {
            "collectives": tables.rows(
                "collectives", [*entries(0, program, over), *theirs]
            ),
            "group_names": tables.rows(
                "group_names", [{"rank": rank, **name} for rank in (0, 1)]
            ),
            "standings": tables.rows(
                "standings",
                [{"rank": 0, "group": "7|PP", "completed": completed, "enqueued": 41}],
            ),
        }
    )
    return halves.has_fewer_open(frames, {"source": "1", "line": 0, "waiting": [1]}, 0)


@pytest.mark.parametrize(
    ("program", "waits"), [("a", "Ra"), ("Sa", "RRa"), ("Ra", "RSa"), ("RSab", "RSRab")]
)
def test_who_went_on_with_a_half_less_left_it_out(program, waits):
    assert left_out(program, waits)


@pytest.mark.parametrize(
    ("program", "waits"),
    [
        ("R", "R"),  # it has not gone on: its half may be to come
        ("SRa", "RSa"),  # it posted all
        ("a", "RSa"),  # both ways: the other side's GPU stands still
        ("a", "RRRa"),
    ],
)
def test_who_has_as_many_or_stands_before_them_left_out_nothing(program, waits):
    assert not left_out(program, waits)


def test_a_half_that_is_over_on_this_side_is_open_where_the_gpu_stands_still():
    assert left_out("ab", "Rab")
    assert not left_out("ab", "Rab", completed=40)


@pytest.mark.parametrize(("state", "left"), [("started", ["S"]), ("scheduled", [])])
def test_a_message_that_a_gpu_has_begun_is_open_whatever_has_passed_it(state, left):
    made = entries(0, "Sab", 0)
    made[0]["state"], made[1]["state"] = state, "completed"
    open_ = halves._open(tables.rows("collectives", made), until=1)
    assert open_["op"].to_list() == [HALVES[letter][0] for letter in left]
