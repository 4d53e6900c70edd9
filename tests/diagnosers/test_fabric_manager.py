"""fabric-manager fires on CUDA's error 802 and its kin, on the host that prints it."""

import pytest

LINES = [
    "\ngpu0002:7:7 [0] init.cc:1701 NCCL WARN Cuda failure 'system not yet initialized'\n",
    "\ngpu0002:7:7 [0] init.cc:1701 NCCL WARN Cuda failure 802 'system not yet "
    "initialized'\n",
]


def found(analysis):
    return [f for _, f in analysis.ranked.findings if f.slug == "fabric-manager"]


def test_the_driver_s_own_init_tells_error_802_by_its_number(analyzed):
    (finding,) = found(analyzed({"server.log": "calling cuInit\ncuInit err: 802\n"}))
    assert (finding.hosts, finding.confidence) == ((), "certain")
    assert not found(analyzed({"server.log": "cuInit err: 803\nid 802 is done\n"}))


@pytest.mark.parametrize("line", LINES)
def test_error_802_names_the_host(analyzed, line):
    (finding,) = found(
        analyzed(
            {"rank_4.log": line, "rank_0.log": "gpu0001:3:3 [0] NCCL INFO Using x\n"}
        )
    )
    assert (finding.hosts, finding.ranks) == (("gpu0002",), (4,))
    assert finding.confidence == "certain"


@pytest.mark.parametrize(
    "line",
    [
        "Nov 05 13:55:26 gpu0002 nv-fabricmanager[104]: fabric manager NVIDIA GPU driver "
        "interface version 550.127.05 don't match with driver version 550.120.\n",
        "Nov 05 13:55:26 gpu0002 systemd[1]: nvidia-fabricmanager.service: Control "
        "process exited, code=exited, status=1/FAILURE\n",
    ],
)
def test_a_service_that_does_not_start_names_its_host(analyzed, line):
    (finding,) = found(analyzed({"journal.log": line}))
    assert (finding.hosts, finding.confidence) == (("gpu0002",), "certain")


@pytest.mark.parametrize(
    "line",
    [
        "Job for nvidia-fabricmanager.service failed because the control process exited "
        "with error code.\n",
        "RuntimeError: cuda runtime error (802) : system not yet initialized at "
        "/pytorch/aten/src/THC/THCGeneral.cpp:50\n",
        "transport/nvls.cc:165 NCCL WARN Cuda failure 'invalid argument'\n",
    ],
)
def test_lines_that_name_no_host_accuse_none(analyzed, line):
    (finding,) = found(analyzed({"job.log": line}))
    assert finding.hosts == ()


def test_other_cuda_failures_are_not_the_fabric(analyzed):
    line = "\ngpu0002:7:7 [0] init.cc:1 NCCL WARN Cuda failure 'invalid argument'\n"
    assert not found(analyzed({"rank_4.log": line}))


def test_the_fabric_of_an_hgx_machine_is_not_an_alarm(analyzed):
    line = (
        "gpu0001:3:3 [0] NCCL INFO MNNVL busId 0x7000 fabric UUID 0.0 cliqueId 0x0 "
        "state 3 healthMask 0x0\n"
    )
    analysis = analyzed({"rank_0.log": line})
    assert not found(analysis)
    assert analysis.ranked.outcome == "no-failure"


def test_a_multicast_that_cannot_be_set_up_is_likely_the_fabric(analyzed):
    line = (
        "\n[2026-05-10 23:09:41] gpu0002:7:7 [2] transport/nvls.cc:254 NCCL WARN "
        "Cuda failure 1 'invalid argument'\n"
    )
    (finding,) = found(analyzed({"rank_4.log": line}))
    assert (finding.hosts, finding.confidence) == (("gpu0002",), "likely")


def test_where_cuda_did_not_start_in_a_process_nothing_is_known_of_the_fabric(analyzed):
    line = (
        "\n[2026-05-10 23:09:41] gpu0002:7:7 [2] transport/nvls.cc:254 NCCL WARN "
        "Cuda failure 'initialization error'\n"
    )
    analysis = analyzed({"rank_4.log": line})
    assert not found(analysis)
    assert analysis.ranked.outcome == "inconclusive"


def test_a_multicast_probe_that_nccl_expected_to_fail_is_not(analyzed):
    line = (
        "gpu0002:7:7 [2] NCCL INFO Failed to bind NVLink SHARP (NVLS) Multicast memory of "
        "size 2097152 : CUDA error 401 'the operation cannot be performed in the present "
        "state'. Proceeding without NVLS support.\n"
    )
    analysis = analyzed({"rank_4.log": line})
    assert not found(analysis)
    assert analysis.ranked.outcome == "no-failure"


START = (
    "gpu000{h}:{pid}:{pid} [0] NCCL INFO ncclCommInitRankConfig comm 0x5{r} rank {r} "
    "nranks 6 cudaDev {d} nvmlDev {d} busId {d}b000 commId 0xaa - Init START\n"
)
ON = "gpu000{h}:{pid}:{pid} [0] NCCL INFO Using network IB\n"
TIMEOUT = (
    "[rank0]:[E820 10:10:00.596967190 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog "
    "caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, "
    "NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds before "
    "timing out.\n"
)


def init_hang(stopped, hosts=3):
    logs = {f"gpu000{h}.log": "" for h in range(1, hosts + 1)}
    for r in range(6):
        h = r // 2 % hosts + 1
        line = START + ("" if h in stopped else ON)
        logs[f"gpu000{h}.log"] += line.format(h=h, r=r, d=r % 2, pid=100 + r)
    logs["gpu0001.log"] += TIMEOUT
    return logs


def test_the_host_whose_log_stops_first_in_an_init_hang_is_named(analyzed):
    (finding,) = found(analyzed(init_hang({3})))
    assert (finding.hosts, finding.confidence) == (("gpu0003",), "likely")


@pytest.mark.parametrize(("stopped", "hosts"), [(set(), 3), ({2, 3}, 3), ({2}, 2)])
def test_an_init_hang_without_one_odd_host_is_no_fabric(analyzed, stopped, hosts):
    assert not found(analyzed(init_hang(stopped, hosts)))


TREES = "gpu000{h}:{pid}:{pid} [0] NCCL INFO Trees [0] 1/-1/-1->{r}->0\n"
USING = "gpu000{h}:{pid}:{pid} [0] NCCL INFO Bootstrap : Using eth0:10.0.0.{h}<0>\n"


def stopped_before_topology(sick, hosts=2, logs=None):
    """Two ranks on each host; those of `sick` print no more than their bootstrap."""
    logs = logs or [f"gpu000{h}.log" for h in range(1, hosts + 1)]
    files = dict.fromkeys(logs, "")
    for r in range(2 * hosts):
        h = r // 2 + 1
        line = USING + ("" if h in sick else START + TREES)
        text = line.format(h=h, r=r, d=r % 2, pid=100 + r)
        files[logs[h - 1]] += text.replace("nranks 6", f"nranks {2 * hosts}")
    return files


def test_the_host_without_a_topology_is_named_even_of_two(analyzed):
    (finding,) = found(analyzed(stopped_before_topology({2})))
    assert (finding.hosts, finding.ranks) == (("gpu0002",), ())


@pytest.mark.parametrize(
    "logs",
    [
        stopped_before_topology({2, 3}, 3),
        stopped_before_topology(set(), 2),
        stopped_before_topology({2}, 2, ["job.log", "job.log"]),
    ],
    ids=["two hosts stopped", "all went on", "one stream, which may be copied"],
)
def test_a_missing_topology_without_one_odd_host_is_no_fabric(analyzed, logs):
    analysis = analyzed(logs)
    assert not found(analysis)
    assert analysis.ranked.verdict is None


def test_a_host_whose_log_is_lost_is_not_taken_for_one_that_stopped(analyzed):
    logs = stopped_before_topology({3}, 3)
    del logs["gpu0002.log"]
    analysis = analyzed(logs)
    assert not found(analysis)
    assert analysis.ranked.outcome == "inconclusive"


def test_an_init_that_nccl_gave_up_is_no_hang(analyzed):
    logs = init_hang({3})
    logs["gpu0001.log"] += (
        "\ngpu0001:100:100 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection "
        "closed by remote peer gpu0002<4>\n"
    )
    assert not found(analyzed(logs))


def test_multicast_that_failed_in_a_job_that_went_on_accuses_nobody(analyzed):
    line = "gpu0002:7:9 [0] transport/nvls.cc:621 NCCL WARN Cuda failure 1 'invalid argument'\n"
    steps = "".join(f"step {n} loss 1.{n}\n" for n in range(4))
    assert found(analyzed({"job.log": steps + line}))
    assert not found(analyzed({"job.log": line + steps}))


def test_multicast_that_is_refused_to_nvshmem_is_of_the_fabric(analyzed):
    line = (
        "/opt/nvshmem/src/host/team/team_internal_nvls.cpp:258: non-zero status: {} "
        "cuMemMap failed to map 137438953472 bytes handle at address: 0x17 offset 0\n"
    )
    assert found(analyzed({"job.log": line.format(401)}))
    assert not found(analyzed({"job.log": line.format(2)}))


def test_the_number_counts_however_error_is_spelled(analyzed):
    (finding,) = found(analyzed({"post.md": "# CUDA Error 802 on all jobs\n"}))
    assert finding.hosts == ()
    assert not found(analyzed({"post.md": "# CUDA Error 8021 on all jobs\n"}))
