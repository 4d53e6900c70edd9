"""Calls that a long log has are counted, and what they prove is what reading proves."""

import random

import pytest
from nccl_text import coll, init, pointer, rank_log

from ncclforensics.parsers.logs import scan, search_terms

AR, BC, AG, SEND = (
    ("AllReduce", 1024),
    ("Broadcast", 1024),
    ("AllGather", 64),
    ("Send", 8),
)
HISTORY = [AR, BC, SEND, AG, AR] * 100
CALLS = 400  # of HISTORY that have a number


@pytest.fixture(autouse=True)
def few_are_read(monkeypatch):
    monkeypatch.setattr(search_terms, "FIRST_CALLS", 5)
    monkeypatch.setattr(search_terms, "LAST_CALLS", 40)


def told(analysis):
    found = analysis.ranked.verdict
    named = found and analysis.ranked.outcome == "failure"
    doubts = [t for t in analysis.frames["notes"]["text"] if "are not counted" in t]
    reached = analysis.frames["positions"].select("rank", "last_enqueued").sort("rank")
    verdict = (found.slug, found.ranks, found.collective.seq) if named else None
    return verdict, doubts, reached.rows()


def job(analyzed, *calls, **options):
    logs = [rank_log(rank, made, 4, **options) for rank, made in enumerate(calls)]
    return analyzed({f"rank_{rank}.log": log for rank, log in enumerate(logs)})


ENDS = {
    "healthy": ([[AR]] * 4, None),
    "missing": ([[AR, AR], [AR, AR], [AR], [AR, AR]], ("missing-rank", (2,))),
    "other": ([[AR, AR]] * 3 + [[AR, BC]], ("collective-mismatch", (3,))),
}


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("end", ENDS)
def test_a_long_history_is_numbered_as_if_it_were_read(analyzed, end, frozen):
    ends, named = ENDS[end]
    analysis = job(analyzed, *([*HISTORY, *own] for own in ends), frozen=frozen)
    verdict, doubts, reached = told(analysis)
    assert verdict == (named and (*named, CALLS + 2))
    assert not doubts
    assert reached == [(rank, CALLS + len(own)) for rank, own in enumerate(ends)]
    assert analysis.frames.message("nccl.coll").height == 4 * (5 + 40)
    counts = analysis.frames["unread_calls"]
    assert counts["calls"].to_list() == [500 + len(own) - 45 for own in ends]


def test_ranks_of_one_stream_are_counted_apart_in_blocks_and_spans(
    analyzed, monkeypatch
):
    logs = [rank_log(rank, [*HISTORY, AR], 4).splitlines() for rank in range(4)]
    chance = random.Random(3)
    order = [rank for rank in range(4) for _ in logs[0]]
    chance.shuffle(order)
    lines = "".join(f"{logs[rank].pop(0)}\n" for rank in order)
    whole = told(analyzed({"job.log": lines}))
    monkeypatch.setattr(scan, "SPAN_BYTES", 100_000)
    assert told(analyzed({"job.log": lines})) == whole
    assert whole == (None, [], [(rank, CALLS + 1) for rank in range(4)])


def test_a_line_lost_among_those_that_are_counted_makes_counts_doubtful(analyzed):
    logs = [rank_log(rank, [*HISTORY, AR], 4).splitlines() for rank in range(4)]
    del logs[2][200]
    analysis = analyzed({f"{i}.log": "\n".join(log) for i, log in enumerate(logs)})
    verdict, doubts, _ = told(analysis)
    assert verdict is None
    assert doubts
    assert all("opCount jumps" in doubt for doubt in doubts)


def test_a_pointer_given_away_among_those_that_are_counted_makes_them_doubtful(
    analyzed,
):
    def log(rank):
        host, pid = f"gpu{rank}", 4000 + rank
        again = [
            init(host, pid, rank, 4, phase, comm_id="0x2", comm=pointer(pid))
            for phase in ("START", "COMPLETE")
        ]
        more = [coll(host, pid, "AllReduce", 8, number=0) for _ in range(200)]
        return rank_log(rank, HISTORY, 4, host=host, more=[*again, *more], frozen=True)

    verdict, doubts, _ = told(analyzed({f"{rank}.log": log(rank) for rank in range(4)}))
    assert verdict is None
    assert any("used again" in doubt for doubt in doubts)
