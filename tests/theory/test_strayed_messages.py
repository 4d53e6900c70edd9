"""A message to or from somebody else than in all steps before, in a ring of ranks."""

import dataclasses
import datetime
from types import SimpleNamespace

from ncclforensics.correlate import correlate
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.theory import strayed_messages
from ncclforensics.theory.explanations import unmatched
from ncclforensics.theory.weigh import case_of, weighed

EPOCH = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
MANY = 4


def message(rank, place, op, peer, *, ended):
    src, dst = (rank, peer) if op == "send" else (peer, rank)
    return {
        "rank": rank,
        "record_id": place,
        "source": f"dump_{rank}",
        "line": place,
        "pg": "ring",
        "pg_desc": "ring",
        "seq": place + 1,
        "p2p_seq": place + 1,
        "op": op,
        "is_p2p": True,
        "src": src,
        "dst": dst,
        "in_sizes": [[8]],
        "out_sizes": [[8]],
        "in_dtypes": ["Float"],
        "out_dtypes": ["Float"],
        "backend": "nccl",
        "state": "completed" if ended else "scheduled",
        "retired": ended,
        "timeout_ms": 600_000,
        "stack": ord(op[0]),
        "t": EPOCH + datetime.timedelta(seconds=place),
    }


def ring(odd_peer):
    """Return frames in which rank 2 waits for a message from `odd_peer`.

    In all steps before, each rank sent to the next one and received from the last one.
    """
    made = []
    for rank, ended in enumerate((42, 41, 41, 42)):
        sides = [("send", (rank + 1) % MANY), ("recv", (rank - 1) % MANY)]
        sides = sides if rank % 2 == 0 else sides[::-1]
        calls = [sides[place % 2] for place in range(ended + 1)]
        if rank == 2:
            calls[-1] = ("recv", odd_peer)
        made += [
            message(rank, place, *call, ended=place < ended)
            for place, call in enumerate(calls)
        ]
    groups = [
        {"rank": r, "pg": "ring", "pg_desc": "ring", "members": list(range(MANY))}
        | {"source": f"dump_{r}"}
        for r in range(MANY)
    ]
    given = {
        "collectives": tables.rows("collectives", made),
        "groups": tables.rows("groups", groups),
        "exits": tables.rows("exits", [{"code": 1, "source": "agent.log", "line": 1}]),
    }
    return correlate(Frames(given))


def test_a_receive_from_somebody_else_is_the_story_and_says_from_whom():
    frames = ring(odd_peer=0)
    (told,) = weighed(frames).of("unmatched-p2p")
    assert told.story.ranks == (2,)
    story = dataclasses.replace(told.story, what="replaced")
    headline, why = strayed_messages.words(case_of(frames), story)
    assert "recv from group rank 0 in place of a recv from group rank 1" in headline
    assert "ring" in why


def test_the_usual_peer_is_no_stranger():
    told = weighed(ring(odd_peer=1)).ends
    assert told
    assert not [t for t in told if t.story.slug == "unmatched-p2p"]


def test_who_owes_no_half_has_skipped_none_where_another_of_its_side_does():
    owed = {"is_p2p": True, "absent": [3]}
    case = SimpleNamespace(calls={0: owed, 1: {"is_p2p": False, "absent": [1]}})
    end = SimpleNamespace(calls=(0, 1))
    sides = {ranks: SimpleNamespace(ranks=ranks) for ranks in [(3,), (1, 3), (1,)]}
    in_part = [r for r, s in sides.items() if unmatched._owes_in_part(case, end, s)]
    assert in_part == [(1, 3)]
