"""Makes small standstills from programs that are written as letters.

A program is "what is over|what is open": `abcW|Wab` made four calls that ended and
waits in the fifth. Capitals are calls of all ranks, `Y` in a second group of them, `p` to `z` those of pairs (0 and 1,
2 and 3, …), other small letters need nobody else; `>` sends to the other rank of the
pair, `<` receives from it. Equal letters are equal calls: the same operation, sizes and
place in the code.
"""

import datetime

from ncclforensics.correlate import correlate
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.theory.case import Case
from ncclforensics.theory.weigh import weighed

EPOCH = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
WORLD, ALONE, PAIRS, PIPES = "default_pg", "ALONE", "PAIR", "PIPE"
SECOND = "META"
OPS = {"B": "barrier", "Q": "broadcast", "Z": "reduce"}
STEP = "abcdpW"


def frames(
    programs,
    *,
    unseen=(),
    stands=True,
    code=1,
    local_rank=None,
    hosts=None,
    sizes=None,
    stacks=True,
    states=None,
    kept=None,
    late=None,
    fresh=(),
    timed=False,
    **more,
):
    """Return correlated frames of ranks 0, 1, … with these programs.

    Of `unseen` ranks there is nothing; `stands` adds an exit of a rank that is not told, with
    `code` and `local_rank`, which proves that the job had failed; `hosts` are names by rank; `sizes` maps (rank, place) to elements;
    `states` gives the state of what a rank has open, `kept` how many calls its ring
    holds, `late` how many seconds later the last one was made; of `fresh` ranks the last
    call that ended is not retired yet; of those that ended, a `timed` dump tells when
    they began; `more` are further columns.
    """
    told = dict(enumerate(programs)) if isinstance(programs, list) else programs
    world = sorted({*told, *unseen})
    made, groups, who = [], [], []
    for rank, program in told.items():
        if rank in unseen:
            continue
        state = (states or {}).get(rank, "scheduled")
        told_of = calls(rank, program, sizes or {}, stacks, state, more)
        if late and rank in late:
            told_of[-1]["t"] += datetime.timedelta(seconds=late[rank])
        if rank in fresh:
            [c for c in told_of if c["state"] == "completed"][-1]["retired"] = False
        for call in told_of if timed else ():
            if call["state"] == "completed":
                call["t_started"] = call["t"]
        made += told_of[-(kept or {}).get(rank, len(told_of)) :]
        pair = [rank & ~1, rank | 1]
        members = {WORLD: world, ALONE: [rank], PAIRS: pair, PIPES: pair}
        members[SECOND] = world
        groups += [
            {"rank": rank, "pg": group(desc, rank), "pg_desc": desc, "members": ranks}
            | {"source": f"dump_{rank}"}
            for desc, ranks in members.items()
        ]
    for rank in world:
        host = None if hosts is None else hosts[rank]
        who.append({"rank": rank, "host": host, "source": "who", "line": rank})
    given = {
        "collectives": tables.rows("collectives", made),
        "groups": tables.rows("groups", groups),
        "ranks": tables.rows("ranks", who),
        "sources": tables.rows(
            "sources",
            [
                {"kind": "flight_recorder_pickle", "source": f"dump_{r}", "rank": r}
                | {"cut": False}
                for r in told
                if r not in unseen
            ],
        ),
    }
    if stands:
        exits = [
            {"code": code, "local_rank": local_rank, "source": "agent.log", "line": 1}
        ]
        given["exits"] = tables.rows("exits", exits)
    return correlate(Frames(given))


def kind(letter):
    """Return for what the group of a letter's call is."""
    if letter in "<>":
        return PIPES
    if letter.isupper():
        return SECOND if letter == "Y" else WORLD
    return PAIRS if letter >= "p" else ALONE


def group(desc, rank):
    """Return the name of a rank's group of a kind."""
    number = {WORLD: "", SECOND: "", ALONE: rank}.get(desc, rank // 2)
    return f"{desc}{number}"


def calls(rank, program, sizes, stacks, state, more):
    """Return the calls of a program as rows of `collectives`."""
    over, _, ahead = program.partition("|")
    count, rows = {}, []
    for place, letter in enumerate(over + ahead):
        p2p, desc = letter in "<>", kind(letter)
        pg = group(desc, rank)
        count[pg] = count.get(pg, 0) + 1
        me, other = rank % 2, 1 - rank % 2
        src, dst = (me, other) if letter == ">" else (other, me)
        ended = place < len(over)
        elements = sizes.get((rank, place), ord(letter))
        rows.append(
            {
                "rank": rank,
                "record_id": place,
                "source": f"dump_{rank}",
                "line": place,
                "pg": pg,
                "pg_desc": desc,
                "seq": count[pg],
                "p2p_seq": count[pg] if p2p else None,
                "op": {">": "send", "<": "recv"}.get(letter, OPS.get(letter))
                or "all_reduce",
                "is_p2p": p2p,
                "src": src if p2p else None,
                "dst": dst if p2p else None,
                "in_sizes": [[elements]],
                "out_sizes": [[elements]],
                "in_dtypes": ["Float"],
                "out_dtypes": ["Float"],
                "backend": "nccl",
                "state": "completed" if ended else state,
                "retired": ended,
                "timeout_ms": 600_000,
                "stack": ord(letter) if stacks else None,
                "t": EPOCH + datetime.timedelta(seconds=place),
                **more,
            }
        )
    return rows


def case(programs, **more):
    """Return the case of some programs."""
    return Case(frames(programs, **more))


def all_but(odd, usual, others=4, rank=2):
    """Return programs of which that of one rank is the odd one."""
    return [odd if r == rank else usual for r in range(others)]


def told(programs, **more):
    """Return of each end (class, ranks, confidence); nothing where no class is told."""
    return [
        (end.story.slug, end.story.ranks, end.confidence)
        for end in weighed(frames(programs, **more)).ends
    ]


def named(programs, **more):
    """Return of each end that is told its class and ranks."""
    return [(slug, ranks) for slug, ranks, sure in told(programs, **more) if sure]
