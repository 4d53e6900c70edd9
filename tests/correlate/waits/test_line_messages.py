"""Messages that watchdogs gave up, which name no peer: whom their ranks wait for."""


def gave_up(rank, op, group, seat, seq):
    head = f"[rank{rank}]:[E1124 10:10:00.596967190 ProcessGroupNCCL.cpp:"
    return (
        f"{head}632] [Rank {seat}] Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=64, NumelOut=64, "
        "Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n"
        f"{head}2268] [PG ID 1 PG GUID {group} Rank {seat}] failure detected by "
        f"watchdog at work sequence id: {seq} PG status: last enqueued work: {seq}, "
        f"last completed work: {seq - 1}\n"
    )


def message(rank, op):
    """Of the pipelines 0-2-4-6 and 1-3-5-7."""
    return gave_up(rank, op, f"{5 + rank % 2}(PP)", rank // 2, 90 + rank)


def job(talks, reduces):
    """Return the log of ranks that wait in messages, and in a call of all ranks."""
    said = [message(rank, op) for rank, op in talks.items()]
    said += [gave_up(rank, "ALLREDUCE", "0(default_pg)", rank, 7) for rank in reduces]
    return {"job.log": "".join(said)}


# of the second pipeline, only rank 3 is in no message
FORWARD = {1: "RECV", 5: "RECV", 7: "RECV"}


def messages(analysis):
    calls = analysis.frames["calls"]
    found = calls.filter(calls["is_p2p"])
    lists = ("waiting", "absent", "unseen")
    return [tuple(row[c] for c in lists) for row in found.to_dicts()]


def test_the_only_member_in_no_message_is_the_one_that_they_wait_for(analyzed):
    analysis = analyzed(job(FORWARD, (0, 2, 3, 4, 6)))
    assert messages(analysis) == [([1, 5, 7], [3], [])]
    found = analysis.ranked.verdict
    assert (found.slug, found.ranks) == ("unmatched-p2p", (3,))


def test_a_member_that_nothing_was_heard_from_is_unseen(analyzed):
    analysis = analyzed(job(FORWARD, (6,)))
    assert messages(analysis) == [([1, 5, 7], [], [3])]


def test_of_several_that_may_be_waited_for_none_is_named(analyzed):
    talks = {1: "RECV", 7: "SEND"}
    analysis = analyzed(job(talks, (0, 2, 3, 4, 5, 6)))
    assert messages(analysis) == []
    assert analysis.ranked.outcome == "inconclusive"


def test_a_rank_in_a_message_of_unknown_members_is_not_known_to_wait_for_one(analyzed):
    analysis = analyzed(job({3: "RECV"}, (0, 1, 2, 4, 5, 6, 7)))
    assert messages(analysis) == []
    assert analysis.ranked.outcome == "inconclusive"


def test_ranks_that_all_wait_in_messages_blame_none(analyzed):
    talks = dict.fromkeys(range(8), "RECV")
    assert messages(analyzed(job(talks, ()))) == []


def test_a_call_to_which_all_came_waits_for_the_message_of_a_member(analyzed):
    files = job(FORWARD, (2, 3, 4, 6))
    for seat, rank in enumerate((0, 1)):
        files["job.log"] += gave_up(rank, "ALLREDUCE", "8(TP)", seat, 40)
    calls = analyzed(files).frames["calls"].to_dicts()
    assert [(c["waiting"], c["behind"]) for c in calls if c["pg_desc"] == "TP"] == [
        ([0], [1])
    ]
