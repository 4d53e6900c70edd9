"""gpu-fault names the rank on the GPU that broke, and leaves software's Xids alone."""

import pytest

from log_lines import found, init, kernel, ruled_out, timeout, traceback, verdict, xid

JOB = "".join(init(r, 2, bus=bus) for r, bus in ((0, "1b000"), (1, "55000")))
HARDWARE = {
    48: "pid=4011, name=python, channel 0x2",
    64: "Row Remapper: Row remapping failed",
    79: "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    94: "Contained: CE User Channel (0x9). RST: No, D-RST: No",
    95: "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No",
    119: "pid=4011, name=python, Timeout after 6s of waiting for RPC response from "
    "GPU4",
    120: "GSP task exception: Load access fault",
    145: "NVLINK: RLW Remote Error",
}
SOFTWARE = {
    13: "pid=4011, name=python, Graphics SM Warp Exception on (GPC 0, TPC 1, SM 0)",
    31: "pid=4011, name=python, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS",
    43: "pid=4011, name=python, Ch 00000010",
    45: "pid=4011, name=python, Ch 00000010",
    63: "Row Remapper: New row marked for remapping, reset gpu to activate.",
    154: "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
}


@pytest.mark.parametrize("number", HARDWARE)
def test_an_xid_of_broken_hardware_names_the_rank_on_that_gpu(analyzed, number):
    log = xid(number, HARDWARE[number])
    analysis = analyzed({"job.log": JOB + timeout(0), "dmesg.log": log})
    assert verdict(analysis) == ("gpu-fault", (1,), ("gpu0001",))
    assert f"Xid {number}" in analysis.ranked.verdict.headline
    assert [role for role, _ in found(analysis, "timeout-masking")] == ["witness"]


@pytest.mark.parametrize("number", SOFTWARE)
def test_an_xid_that_software_causes_accuses_no_gpu(analyzed, number):
    log = xid(number, SOFTWARE[number])
    analysis = analyzed({"job.log": JOB + timeout(0), "dmesg.log": log})
    assert not found(analysis, "gpu-fault")
    ((out),) = ruled_out(analysis, "gpu-fault")
    assert f"Xid {number}" in out.why


def test_an_echo_whose_cause_is_named_stands_for_it(analyzed):
    """The kernel says `caused by previous Xid N`; the line of N itself was lost."""
    for cause, broken in ((149, True), (31, False)):
        log = xid(45, f"pid=4011, name=python, Ch 2 caused by previous Xid {cause}")
        analysis = analyzed({"job.log": JOB + timeout(0), "dmesg.log": log})
        assert bool(found(analysis, "gpu-fault")) == broken


def test_the_program_that_crashed_by_itself_is_no_broken_gpu(analyzed):
    last = "RuntimeError: CUDA error: an illegal memory access was encountered"
    log = xid(31, SOFTWARE[31]) + xid(45, SOFTWARE[45])
    analysis = analyzed({"job.log": JOB + traceback(1, last), "dmesg.log": log})
    assert verdict(analysis) == ("crashed-rank", (1,), ("gpu0001",))


OFF_THE_BUS = {
    "one line": kernel("NVRM: GPU 0000:55:00.0: GPU has fallen off the bus."),
    "three lines": kernel("NVRM: The NVIDIA GPU 0000:55:00.0")
    + kernel("NVRM: (PCI ID: 10de:26b5) installed in this system has")
    + kernel("NVRM: fallen off the bus and is not responding to commands."),
    "nvidia-smi": "Unable to determine the device handle for GPU0000:55:00.0: Unknown "
    "Error\n",
}


@pytest.mark.parametrize("form", OFF_THE_BUS)
def test_a_gpu_that_left_the_bus_is_known_in_every_form(analyzed, form):
    files = {"job.log": JOB + timeout(0), "dmesg.log": OFF_THE_BUS[form]}
    assert verdict(analyzed(files)) == ("gpu-fault", (1,), ("gpu0001",))


LSPCI = "%s 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev %s)\n"


def test_a_gpu_whose_registers_do_not_answer_lspci_left_the_bus(analyzed):
    well = LSPCI % ("07:00.0", "a1")
    assert analyzed({"gpu0009.log": well}).ranked.verdict is None
    ranked = analyzed({"gpu0009.log": well + LSPCI % ("44:00.0", "ff")}).ranked
    assert (ranked.verdict.slug, ranked.verdict.hosts) == ("gpu-fault", ("gpu0009",))
    assert ranked.verdict.confidence == "likely"


def test_a_narrow_link_by_lspci_is_told_and_accuses_nobody(analyzed):
    link = "\tLnkCap:\tSpeed 32GT/s, Width x16\n\tLnkSta:\tSpeed 32GT/s, Width x4\n"
    analysis = analyzed({"gpu0009.log": LSPCI % ("44:00.0", "a1") + link})
    assert analysis.ranked.verdict is None
    assert "a PCIe link of 4 lanes, not 16" in analysis.report.clue.text


def test_a_gpu_that_the_bus_cannot_recover_is_named_and_no_other_device(analyzed):
    said = "[ 81.1] %s 0000:44:00.0: AER: can't recover (no error_detected callback)\n"
    ranked = analyzed({"dmesg-gpu0030.txt": said % "nvidia"}).ranked
    assert (ranked.verdict.slug, ranked.verdict.hosts) == ("gpu-fault", ("gpu0030",))
    assert analyzed({"dmesg-gpu0030.txt": said % "nvme"}).ranked.verdict is None


def test_a_gpu_that_amds_runtime_gave_up_on_is_known(analyzed):
    log = "[rank1]: HW Exception by GPU node-9 (Agent handle: 0x63) reason :GPU Hang\n"
    assert verdict(analyzed({"job.log": log + timeout(0)}))[:2] == ("gpu-fault", (1,))


def test_without_init_lines_the_host_is_named_and_no_rank(analyzed):
    files = {"job.log": timeout(0), "dmesg.log": xid(79, HARDWARE[79])}
    assert verdict(analyzed(files)) == ("gpu-fault", (), ("gpu0001",))


def test_a_gpu_of_another_host_with_the_same_bus_id_is_not_taken(analyzed):
    job = init(0, 2, host="gpu0001") + init(1, 2, host="gpu0002")
    files = {"job.log": job + timeout(0), "dmesg.log": xid(79, host="gpu0002")}
    assert verdict(analyzed(files)) == ("gpu-fault", (1,), ("gpu0002",))


@pytest.mark.parametrize(
    "line",
    [
        "[rank1]:[E820 10:00:01.945860779 ProcessGroupNCCL.cpp:1899] [PG ID 0 PG GUID "
        "0(default_pg) Rank 1] Process group watchdog thread terminated with "
        "exception: "
        "CUDA error: uncorrectable ECC error encountered\n",
        traceback(
            1, "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered"
        ),
        "[rank1]: failed call to cuDevicePrimaryCtxRetain: "
        "CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered\n",
        "[2026-08-20 10:00:01] gpu0001:4001:4001 [1] enqueue.cc:100 NCCL WARN Cuda "
        "failure "
        "214 'uncorrectable ECC error encountered'\n",
    ],
)
def test_a_rank_that_met_a_memory_error_names_itself(analyzed, line):
    analysis = analyzed({"job.log": JOB + line + timeout(0)})
    assert verdict(analysis)[:2] == ("gpu-fault", (1,))
    assert all(role == "echo" for role, _ in found(analysis, "crashed-rank"))


@pytest.mark.parametrize(("raised", "ranks"), [((1,), (1,)), ((0, 1), ())])
def test_where_no_rank_has_a_host_the_only_one_with_an_error_of_its_gpu_is_named(
    analyzed, raised, ranks
):
    last = "RuntimeError: CUDA error: unspecified launch failure"
    logs = {f"rank_{rank}.log": traceback(rank, last) for rank in raised}
    logs |= {"rank_2.log": timeout(2), "dmesg.log": xid(48, HARDWARE[48])}
    assert verdict(analyzed(logs)) == ("gpu-fault", ranks, ("gpu0001",))


def test_errors_at_both_ends_of_a_link_name_neither(analyzed):
    log = xid(74, "NVLink: fatal error detected on link 2") + xid(
        74, "NVLink: fatal error detected on link 3", pci="0000:1b:00"
    )
    analysis = analyzed({"job.log": JOB + timeout(0), "dmesg.log": log})
    assert verdict(analysis) == ("gpu-fault", (), ("gpu0001",))


def test_link_errors_beside_a_lost_gpu_are_its_echoes(analyzed):
    log = xid(74, "NVLink: link 2 down", pci="0000:1b:00") + xid(79, HARDWARE[79])
    analysis = analyzed({"job.log": JOB + timeout(0), "dmesg.log": log})
    assert verdict(analysis) == ("gpu-fault", (1,), ("gpu0001",))


@pytest.mark.parametrize(
    ("severity", "fires"),
    [
        ("Fatal, Link 30 Fault", True),
        ("Non-fatal, Link 30 Fault", False),
        ("Severity 1 Engine instance 30 Sub-engine instance 00", True),
        ("Severity 0 Engine instance 30 Sub-engine instance 00", False),
    ],
)
def test_only_a_fatal_error_of_the_switch_counts(analyzed, severity, fires):
    line = f"nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, {severity}"
    analysis = analyzed({"job.log": JOB + timeout(0), "dmesg.log": kernel(line)})
    assert [f.hosts for _, f in found(analysis, "gpu-fault")] == [("gpu0001",)] * fires
    assert not any(f.ranks for _, f in found(analysis, "gpu-fault"))


def test_a_fault_of_another_week_is_another_story(analyzed):
    old = "Aug  3 10:00:00 gpu0001 kernel: NVRM: Xid (PCI:0000:55:00): 79, fallen off\n"
    dated = (
        "[2026-08-20 10:00:00] gpu0001:4:4 [0] a.cc:1 NCCL WARN Call to bind failed\n"
    )
    analysis = analyzed({"job.log": dated + JOB + timeout(0), "dmesg.log": old})
    assert not found(analysis, "gpu-fault")


CRASH = traceback(0, "ValueError: loss is nan")
LOST = "NVRM: Xid (PCI:0000:55:00): 79, pid=9, name=python, fallen off the bus.\n"


def stamped(stamp, text=CRASH):
    return "".join(f"{stamp} {line}\n" for line in text.splitlines())


def test_without_any_year_days_still_lie_between(analyzed):
    log = "".join(f"I0820 10:00:00.123456 1 run.py:1] {s}\n" for s in ["go"])
    log += f"E0820 10:00:02.123456 1 run.py:9] {timeout(0)}"
    old = f"Aug 18 10:00:00 gpu0001 kernel: {LOST}"
    analysis = analyzed({"job.log": JOB + log, "dmesg.log": old})
    assert not found(analysis, "gpu-fault")
    assert "a day or more before" in ruled_out(analysis, "gpu-fault")[0].why
    near = f"Aug 20 09:59:50 gpu0001 kernel: {LOST}"
    analysis = analyzed({"job.log": JOB + log, "dmesg.log": near})
    assert verdict(analysis) == ("gpu-fault", (1,), ("gpu0001",))


def test_when_slurm_cancelled_a_job_dates_it(analyzed):
    cancel = "slurmstepd: error: *** JOB 7 ON gpu0001 CANCELLED AT {} ***\n"
    old = f"[Mon Aug 17 10:00:00 2026] {LOST}"
    job = JOB + cancel.format("2026-08-20T10:00:00")
    analysis = analyzed({"job.log": job, "dmesg-gpu0001.log": old})
    assert not found(analysis, "gpu-fault")
    job = JOB + cancel.format("2026-08-17T10:03:00")
    analysis = analyzed({"job.log": job, "dmesg-gpu0001.log": old})
    assert verdict(analysis) == ("gpu-fault", (1,), ("gpu0001",))


@pytest.mark.parametrize("at", ["09:58:00", "02:00:00"])
def test_what_broke_at_that_minute_in_some_zone_is_the_cause(analyzed, at):
    told = f"[Thu Aug 20 {at} 2026] {LOST}"
    log = JOB + stamped("[2026-08-20 10:00:00,123]")
    analysis = analyzed({"job.log": log, "dmesg-gpu0001.log": told})
    assert verdict(analysis) == ("gpu-fault", (1,), ("gpu0001",))


def test_what_broke_when_nothing_failed_accuses_nobody(analyzed):
    told = f"[Thu Aug 20 05:22:00 2026] {LOST}"
    log = JOB + stamped("[2026-08-20 10:00:00,123]")
    analysis = analyzed({"job.log": log, "dmesg-gpu0001.log": told})
    assert verdict(analysis)[:2] == ("crashed-rank", (0,))
    assert not found(analysis, "gpu-fault")
    told = {n.slug: n.missing for n in analysis.ranked.not_checked}
    assert "not when the job failed" in told["gpu-fault"]


def test_a_short_name_of_a_host_is_known_from_a_directory(analyzed):
    job = "".join(
        init(r, 2, bus=b, host="a01") for r, b in ((0, "1b000"), (1, "55000"))
    )
    log = kernel(LOST).replace("gpu0001 kernel: ", "")
    log = log.replace("Aug 20 10:00:00", "[Thu Aug 20 10:00:00 2026]")
    analysis = analyzed({"job.log": job + timeout(0), "a01/dmesg": log})
    assert verdict(analysis) == ("gpu-fault", (1,), ("a01",))


AMD = "[ 1843.305512] amdgpu 0000:83:00.0: "


def test_an_error_that_amd_did_not_correct_is_a_fault(analyzed):
    line = AMD + "{1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!\n"
    assert analyzed({"dmesg.txt": line}).ranked.verdict.slug == "gpu-fault"


def test_a_page_fault_of_amd_accuses_no_gpu_and_is_not_well(analyzed):
    line = AMD + "amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:8)\n"
    analysis = analyzed({"dmesg.txt": line})
    assert (analysis.ranked.outcome, analysis.ranked.verdict) == ("inconclusive", None)


@pytest.mark.parametrize(("met", "ranks"), [((1,), (1,)), ((0, 1), ()), ((), ())])
def test_the_only_rank_of_the_host_with_an_error_of_cuda_ran_on_that_gpu(
    analyzed, met, ranks
):
    lost = xid(79, HARDWARE[79], pci="0000:ba:00")
    raised = "".join(
        traceback(rank, "RuntimeError: CUDA error: unspecified launch failure")
        for rank in met
    )
    told = analyzed({"job.log": JOB + raised + timeout(0), "dmesg.log": lost})
    assert verdict(told) == ("gpu-fault", ranks, ("gpu0001",))


FIRMWARE = "NVRM: GPU1 _kgspBootGspRm: (the GPU is likely in a bad state and may need to be reset)"


def test_a_gpu_whose_firmware_hangs_is_a_fault_of_that_host(analyzed):
    log = kernel(FIRMWARE, "gpu0001", "10:04:00")
    analysis = analyzed({"job.log": JOB + timeout(0), "dmesg.log": log})
    assert verdict(analysis)[::2] == ("gpu-fault", ("gpu0001",))


def test_a_driver_that_cannot_start_a_gpu_alone_is_no_broken_gpu(analyzed):
    log = kernel(
        "NVRM: GPU 0000:9b:00.0: RmInitAdapter failed! (0x2)", "gpu0001", "10:04:00"
    )
    analysis = analyzed({"job.log": JOB + timeout(0), "dmesg.log": log})
    assert not found(analysis, "gpu-fault")


def test_a_driver_that_lost_a_gpu_says_so_in_its_own_code(analyzed):
    for said, fires in SAID.items():
        log = kernel(said, "gpu0001", "10:04:00")
        analysis = analyzed({"job.log": JOB + timeout(0), "dmesg.log": log})
        assert bool(found(analysis, "gpu-fault")) == fires, said


SAID = {
    "NVRM: nvAssertOkFailedNoLog: Assertion failed: GPU lost from the bus "
    "[NV_ERR_GPU_IS_LOST] (0x0000000F) returned from rmStatus @ a.c:1": True,
    "NVRM: GPU1 _issueRpcAndWait: rpcSendMessage failed with status 0x0000000f for fn "
    "76 sequence 3!": True,
    "NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required "
    "[NV_ERR_RESET_REQUIRED] (0x00000062) returned from status @ a.c:1": True,
    "NVRM: GPU1 _kgspLogRpcTimeout: ****** GSP Timeout ******": True,
    "nvidia 0000:55:00.0: Unable to change power state from D3cold to D0, device "
    "inaccessible": True,
    "amdgpu 0000:55:00.0: amdgpu: MES might be in unrecoverable state, issue a GPU "
    "reset": True,
    "amdgpu 0000:55:00.0: amdgpu: GPU mode2 reset failed": True,
    "amdgpu 0000:55:00.0: amdgpu: ASIC reset failed with error, -62 for drm dev, "
    "0000:55:00.0": True,
    "amdgpu 0000:55:00.0: amdgpu: GPU Recovery Failed: -110": True,
    "[drm] VRAM is lost due to GPU reset!": True,
    # a request that the driver refused, and a host that waits
    "NVRM: nvAssertOkFailedNoLog: Assertion failed: Invalid argument to call "
    "[NV_ERR_INVALID_ARGUMENT] (0x0000001F) returned from status @ a.c:1": False,
    "NVRM: GPU1 _kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs 8 "
    "heartbeat 0 heartbeatWithOffsetMs 8 diff 6 timeout 5200": False,
    "amdgpu 0000:55:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE": False,
    "amdgpu 0000:55:00.0: amdgpu: GPU recovery disabled.": False,
}


@pytest.mark.parametrize(
    ("line", "sure"),
    [
        ("pynvml.NVMLError_GpuIsLost: GPU is lost", "certain"),
        ("nvidia-container-cli: detection error: nvml error: gpu is lost", "certain"),
        ("pynvml.NVMLError_ResetRequired: GPU requires reset", "likely"),
        ("'nvidia.com/gpu' device marked unhealthy: GPU-6a1f", "likely"),
        ("Detected 2 volatile double-bit ECC error(s) in GPU 3.", "possible"),
        ("GPU 1's NvLink link 4 is currently down", "possible"),
        ("'nvidia.com/gpu' device marked healthy: GPU-6a1f", None),
        ("GPU 3 had memory errors and row remappings are pending", None),
    ],
)
def test_what_tools_say_of_a_broken_gpu_is_known(analyzed, line, sure):
    told = [f for _, f in found(analyzed({"tool.log": line + "\n"}), "gpu-fault")]
    assert [f.confidence for f in told] == ([sure] if sure else [])


def test_a_container_that_gets_no_gpu_is_not_well(analyzed):
    line = "nvidia-container-cli: device error: 3: unknown device: unknown.\n"
    assert analyzed({"docker.log": line}).ranked.outcome == "inconclusive"
    line = "Failed to initialize NVML: Unknown Error\n"
    assert analyzed({"smi.log": line}).ranked.outcome == "inconclusive"


LINK_ERROR = "CUDA error: uncorrectable NVLink error detected during the execution"


def test_an_error_of_a_link_is_of_the_one_rank_that_met_it_or_of_nobody(analyzed):
    one = analyzed({"job.log": JOB + traceback(1, f"RuntimeError: {LINK_ERROR}")})
    assert verdict(one) == ("gpu-fault", (1,), ("gpu0001",))
    assert one.ranked.verdict.confidence == "likely"
    both = "".join(traceback(r, f"RuntimeError: {LINK_ERROR}") for r in (0, 1))
    assert verdict(analyzed({"job.log": JOB + both}))[:2] == ("gpu-fault", ())


def test_what_a_gpu_contained_may_be_of_a_peer(analyzed):
    line = (
        "E1120 10:00:00.511000 7301 cuda_event.cc:29] failed to query event: "
        "CUDA_ERROR_CONTAINED: Invalid access of peer GPU memory over nvlink or a "
        "hardware error\n"
    )
    found_ = analyzed({"job.log": line}).ranked.verdict
    assert (found_.slug, found_.confidence, found_.ranks) == (
        "gpu-fault",
        "possible",
        (),
    )


WATCHED = '"isFatal":true,"message":"{}","recommendedAction":15,"nodeName":"gpu0001"\n'


def test_an_xid_of_dcgms_health_watch_counts_as_the_kernels(analyzed):
    for said in ("GPU had an uncontained error (XID 95)", "Detected XID 79 for GPU 3"):
        told = analyzed({"health.log": WATCHED.format(said)})
        assert verdict(told) == ("gpu-fault", (), ("gpu0001",))
    soft = analyzed({"health.log": WATCHED.format("Detected XID 13 for GPU 3")})
    assert not found(soft, "gpu-fault")


def test_the_kernel_log_of_a_node_that_srun_names_is_that_nodes(analyzed):
    """Its lines tell no host, and its name is one that could be a label."""
    raised = traceback(3, "torch.AcceleratorError: CUDA error: unspecified failure")
    told = "".join(f"3: {line}" for line in raised.splitlines(keepends=True))
    told += "srun: error: node-1: task 3: Exited with exit code 1\n"
    log = "[Tue Feb 24 04:54:43 2026] NVRM: Xid (PCI:0000:5d:00): 79, pid=41276, "
    texts = {"slurm-88.out": told, "dmesg_node-1.txt": log + "name=python\n"}
    assert verdict(analyzed(texts)) == ("gpu-fault", (3,), ("node-1",))
