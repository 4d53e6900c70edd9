"""nccl-tests prints errors of its own and names the host; who ran it is told above."""

from nccl_lines import found

DEVICES = (
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid 101 on    gpu0001 device  0 [0000:9b:00] NVIDIA H100\n"
    "#  Rank  1 Group  0 Pid 102 on    gpu0002 device  0 [0000:9b:00] NVIDIA H100\n"
)


def failure(error, host="gpu0002"):
    told = f"{host}: Test CUDA failure common.cu:1030 '{error}'\n"
    return told + f" .. {host} pid 102: Test failure common.cu:937\n"


def test_a_fabric_that_is_not_up_is_read_off_them(analyzed):
    log = DEVICES + failure("system not yet initialized")
    (finding,) = found(analyzed({"job.log": log}), "fabric-manager")
    assert finding.hosts == ("gpu0002",)


def test_a_driver_that_is_too_old_is_read_off_them(analyzed):
    text = "CUDA driver version is insufficient for CUDA runtime version"
    (finding,) = found(analyzed({"job.log": failure(text)}), "driver-mismatch")
    assert finding.hosts == ("gpu0002",)
    early = f"Cuda failure common.cu:891 '{text}'\n"
    (finding,) = found(analyzed({"job.log": early}), "driver-mismatch")
    assert finding.hosts == ()


def test_the_ranks_of_the_list_are_known(analyzed):
    analysis = analyzed({"job.log": DEVICES})
    ranks = analysis.frames["ranks"].select("rank", "host", "pid").rows()
    assert ranks == [(0, "gpu0001", 101), (1, "gpu0002", 102)]
    assert analysis.ranked.outcome == "no-failure"


def test_an_error_without_its_cause_is_inconclusive(analyzed):
    log = (
        DEVICES + "gpu0002: Test NCCL failure common.cu:777 'unhandled system error'\n"
    )
    analysis = analyzed({"job.log": log})
    assert (analysis.ranked.outcome, analysis.ranked.verdict) == ("inconclusive", None)


def test_a_test_that_came_to_its_end_is_healthy(analyzed):
    log = DEVICES + (
        "  1073741824  268435456 float sum -1 20079 53.48 93.58 0 19265 55.74 97.54 0\n"
        "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 95.3009\n"
    )
    assert analyzed({"job.log": log}).ranked.outcome == "no-failure"


ROW = (
    "      199680    49920     float     max      -1    125.8    1.59    2.98      0\n"
)


def test_rows_alone_are_of_a_healthy_test_and_wrong_values_are_not(analyzed):
    assert analyzed({"job.log": 4 * ROW}).ranked.outcome == "no-failure"
    wrong = 4 * ROW + "# Out of bounds values : 50 FAILED\n"
    assert analyzed({"job.log": wrong}).ranked.outcome == "inconclusive"


def test_a_cuda_call_that_fails_ends_the_test_on_each_rank_that_says_so(analyzed):
    line = "[1,{0}]<stdout>:gpu0002: Test CUDA failure common.cu:732 '{1}'\n"
    ordinal = "".join(line.format(r, "invalid device ordinal") for r in (3, 2))
    verdict = analyzed({"job.log": ordinal}).ranked.verdict
    assert (verdict.slug, verdict.ranks, verdict.hosts) == (
        "crashed-rank",
        (2, 3),
        ("gpu0002",),
    )
    memory = analyzed({"job.log": line.format(3, "out of memory")}).ranked.verdict
    assert (memory.slug, memory.ranks) == ("gpu-oom", (3,))
