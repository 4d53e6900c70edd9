"""Two jobs whose lines are woven into one file accuse nobody; one job names its own."""

import pytest


def nccl(host, pid, rank, comm, phase="COMPLETE"):
    return (
        f"{host}:{pid}:{pid} [{rank}] NCCL INFO ncclCommInitRank comm 0x{pid} rank {rank} "
        f"nranks 2 cudaDev {rank} nvmlDev {rank} busId {rank + 1}000 commId 0x{comm} - "
        f"Init {phase}\n"
    )


def full(host, pid):
    return (
        f"{host}:{pid}:{pid} [0] misc/shmutils.cc:88 NCCL WARN Error: failed to extend "
        "/dev/shm/nccl-a1 to 9637892 bytes, error: No space left on device (28)\n"
    )


def job(pids, comm, hosts=("gpu0001", "gpu0002"), phase="COMPLETE"):
    return [
        nccl(host, pid, rank, comm, phase)
        for rank, (host, pid) in enumerate(zip(hosts, pids, strict=True))
    ]


def named(analysis):
    found = analysis.ranked.verdict
    return (
        analysis.ranked.outcome,
        found and (found.slug, found.ranks, found.hosts),
    )


FIRST = [*job((100, 101), "aa"), full("gpu0002", 101)]
SECOND = [*job((200, 201), "bb"), full("gpu0001", 200)]
NOBODY = ("inconclusive", ("shm-exhausted", (), ()))


def test_one_job_names_its_own(analyzed):
    assert named(analyzed({"job.log": "".join(FIRST)})) == (
        "failure",
        ("shm-exhausted", (1,), ("gpu0002",)),
    )


def test_communicators_that_write_in_turns_accuse_nobody(analyzed):
    lines = [line for pair in zip(FIRST, SECOND, strict=True) for line in pair]
    analysis = analyzed({"job.log": "".join(lines)})
    assert named(analysis) == NOBODY
    assert "two jobs" in analysis.ranked.verdict.headline


def test_a_rank_on_two_hosts_accuses_nobody(analyzed):
    one = [f"[rank{rank}]: {line}" for rank, line in enumerate(job((7, 8), "aa"))]
    hosts = ("gpu0002", "gpu0001")
    other = [
        f"[rank{rank}]: {line}"
        for rank, line in enumerate(job((9, 10), "bb", hosts, "START"))
    ]
    files = {"a.log": "".join(one) + full("gpu0002", 8), "b.log": "".join(other)}
    assert named(analyzed(files)) == NOBODY


TABLE = "-" * 60 + "\nRoot Cause (first observed failure):\n"


def ended(rank, code, host="gpu0001"):
    return (
        f"{TABLE}[0]:\n  time      : 2026-03-01_10:00:00\n  host      : {host}\n"
        f"  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: 500)\n"
        "  error_file: <N/A>\n  traceback : Signal 11 (SIGSEGV) received by PID 500\n"
    )


@pytest.mark.parametrize(("code", "outcome"), [(-11, "failure"), (-7, "inconclusive")])
def test_a_rank_that_ended_in_two_ways_accuses_nobody(analyzed, code, outcome):
    analysis = analyzed({"job.log": ended(2, -11) + ended(2, code)})
    assert analysis.ranked.outcome == outcome
    assert bool(analysis.ranked.verdict.ranks) == (outcome == "failure")


OOM = (
    "[rank1]:[E820 {at}:00.500000000 ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID 0 Rank "
    "1] Process group watchdog thread terminated with exception: CUDA error: {error}\n"
)
ERRORS = ("an illegal memory access was encountered", "misaligned address")


def clock(*hours):
    return "".join(OOM.format(at=at, error=ERRORS[n % 2]) for n, at in enumerate(hours))


def test_a_rank_whose_clock_goes_to_and_fro_is_of_two_jobs(analyzed):
    woven = clock("10:00", "14:07", "10:01", "14:08", "10:02")
    assert analyzed({"job.log": woven}).ranked.verdict.ranks == ()


@pytest.mark.parametrize(
    "hours",
    [
        ("10:00", "10:01", "14:07", "14:08", "14:09"),  # in order
        ("10:00", "14:07", "10:00", "14:07", "14:08"),  # pasted behind itself
        ("10:00", "10:09", "10:01", "10:08", "10:02"),  # out of a buffer
    ],
)
def test_a_clock_that_does_not_is_of_one(analyzed, hours):
    assert analyzed({"job.log": clock(*hours)}).ranked.verdict.ranks == (1,)


def test_the_clock_of_a_launcher_may_be_of_another_zone(analyzed):
    lines = clock("10:00", "10:01", "10:02").splitlines(keepends=True)
    utc = "[rank1]: 2026-08-20T08:00:{:02}Z step {} loss 1.5\n"
    woven = "".join(f"{utc.format(n, n)}{line}" for n, line in enumerate(lines))
    assert analyzed({"job.log": woven}).ranked.verdict.ranks == (1,)


DIFFER = (
    "[rank{rank}]: RuntimeError: Detected mismatch between collectives on ranks. Rank "
    "{rank} is running collective: {mine}, but Rank {peer} is running collective: "
    "{theirs}.Collectives differ in the following aspects: \t Tensor Tensor shapes: "
    "{a}vs {b}\n"
)
PRINT = (
    "CollectiveFingerPrint(SequenceNumber=4, OpType=ALLREDUCE, TensorShape=[{}], "
    "TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default), "
    "device=cpu, layout=Strided (default), requires_grad=false (default), "
    "pinned_memory=false (default), memory_format=(nullopt)))"
)


def differ(rank, a, peer, b):
    prints = {"mine": PRINT.format(a), "theirs": PRINT.format(b)}
    return DIFFER.format(rank=rank, peer=peer, a=a, b=b, **prints)


SAID = "".join(differ(rank, 8, 2, 9) for rank in (0, 1, 3))


def test_a_rank_that_made_one_call_in_two_ways_is_of_two_jobs(analyzed):
    assert analyzed({"job.log": SAID}).ranked.verdict.ranks == (2,)
    woven = analyzed({"job.log": SAID + differ(0, 8, 1, 7)})
    assert (woven.ranked.outcome, woven.ranked.verdict.ranks) == ("inconclusive", ())
