"""collective-mismatch from text alone: DETAIL's fingerprints and watchdogs' OpTypes."""

import pytest

from log_lines import init

FINGERPRINT = (
    "CollectiveFingerPrint(OpType={op}, TensorShape=[20, 10], TensorDtypes=Float,\n"
    "TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu,\n"
    "layout=Strided (default), requires_grad=false (default), pinned_memory=false "
    "(default), memory_format=(nullopt)))"
)


def verdict(analysis):
    found = analysis.ranked.verdict
    return (analysis.ranked.outcome, found.slug, found.ranks)


def timeout(rank, op, numel):
    head = f"[rank{rank}]:[E816 01:45:40.183009389 ProcessGroupNCCL.cpp:607] "
    work = f"WorkNCCL(SeqNum=78, OpType={op}, NumelIn={numel}, NumelOut={numel}, "
    return (
        f"{head}[Rank {rank}] Watchdog caught collective operation timeout: {work}"
        "Timeout(ms)=600000) ran for 600026 milliseconds before timing out.\n"
        f"{head}[PG 0 (default_pg) Rank {rank}] Exception (either an error or timeout) "
        "detected by watchdog at work: 78, last enqueued NCCL work: 78, last completed "
        "NCCL work: 77.\n"
    )


def test_watchdogs_that_name_different_operations_at_one_seqnum(analyzed):
    log = (
        timeout(3, "ALLREDUCE", 8)
        + timeout(7, "BROADCAST", 5)
        + timeout(9, "ALLREDUCE", 8)
    )
    found = analyzed({"job.log": log})
    assert verdict(found) == ("failure", "collective-mismatch", (7,))
    assert found.ranked.verdict.collective.seq == 78


def test_watchdogs_that_agree_accuse_nobody(analyzed):
    log = timeout(3, "ALLREDUCE", 8) + timeout(7, "ALLREDUCE", 8)
    found = analyzed({"job.log": log}).ranked
    assert found.outcome == "inconclusive"
    assert found.verdict.ranks == ()


def test_a_fingerprint_wrapped_over_lines_and_without_a_number(analyzed):
    text = (
        "Detected mismatch between collectives on ranks. Rank 0 is running collective:\n"
        f"{FINGERPRINT.format(op='ALLREDUCE')},\n\nbut Rank 1 is running collective:\n"
        f"{FINGERPRINT.format(op='REDUCE')}.\n"
    )
    found = verdict(analyzed({"job.log": text}))
    # who is odd of a rank and its first unlike peer one line does not tell
    assert found == ("failure", "collective-mismatch", ())


def differs(rank, op, peer, other):
    """Return what DETAIL prints on a rank: its call, and the first one that differs."""
    call = "CollectiveFingerPrint(SequenceNumber=7, OpType={}, TensorShape=[4])"
    return (
        "RuntimeError: Detected mismatch between collectives on ranks. Rank "
        f"{rank} is running collective: {call.format(op)}, but Rank {peer} is running "
        f"collective: {call.format(other)}.Collectives differ in the following aspects: "
        f"\t Op type: {op}vs {other}\n"
    )


def test_whoever_comes_before_the_first_that_differs_made_the_same_call(analyzed):
    """Torch compares with rank 0, 1, 2, ... and stops; two of eight ranks printed."""
    log = differs(0, "ALLREDUCE", 6, "ALLGATHER") + differs(
        6, "ALLGATHER", 0, "ALLREDUCE"
    )
    assert verdict(analyzed({"job.log": log})) == (
        "failure",
        "collective-mismatch",
        (6,),
    )


def test_of_those_behind_the_first_that_differs_nothing_is_known(analyzed):
    logs = {
        "rank0.log": differs(0, "ALLREDUCE", 1, "ALLGATHER"),
        "rank1.log": differs(1, "ALLGATHER", 0, "ALLREDUCE"),
        "rank2.log": "step 7 loss 2.5\n",
    }
    logs = {n: init(int(n[4]), 3, pid=500 + int(n[4])) + t for n, t in logs.items()}
    assert verdict(analyzed(logs)) == ("failure", "collective-mismatch", ())


def test_a_barrier_whose_counts_alone_differ_is_torchs_own_flaw(analyzed):
    text = (
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running "
        "collective: CollectiveFingerPrint(SequenceNumber=1OpType=BARRIER), but Rank 2 "
        "is running collective: CollectiveFingerPrint(SequenceNumber=0OpType=BARRIER)."
        "Collectives differ in the following aspects: \t Sequence number: 1vs 0\n"
    )
    assert analyzed({"job.log": text}).ranked.outcome == "inconclusive"


def unread(rank, peer):
    """Return what DETAIL prints where it cannot decode the fingerprint of a peer."""
    return (
        "RuntimeError: Detected mismatch between collectives on ranks. Rank "
        f"{rank} is running collective: CollectiveFingerPrint(SequenceNumber=117, "
        "OpType=ALLGATHER, TensorShape=[1], TensorDtypes=Long, TensorDeviceTypes="
        "TensorOptions(dtype=float (default), device=cuda, layout=Strided (default), "
        "requires_grad=false (default), pinned_memory=false (default), "
        f"memory_format=(nullopt))), but Rank {peer} is running collective: "
        "CollectiveFingerPrint(SequenceNumber=0OpType=REDUCE).Collectives differ in "
        "the following aspects: \t Sequence number: 117vs 0  Op type: ALLGATHERvs "
        "REDUCE\n"
    )


@pytest.mark.parametrize(("rank", "peer", "named"), [(1, 7, (7,)), (0, 1, ())])
def test_a_peer_whose_call_cannot_be_read_differs_from_those_before_it(
    analyzed, rank, peer, named
):
    found = verdict(analyzed({"job.log": unread(rank, peer)}))
    assert found[1:] == ("collective-mismatch", named)


def test_where_only_one_side_was_printed_nobody_is_named(analyzed):
    text = (
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 3 is running "
        "inconsistent collective: CollectiveFingerPrint(OpType=BARRIER)\n"
    )
    found = verdict(analyzed({"job.log": text}))
    assert found == ("failure", "collective-mismatch", ())


def nameless(rank, numel, seq=15074):
    """Return a watchdog's line of torch 2.0 to 2.4, which names no group."""
    return (
        f"[rank{rank}]:[E ProcessGroupNCCL.cpp:523] [Rank {rank}] Watchdog caught "
        f"collective operation timeout: WorkNCCL(SeqNum={seq}, OpType=_ALLGATHER_BASE, "
        f"NumelIn={numel}, NumelOut={8 * numel}, Timeout(ms)=600000) ran for 600026 "
        "milliseconds before timing out.\n"
    )


def test_one_size_of_many_in_a_group_without_a_name(analyzed):
    log = "".join(nameless(rank, 8388608) for rank in (1, 2, 4, 5)) + nameless(3, 1024)
    found = analyzed({"job.log": log}).ranked
    assert (found.verdict.slug, found.verdict.ranks) == ("shape-mismatch", (3,))
    # that ranks without a group's name are of one group is only likely
    assert found.verdict.confidence == "likely"


def test_groups_without_names_in_which_ranks_are_numbered_anew(analyzed):
    """Rank 3 is rank 1 of its group: these are two groups at least."""
    log = "".join(nameless(rank, 8388608) for rank in (1, 2, 4, 5))
    log += nameless(3, 1024).replace("[Rank 3]", "[Rank 1]")
    assert analyzed({"job.log": log}).ranked.outcome == "inconclusive"


def test_ranks_that_wait_in_two_calls_are_in_two_groups(analyzed):
    log = "".join(nameless(rank, 8388608) for rank in (1, 2, 4, 5)) + nameless(3, 1024)
    log += nameless(3, 512, seq=77)
    assert analyzed({"job.log": log}).ranked.outcome == "inconclusive"


STACK = (
    "[rank{rank}]:[E816 01:45:40.2 ProcessGroupNCCL.cpp:676] Stack trace of the failed "
    "collective: \n#0 {op} from /opt/lib/torch/distributed/distributed_c10d.py:2801\n"
    "#1 {function} from /opt/train/train.py:{line}\n"
)


def at_a_place(rank, op, function, line):
    place = STACK.format(rank=rank, op=op.lower(), function=function, line=line)
    return timeout(rank, op, 8) + place


def test_operations_that_differ_meet_in_one_call_wherever_they_stand(analyzed):
    logs = [at_a_place(r, "ALLREDUCE", "train_step", 60) for r in (0, 1, 3)]
    logs.append(at_a_place(2, "BROADCAST", "sync_router", 80))
    found = analyzed({"job.log": "".join(logs)})
    assert verdict(found) == ("failure", "collective-mismatch", (2,))


def test_one_operation_at_two_places_is_two_calls(analyzed):
    logs = [at_a_place(r, "ALLREDUCE", "train_step", 60) for r in (0, 1, 3)]
    logs.append(at_a_place(2, "ALLREDUCE", "sync_router", 80))
    found = analyzed({"job.log": "".join(logs)})
    assert found.ranked.verdict.slug != "collective-mismatch"


def in_group(rank, group, seq, function):
    place = at_a_place(rank, "ALLREDUCE", function, 60).replace("78", str(seq))
    place = place.replace("PG 0 (default_pg)", f"PG ID 1 PG GUID {group}({group})")
    return place.replace(
        "allreduce from /opt/lib", "all_reduce from /opt/site-packages"
    )


def test_the_stack_of_another_timeout_does_not_part_a_call(analyzed):
    """Rank 0 prints the stack of its call in another group first, rank 1 last."""
    one, other = ("a", 78, "train_step"), ("b", 91, "prefetch")
    logs = [in_group(0, *other) + in_group(0, *one)]
    logs += [in_group(1, *one) + in_group(1, *other)]
    logs += [in_group(rank, *one) for rank in (2, 3)]
    found = analyzed({"job.log": "".join(logs)})
    told = [row["waiting"] for row in found.frames["calls"].to_dicts()]
    assert sorted(told) == [[0, 1], [0, 1, 2, 3]]


def fingerprint(rank, numel, peer, theirs):
    def side(who, size):
        print_ = FINGERPRINT.format(op="ALLGATHER").replace("20, 10", str(size))
        print_ = print_.replace("(OpType", "(SequenceNumber=33, OpType")
        return f"Rank {who} is running collective: {' '.join(print_.splitlines())}"

    return (
        f"[rank{rank}]: RuntimeError: Detected mismatch between collectives on ranks. "
        f"{side(rank, numel)}, but {side(peer, theirs)}.Collectives differ in the "
        f"following aspects: \t Tensor Tensor shapes: {numel}vs {theirs}\n"
    )


def test_where_torch_refused_the_sizes_of_an_all_gather_they_had_to_agree(analyzed):
    lines = [fingerprint(r, 11, 0, 12) for r in (1, 2, 3)] + [fingerprint(0, 12, 1, 11)]
    found = analyzed({"job.log": "".join(lines)})
    assert verdict(found) == ("failure", "shape-mismatch", (0,))


@pytest.mark.parametrize(("odd", "ranks"), [((5, 3), (2,)), ((8, 3), None)])
def test_the_sizes_that_accelerate_lists_tell_whose_differ(analyzed, odd, ranks):
    sizes = [(8, 3), (8, 3), odd, (8, 3)]
    listed = "".join(f"  - Process {r}: {[*s]}\n" for r, s in enumerate(sizes))
    found = analyzed({"job.log": f"Input shapes:\n{listed}"}).ranked.verdict
    assert (found and (found.slug, found.ranks)) == (
        ranks and ("shape-mismatch", ranks)
    )


@pytest.mark.parametrize(
    ("seq", "slug"), [(61344, "collective-mismatch"), (61300, None)]
)
def test_a_line_without_a_group_is_of_the_default_one_if_their_call_is_the_same(
    analyzed, seq, slug
):
    """A third rank is known and was not heard, so neither side is named."""
    late = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum={}, OpType={}"
    rest = ", NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600031 "
    rest += "milliseconds before timing out.\n"
    head = "[rank{0}]:[E811 03:15:22.410338127 ProcessGroupNCCL.cpp:607] [{1}Rank {0}] "
    lines = [
        head.format(6, "") + late.format(61344, "BROADCAST") + rest,
        head.format(6, "PG 0 (default_pg) ")
        + "Exception (either an error or timeout) detected by watchdog at work: 61344, "
        "last enqueued NCCL work: 61344, last completed NCCL work: 61343.\n",
        head.format(2, "") + late.format(seq, "ALLREDUCE") + rest,
    ]
    ranked = analyzed({"job.log": "".join(lines)}).ranked
    found = [f for _, f in ranked.findings if f.slug == "collective-mismatch"]
    assert [f.slug for f in found] == ([slug] if slug else [])
    assert all(f.ranks == () and f.confidence == "possible" for f in found)
    assert ranked.outcome == "inconclusive"
    # both sides are shown: no rank that was not heard fits as well
    assert not any("fits nearly as well" in f.explanation for f in found)
