"""What is asked first is answered: ruled out by evidence of all, or what is missing."""

import pytest

SMALL_JOB = {
    f"rank_{rank}.log": f"[rank{rank}]: step 1 loss 2.0\n"
    f"gpu000{rank + 1}:4{rank}:4{rank} [0] NCCL INFO ncclCommInitRank comm 0x1 rank "
    f"{rank} nranks 2 cudaDev 0 nvmlDev 0 busId 7000 commId 0xab - Init COMPLETE\n"
    for rank in (0, 1)
}
KERNEL = (
    "2026-11-20T09:00:00.000000+00:00 {host} kernel: perf: interrupt took too long\n"
)


def ruled_out(found):
    return {r.slug: r for r in found.report.ruled_out}


def unknown(found):
    return {n.slug: n for n in found.report.not_checked}


def test_kernel_logs_of_all_hosts_rule_out_gpu_and_memory(analyzed):
    logs = {f"dmesg-gpu000{n}.log": KERNEL.format(host=f"gpu000{n}") for n in (1, 2)}
    found = ruled_out(analyzed(SMALL_JOB | logs))
    assert {"gpu-fault", "host-oom"} <= found.keys()
    cited = {c.source for c in found["gpu-fault"].evidence}
    assert cited == {"dmesg-gpu0001.log", "dmesg-gpu0002.log"}


def test_the_missing_kernel_log_is_asked_for_by_its_host(analyzed):
    logs = {"dmesg-gpu0001.log": KERNEL.format(host="gpu0001")}
    found = analyzed(SMALL_JOB | logs)
    told = unknown(found)["gpu-fault"]
    assert told.missing == "no kernel log of gpu0002"
    assert "dmesg-gpu0002.log" in told.next_time
    assert "gpu-fault" not in ruled_out(found)


def test_what_kubernetes_quotes_of_a_kernel_is_not_its_log(analyzed):
    quoted = "3m Warning OOMKilling node/gpu0001 Memory cgroup out of memory: Killed "
    quoted += "process 4 (python3) total-vm:81kB, anon-rss:20kB\n"
    found = analyzed(SMALL_JOB | {"events.txt": quoted})
    assert "gpu-fault" not in ruled_out(found)
    assert unknown(found)["gpu-fault"].missing.startswith("no kernel log")


@pytest.mark.parametrize(("boot", "covers"), [("08:59", True), ("09:30", False)])
def test_a_kernel_log_that_begins_after_the_failure_rules_out_nothing(
    analyzed, boot, covers
):
    version = "Linux version 5.15.0-122-generic (b@h) (gcc) #132 SMP Thu Aug 29 2024"
    logs = {
        f"dmesg-gpu000{n}.log": f"2026-11-20T{boot}:00+0000 gpu000{n} kernel: {version}"
        f"\n{KERNEL.format(host=f'gpu000{n}').replace('09:00', '09:40')}"
        for n in (1, 2)
    }
    failed = "[2026-11-20 09:10:00] gpu0001:40:40 [0] a.cc:1 NCCL WARN Call to send "
    failed += "failed : Broken pipe\n"
    found = analyzed(SMALL_JOB | logs | {"job.log": failed})
    assert ("gpu-fault" in ruled_out(found)) == covers


@pytest.mark.parametrize(("ends", "covers"), [("08:50", False), ("09:30", True)])
def test_a_kernel_log_that_ends_before_the_failure_rules_out_nothing(
    analyzed, ends, covers
):
    logs = {
        f"dmesg-gpu000{n}.log": KERNEL.format(host=f"gpu000{n}").replace("09:00", ends)
        for n in (1, 2)
    }
    failed = "[2026-11-20 09:10:00] gpu0001:40:40 [0] a.cc:1 NCCL WARN Call to send "
    failed += "failed : Broken pipe\n"
    found = analyzed(SMALL_JOB | logs | {"job.log": failed})
    assert ("gpu-fault" in ruled_out(found)) == covers
    if not covers:
        told = unknown(found)["gpu-fault"].missing
        assert "gpu[0001-0002] ends 08:50, 20 min before the failure" in told


def test_an_xid_is_the_answer_itself(analyzed):
    xid = KERNEL.format(host="gpu0001") + (
        "2026-11-20T09:00:00.000000+00:00 gpu0001 kernel: NVRM: Xid (PCI:0000:07:00): "
        "79, pid=40, name=python3, GPU has fallen off the bus.\n"
    )
    found = analyzed(SMALL_JOB | {"dmesg-gpu0001.log": xid})
    assert "gpu-fault" not in ruled_out(found).keys() | unknown(found).keys()


def test_nccl_that_connected_all_ranks_rules_out_the_network(analyzed):
    assert "2 ranks" in ruled_out(analyzed(SMALL_JOB))["ib-error"].why


@pytest.mark.parametrize("lost", [0, 1])
def test_a_rank_of_which_nccl_says_nothing_is_named(analyzed, lost):
    left = {f"rank_{1 - lost}.log": SMALL_JOB[f"rank_{1 - lost}.log"]}
    told = unknown(analyzed(left))["ib-error"]
    assert told.missing.endswith(f"rank {lost} connected")
    assert "NCCL_DEBUG=INFO" in told.next_time


def test_without_dumps_it_says_what_would_have_recorded_them(analyzed):
    told = unknown(analyzed(SMALL_JOB))["collective-mismatch"]
    assert "TORCH_FR_BUFFER_SIZE=2000" in told.next_time
