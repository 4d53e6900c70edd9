"""Calls counted from COLL lines: what is proven, and what lost lines leave open."""

import pytest
from nccl_text import coll, init, pointer, rank_log, split

AR, BC, AG = ("AllReduce", 1024), ("Broadcast", 1024), ("AllGather", 64)


def job(analyzed, *calls, **options):
    """Analyze a job whose ranks made `calls` each, every rank in its own file."""
    size = len(calls)
    return analyzed(
        {
            f"rank_{rank}.log": rank_log(rank, made, size, **options)
            for rank, made in enumerate(calls)
        }
    )


def verdict(analysis):
    found = analysis.ranked.verdict
    named = found and analysis.ranked.outcome == "failure"
    return (found.slug, found.ranks, found.collective.seq) if named else None


def doubts(analysis):
    notes = analysis.frames["notes"]["text"]
    return [text for text in notes if "are not counted" in text]


@pytest.mark.parametrize("frozen", [False, True])
def test_equal_counts_are_a_healthy_job(analyzed, frozen):
    analysis = job(analyzed, *[[AR, BC, AR]] * 4, frozen=frozen)
    assert analysis.ranked.outcome == "no-failure"
    reached = analysis.frames["positions"]
    assert sorted(reached["rank"]) == [0, 1, 2, 3]
    assert set(reached["last_enqueued"]) == {3}


@pytest.mark.parametrize("frozen", [False, True])
def test_the_rank_that_made_fewer_calls_is_missing(analyzed, frozen):
    analysis = job(analyzed, [AR] * 6, [AR] * 6, [AR] * 4, [AR] * 6, frozen=frozen)
    assert verdict(analysis) == ("missing-rank", (2,), 5)


def test_the_number_of_a_call_is_its_place_and_not_its_op_count(analyzed):
    calls = [AR, BC, AR, AG]
    analysis = job(analyzed, calls, calls[:3], calls, calls, frozen=True)
    seqs = analysis.frames["collectives"].filter(rank=0)
    assert seqs.select("seq", "op").rows() == [(4, "AllGather")]


def test_another_operation_is_a_mismatch_of_its_minority(analyzed):
    analysis = job(analyzed, [AR, AR], [AR, AR], [AR, AR], [AR, BC])
    assert verdict(analysis) == ("collective-mismatch", (3,), 2)


def test_another_size_is_a_mismatch_of_shapes(analyzed):
    odd = ("AllReduce", 7)
    analysis = job(analyzed, [AR, AR, AR], [AR, odd, AR], [AR, AR, AR], [AR, AR, AR])
    assert verdict(analysis) == ("shape-mismatch", (1,), 2)


def test_calls_behind_the_first_difference_cannot_have_ended(analyzed):
    analysis = job(analyzed, [AR, AR, AG], [AR, BC, AG], [AR, AR, AG], [AR, AR, AG])
    assert set(analysis.frames["collectives"]["seq"]) == {2, 3}
    assert set(analysis.frames["collectives"]["state"]) == {"scheduled"}


def test_messages_between_two_ranks_are_not_counted(analyzed):
    send, recv = ("Send", 5), ("Recv", 5)
    analysis = job(analyzed, [AR, send, AR], [AR, recv, recv, AR])
    assert analysis.ranked.outcome == "no-failure"
    assert set(analysis.frames["positions"]["last_enqueued"]) == {2}


def test_a_log_that_ends_inside_a_line_accuses_nobody(analyzed):
    logs = {f"rank_{r}.log": rank_log(r, [AR] * 9) for r in range(4)}
    logs["rank_2.log"] = logs["rank_2.log"][:-120]
    analysis = analyzed(logs)
    assert verdict(analysis) is None
    (why,) = doubts(analysis)
    assert "rank 2 ends inside a line" in why


def test_of_a_log_that_is_cut_the_rest_still_shows_a_mismatch(analyzed):
    calls = [AR, AR, AR, AR]
    logs = {f"rank_{r}.log": rank_log(r, calls) for r in range(4)}
    logs["rank_2.log"] = rank_log(2, [AR, BC, AR, AR])[:-60]
    assert verdict(analyzed(logs)) == ("collective-mismatch", (2,), 2)


def test_of_a_cut_stream_who_never_came_to_the_difference_is_no_absent_one(analyzed):
    odd = ("AllReduce", 7)
    made = ([AR, AR], [AR, AR], [AR, odd], [AR, AR])
    stream = "".join(rank_log(r, calls, 4) for r, calls in enumerate(made))
    last = stream.rstrip("\n").rindex("\n")
    for end in (last + 1, last + 60):
        found = analyzed({"job.log": stream[:end]}).ranked.verdict
        sure = found is not None and found.confidence != "possible"
        assert not sure or (found.slug, found.ranks) == ("shape-mismatch", (2,))


def test_a_leap_of_op_count_is_a_lost_line(analyzed):
    logs = {f"rank_{r}.log": rank_log(r, [AR] * 9) for r in range(4)}
    lines = logs["rank_1.log"].splitlines(keepends=True)
    logs["rank_1.log"] = "".join(lines[:5] + lines[6:])
    analysis = analyzed(logs)
    assert verdict(analysis) is None
    assert "opCount jumps" in doubts(analysis)[0]


def test_where_op_count_stands_still_a_lost_line_is_no_mismatch(analyzed):
    calls = [AR, BC, AG, AR, BC, AG, AR, BC]
    lost = [*calls[:2], *calls[3:]]
    analysis = job(analyzed, calls, calls, lost, calls, frozen=True)
    assert verdict(analysis) is None
    assert "agree again" in doubts(analysis)[0]


def test_a_rank_without_its_init_lines_makes_counts_doubtful(analyzed):
    logs = {f"rank_{r}.log": rank_log(r, [AR] * 4) for r in range(4)}
    start, rest = rank_log(1, [AR] * 3).split("\n", 1)
    assert start.endswith("START")
    logs["rank_1.log"] = rest
    analysis = analyzed(logs)
    assert verdict(analysis) is None
    assert "lines of the log are missing" in doubts(analysis)[0]


def test_an_excerpt_of_one_stream_may_have_been_taken_while_the_job_ran(analyzed):
    ranks = [rank_log(r, [AR] * (4 if r else 3)) for r in range(4)]
    assert verdict(analyzed({"job.log": "".join(ranks)})) is None
    ended = "[rank1]: Traceback (most recent call last):\n[rank1]: ValueError: x\n"
    told = analyzed({"job.log": "".join(ranks) + ended}).frames["calls"]
    assert told["absent"].to_list() == [[0]]


def test_of_two_ranks_one_may_only_be_a_little_ahead_of_the_other(analyzed):
    analysis = job(analyzed, [AR] * 5, [AR] * 4)
    assert verdict(analysis) is None
    assert "no two ranks are ahead" in doubts(analysis)[0]


def test_of_two_ranks_of_a_failed_job_the_one_behind_is_missing(analyzed):
    killed = (
        "slurmstepd: error: *** STEP 77.0 ON gpu0001 CANCELLED AT "
        "2026-11-20T10:00:00 DUE TO TIME LIMIT ***"
    )
    logs = {f"rank_{r}.log": rank_log(r, [AR] * (5 - r), 2) for r in range(2)}
    told = analyzed({**logs, "slurm.err": f"{killed}\n"})
    assert told.frames["calls"]["absent"].to_list() == [[1]]


def test_a_communicator_that_was_closed_in_order_hides_no_absence(analyzed):
    def closed(rank):
        return (
            f"gpu000{1 + rank // 2}:{4000 + rank}:{4000 + rank} [0] NCCL INFO comm "
            f"{pointer(4000 + rank)} rank {rank} nranks 4 cudaDev 0 busId 7000 - "
            "Destroy COMPLETE"
        )

    logs = {
        f"rank_{r}.log": rank_log(r, [AR] * (4 if r else 3), more=[closed(r)])
        for r in range(4)
    }
    assert verdict(analyzed(logs)) is None


def test_lines_that_two_files_hold_are_one_call_each(analyzed):
    logs = {f"rank_{r}.log": rank_log(r, [AR] * 3) for r in range(4)}
    logs["all.out"] = "".join(logs.values())
    analysis = analyzed(logs)
    assert analysis.ranked.outcome == "no-failure"
    assert set(analysis.frames["positions"]["last_enqueued"]) == {3}


def test_a_pointer_that_is_used_again_is_another_communicator(analyzed):
    def log(rank, later):
        host, pid = "gpu0001", 4000 + rank
        again = [
            init(host, pid, rank, 3, phase, "0xbeef") for phase in ("START", "COMPLETE")
        ]
        calls = [
            coll(host, pid, "AllGather", 8, size=3, number=i) for i in range(later)
        ]
        return rank_log(rank, [AR] * 3, 3, more=[*again, *calls], host=host)

    analysis = analyzed({f"rank_{r}.log": log(r, 1 if r == 2 else 2) for r in range(3)})
    found = analysis.ranked.verdict
    assert (found.slug, found.ranks) == ("missing-rank", (2,))
    assert (found.collective.process_group, found.collective.seq) == ("0xbeef", 2)


@pytest.mark.parametrize("number", ["", " splitCount 1", " childCount 1"])
def test_a_split_without_an_id_is_told_by_its_parent_and_color(analyzed, number):
    """Ranks 2 and 3 are one group, ranks 0 and 1 another: only rank 3 is late."""

    def log(rank, calls):
        host, pid = f"gpu000{1 + rank // 2}", 4000 + rank
        color = rank // 2
        comm, parent = pointer(pid, 1), pointer(pid)
        made = [
            split(host, pid, rank % 2, 2, phase, comm, parent, number, color)
            for phase in ("START", "COMPLETE")
        ]
        own = [coll(host, pid, "AllGather", 8, comm, 2, i) for i in range(calls)]
        failed = "[rank0]: Traceback (most recent call last):\n[rank0]: ValueError: x"
        return rank_log(rank, [AR], more=[*made, *own, failed if rank == 0 else ""])

    analysis = analyzed({f"rank_{r}.log": log(r, 2 if r == 3 else 3) for r in range(4)})
    (call,) = analysis.frames["calls"].to_dicts()
    assert (call["waiting"], call["absent"], call["seq"]) == ([2], [3], 3)


def test_a_rank_that_waits_in_another_communicator_is_no_culprit(analyzed):
    """Rank 1 misses the call of all since rank 0 misses the call of these two."""

    def log(rank, small, large):
        host, pid = "gpu0001", 4000 + rank
        lines = [init(host, pid, rank, 4, phase) for phase in ("START", "COMPLETE")]
        pair = f"0xabc{rank // 2}"
        comm = pointer(pid, 1)
        lines += [
            init(host, pid, rank % 2, 2, phase, pair, comm)
            for phase in ("START", "COMPLETE")
        ]
        lines += [coll(host, pid, *AR, number=i) for i in range(large)]
        lines += [coll(host, pid, *AG, comm, 2, i) for i in range(small)]
        more = [coll(host, pid, *AR, number=large)] if small > 1 and rank > 1 else []
        return "\n".join([*lines, *more]) + "\n"

    logs = {
        "rank_0.log": log(0, 1, 1),
        "rank_1.log": log(1, 2, 1),
        "rank_2.log": log(2, 2, 1),
        "rank_3.log": log(3, 2, 1),
        "slurm.err": "Fatal Python error: Aborted\n",
    }
    roots = analyzed(logs).frames["roots"]
    assert roots["rank"].to_list() == [0]


def test_without_a_dump_only_calls_that_cannot_end_are_kept(analyzed):
    analysis = job(analyzed, *[[AR] * 30] * 3, [AR] * 29)
    assert analysis.frames["collectives"].height == 3


def test_a_tie_names_both_sides_only_if_all_members_are_seen(analyzed):
    logs = {f"rank_{r}.log": rank_log(r, [AR, BC if r < 2 else AG]) for r in range(4)}
    assert verdict(analyzed(logs)) == ("collective-mismatch", (0, 1, 2, 3), 2)


def test_a_tie_of_some_members_names_nobody(analyzed):
    logs = {f"rank_{r}.log": rank_log(r, [AR, (BC, AG)[r]]) for r in range(2)}
    analysis = analyzed(logs)
    assert verdict(analysis) is None
    assert "not in the evidence" in doubts(analysis)[0]


def test_where_op_count_stands_still_long_differences_are_lost_lines(analyzed):
    calls = [AR, BC, AG] * 30
    lost = [call for place, call in enumerate(calls) if place % 5]
    analysis = job(analyzed, calls, calls, lost, calls, frozen=True)
    assert verdict(analysis) is None
    assert "go on long after" in doubts(analysis)[0]
