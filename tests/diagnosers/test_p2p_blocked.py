"""p2p-blocked fires where direct access is refused, not where NCCL only probes."""

import pytest

from nccl_lines import found, info, warn

SLUG = "p2p-blocked"
PEER = "peer access is not supported between these two devices"
REFUSED = f"Cuda failure 217 '{PEER}'"
ACS = (
    "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl-\n"
)


@pytest.mark.parametrize(
    "text",
    [
        "P2P is disabled between NVLINK connected GPUs 1 and 0. This should not be the "
        "case "
        "given their connectivity, and is probably due to a hardware issue. If you "
        "still "
        "want to proceed, you can set NCCL_IGNORE_DISABLED_P2P=1.",
        REFUSED,
        "Cuda failure 'peer access is not supported between these two devices'",
        "cudaIpcGetMemHandle failed : invalid argument",
        "hipIpcGetMemHandle failed : invalid argument",
        "failed to open CUDA IPC handle : 217 peer access is not supported between "
        "these two devices",
        "failed to peer with device 3(=3e000): 711 peer mapping resources exhausted",
    ],
)
def test_the_host_that_prints_it_is_named(analyzed, text):
    (finding,) = found(analyzed({"rank_3.log": warn("gpu2", text)}), SLUG)
    assert (finding.hosts, finding.ranks) == (("gpu2",), (3,))


def test_a_kernel_that_copies_between_gpus_tells_it_as_well(analyzed):
    line = f"[rank3]: Failed: Cuda error /src/custom_all_reduce.cuh:307 '{PEER}'\n"
    (finding,) = found(analyzed({"a.log": line}), SLUG)
    assert finding.ranks == (3,)
    assert not found(analyzed({"a.log": line.replace("Failed: ", "probe: ")}), SLUG)


def test_a_program_of_its_own_may_print_cuda_s_text_or_the_error_s_name(analyzed):
    for words in (
        f"[ERROR] CUDA runtime error in cudaMemcpyPeer(a, 0, b, 1, n): {PEER} (ipc.cpp:9)",
        "RuntimeError: cudaErrorPeerAccessUnsupported in enable_peer_access()",
    ):
        (finding,) = found(analyzed({"rank_3.log": f"{words}\n"}), SLUG)
        assert (finding.ranks, finding.confidence) == ((3,), "likely")
    for words in (
        f"falls back to the host where {PEER}",
        "RuntimeError: peer access is already enabled",
        "except hip.hipErrorPeerAccessAlreadyEnabled:",
    ):
        assert not found(analyzed({"rank_3.log": f"{words}\n"}), SLUG)


@pytest.mark.parametrize(
    "line",
    [
        info("gpu2", "Could not enable P2P between dev 1(=f000) and dev 0(=7000)"),
        info("gpu2", f"transport/p2p.cc:120 {REFUSED}"),
        info("gpu2", REFUSED),
        info("gpu2", "NCCL_P2P_DISABLE set by environment to 1"),
    ],
)
def test_probes_of_a_healthy_job_are_silent(analyzed, line):
    analysis = analyzed({"rank_3.log": line})
    assert not found(analysis, SLUG)
    assert analysis.ranked.outcome == "no-failure"


def test_acs_alone_is_no_failure(analyzed):
    analysis = analyzed(
        {"lspci.txt": ACS, "rank_0.log": info("gpu1", "Using network IB")}
    )
    assert not found(analysis, SLUG)


IOMMU = (
    'gpu1:388:388 [0] init.cc:179 NCCL WARN Missing "iommu=pt" from kernel command '
    "line which can lead to system instablity or hang!\n"
)


@pytest.mark.parametrize(
    ("said", "fires"),
    [("The job hangs without NCCL_P2P_DISABLE=1\n", True), ("The job runs\n", False)],
)
def test_rccls_word_on_the_iommu_counts_where_somebody_says_that_it_hangs(
    analyzed, said, fires
):
    hits = found(analyzed({"post.txt": said + IOMMU}), SLUG)
    assert [(f.confidence, f.hosts) for f in hits] == (
        [("possible", ("gpu1",))] if fires else []
    )
