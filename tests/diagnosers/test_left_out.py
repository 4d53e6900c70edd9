"""Who left out a half of a message, and who all send before they receive."""

import pytest

from ncclforensics import tables
from ncclforensics.evidence import left_out
from ncclforensics.frames import Frames

PAIRS = {0: 2, 1: 3}  # two stages of two tensor ranks, each pair a pipeline


def frames(programs):
    """Make dumps of programs: S sends to the other stage, R receives, a is another."""
    rows, names = [], []
    for rank, program in programs.items():
        pg, place = str(rank % 2), rank // 2
        names.append({"rank": rank, "pg": pg, "pg_desc": "PP", "group": pg})
        for number, letter in enumerate(program):
            src = place if letter == "S" else 1 - place
            is_p2p = letter in "SR"
            rows.append(
                {
                    "rank": rank,
                    "record_id": number,
                    "line": number,
                    "source": str(rank),
                    "pg": pg,
                    "pg_desc": "PP",
                    "op": {"S": "send", "R": "recv"}.get(letter, "all_reduce"),
                    "is_p2p": is_p2p,
                    "src": src if is_p2p else None,
                    "dst": 1 - src if is_p2p else None,
                    "state": "scheduled",
                }
            )
    return Frames(
        {
            "collectives": tables.rows("collectives", rows),
            "group_names": tables.rows("group_names", names),
            "calls": tables.rows("calls", []),
        }
    )


def held(number, rank, op, absent):
    return {
        "call": number,
        "is_p2p": True,
        "op": op,
        "waiting": [rank],
        "absent": absent,
        "behind": [],
        "source": str(rank),
        "line": 0,
    }


def test_the_ranks_of_one_stage_owe_halves_in_groups_of_their_own():
    made = frames({0: "S", 1: "S", 2: "R", 3: "S"})
    calls = [held(rank, rank, "send", [peer]) for rank, peer in PAIRS.items()]
    assert left_out.is_one_stage(made, calls)
    assert not left_out.is_one_stage(made, [calls[0], held(3, 3, "send", [1])])


@pytest.mark.parametrize("stages", [(2, 3), (2, 1)])
def test_only_the_ranks_of_one_stage_are_named(stages, monkeypatch):
    monkeypatch.setattr(left_out.programs, "skipped", lambda _f, _c, r: r[0] in stages)
    monkeypatch.setattr(left_out.halves, "has_fewer_open", lambda *_: False)
    made = frames({0: "S", 1: "S", 2: "S", 3: "S"})
    calls = [
        *(held(rank, rank, "send", [peer]) for rank, peer in PAIRS.items()),
        *(held(peer, peer, "send", [rank]) for rank, peer in PAIRS.items()),
    ]
    found = left_out.left_out(made, calls, {0, 1, 2, 3})
    assert tuple(found) == (stages if stages == (2, 3) else ())


@pytest.mark.parametrize(
    ("program", "op", "all_send"),
    [("S", "send", True), ("Sa", "send", False), ("R", "recv", False)],
)
def test_all_send_first_where_nobody_has_gone_on(program, op, all_send):
    made = frames({0: "SR", 2: program})
    calls = [held(0, 0, "send", [2]), held(1, 2, op, [])]
    assert left_out.all_send(made, calls, {0, 2}) == all_send


def test_where_all_receives_are_posted_nobody_sends_too_early():
    made = frames({0: "SR", 2: "SR"})
    calls = [held(0, 0, "send", []), held(1, 2, "send", [])]
    assert not left_out.all_send(made, calls, {0, 2})
    beside = [{**held(0, 0, "send", [2]), "waiting": [0, 2]}]
    assert not left_out.all_send(made, beside, {0, 2})


@pytest.mark.parametrize(("earlier", "named"), [(0, {2}), (1, {2}), (3, {1})])
def test_who_receives_from_another_peer_than_ever_is_to_blame_alone(
    earlier, named, monkeypatch
):
    """Rank 1 is to receive from 0, as before, and asks 2, which waits elsewhere."""
    monkeypatch.setattr(left_out.programs, "skipped", lambda _f, _c, r: r[0] == 2)
    monkeypatch.setattr(left_out.halves, "has_fewer_open", lambda *_: False)
    about = {"pg": "0", "pg_desc": "DP", "is_p2p": True, "state": "scheduled"}
    sends = [{"rank": 0, "op": "send", "src": 0, "dst": 1}] * (earlier + 1)
    usual = [{"rank": 1, "op": "recv", "src": 0, "dst": 1}] * earlier
    made = [*sends, *usual, {"rank": 1, "op": "recv", "src": 2, "dst": 1}]
    rows = [
        {**about, **row, "source": str(row["rank"]), "line": n, "record_id": n}
        for n, row in enumerate(made)
    ]
    names = [
        {"rank": rank, "pg": "0", "pg_desc": "DP", "group": "g"} for rank in range(3)
    ]
    told = Frames(
        {
            "collectives": tables.rows("collectives", rows),
            "group_names": tables.rows("group_names", names),
            "calls": tables.rows("calls", []),
        }
    )
    waits = {**held(0, 0, "send", [1]), "line": earlier}
    asks = {**held(1, 1, "recv", [2]), "line": len(rows) - 1}
    found = left_out.left_out(told, [waits, asks], {0, 1, 2})
    assert set(found) == named
