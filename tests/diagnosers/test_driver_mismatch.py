"""driver-mismatch names the hosts whose driver CUDA refuses."""

import pytest

from nccl_lines import found, info, init, warn

SLUG = "driver-mismatch"
OLD = "Cuda failure 'CUDA driver version is insufficient for CUDA runtime version'"
LINES = [
    warn("gpu2", OLD),
    warn("gpu2", OLD.replace("failure", "failure 35"), at="10:00:00"),
    warn(
        "gpu2",
        "Cuda failure 803 'system has unsupported display driver / cuda driver "
        "combination'",
    ),
    "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). "
    "Please update your GPU driver by downloading and installing a new version\n",
    "RuntimeError: Found no NVIDIA driver on your system. Please check that you have "
    "an "
    "NVIDIA GPU and installed a driver\n",
    "RuntimeError: CUDA error: forward compatibility was attempted on non supported "
    "HW\n",
    "Failed to initialize NVML: Driver/library version mismatch\n",
    "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). "
    "Error 803: system has unsupported display driver / cuda driver combination\n",
    "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 804: forward "
    "compatibility was attempted on non supported HW\n",
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make "
    "sure that the latest NVIDIA driver is installed and running.\n",
    "NVRM: this kernel module has the version 550.54.15.  Please\n",
    "nvidia-container-cli: initialization error: load library failed: "
    "libnvidia-ml.so.1: cannot open shared object file\n",
    "RuntimeError: CUDA error: the provided PTX was compiled with an unsupported "
    "toolchain.\n",
    warn("gpu2", "Cuda failure 34 'CUDA driver is a stub library'"),
    warn(
        "gpu2", "Cuda failure 'API call is not supported in the installed CUDA driver'"
    ),
    warn("gpu2", "CUDA Driver version found is 10020. Minimum requirement is 11000"),
]


@pytest.mark.parametrize("line", LINES)
def test_the_host_that_says_so_is_named(analyzed, line):
    files = {"gpu2/rank_3.log": line, "gpu1/rank_0.log": init("gpu1", 0, 4, "START")}
    analysis = analyzed(files)
    (finding,) = found(analysis, SLUG)
    assert finding.ranks == (3,)
    assert set(finding.hosts) <= {"gpu2"}
    assert analysis.ranked.verdict is finding


@pytest.mark.parametrize(
    "line",
    [
        warn("gpu2", "Cuda failure 'out of memory'"),
        warn("gpu2", "Cuda failure 802 'system not yet initialized'"),
        info("gpu2", f"misc/cudawrap.cc:99 {OLD}"),
        "/x/torch/cuda/__init__.py:129: UserWarning: CUDA initialization: Found no "
        "NVIDIA "
        "driver on your system. Please check that you have an NVIDIA GPU\n",
        info("gpu2", "cudaDriverVersion 12080"),
    ],
)
def test_other_failures_and_warnings_are_silent(analyzed, line):
    assert not found(analyzed({"rank_3.log": line}), SLUG)


def test_nccl_that_cannot_use_nvml_names_the_host_for_this_reason_only(analyzed):
    line = "gpu0002:7:7 [0] NCCL WARN nvmlInit_v2() failed: {}\n"
    log = line.format("Driver/library version mismatch")
    top = analyzed({"job.log": log}).ranked.verdict
    assert (top.slug, top.hosts) == ("driver-mismatch", ("gpu0002",))
    assert analyzed({"job.log": line.format("Not Found")}).ranked.verdict is None


SMI = (
    "root@gpu0003:/workspace# nvidia-smi\n"
    "|   0  NVIDIA H100 80GB HBM3          On |   00000000:13:00.0 Off |         Off |\n"
)


@pytest.mark.parametrize(
    "line",
    [
        "Did you run some cuda functions? Error 803: system has unsupported\n",
        "Error: CUDA error 803: system has unsupported display driver/cuda driver "
        "combination.\n",
        "cuInit err: 803\n",
    ],
)
def test_error_803_counts_by_its_number_on_the_host_of_its_file(analyzed, line):
    finding = analyzed({"post.md": line + SMI}).ranked.verdict
    assert (finding.slug, finding.hosts) == (SLUG, ("gpu0003",))
