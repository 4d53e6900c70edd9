"""ib-error names a device that reports itself, else what most failed pairs share."""

import pytest

from log_lines import init, kernel, timeout
from nccl_lines import found, info, using, warn

SLUG = "ib-error"
# NCCL 2.4, 2.10, 2.20, 2.22, 2.28.7 and 2.29
WORDINGS = [
    "NET/IB : Got completion from peer {}<4> with error 12, opcode 1, len 0, vendor "
    "err 129",
    "NET/IB : Got completion from peer {}<4> with error 12, opcode 32600, len 32600, "
    "vendor "
    "err 129 (Recv) localGid fd00::22 remoteGidsfd00::1f",
    "NET/IB : Got completion from peer {}<4> with status=12 opcode=32616 len=0 vendor "
    "err "
    "129 (Recv)",
    "NET/IB: Got completion from peer {}<4> with status=12 opcode=0 len=0 vendor err "
    "129 "
    "(Send) hca mlx5_4",
    "NET/IB: Got completion from peer {}<4> with status=IBV_WC_RETRY_EXC_ERR(12) "
    "opcode=IBV_WC_SEND(0) reqSize=0 vendor_err=129 req_type=Send hca mlx5_4",
    "NET/IB: Got completion from peer {}<4> with status=IBV_WC_RETRY_EXC_ERR(12) "
    "opcode=IBV_WC_SEND(0) vendor_err=129  localGid ::ffff:1.2.3.4 "
    "remoteGids::ffff:1.2.3.5 hca mlx5_4",
]
FLUSH = WORDINGS[3].replace("status=12", "status=5").replace("129", "249")
PORT = "NET/IB : mlx5_4:1 Got {}async {}: {}"


@pytest.mark.parametrize("wording", WORDINGS)
def test_of_one_pair_the_end_that_did_not_answer_is_named(analyzed, wording):
    line = warn("gpu1", wording.format("10.0.0.2"))
    (finding,) = found(analyzed({"a.log": line}), SLUG)
    assert (finding.hosts, finding.confidence) == (("10.0.0.2",), "likely")


def test_the_peer_that_several_share_is_named(analyzed):
    files = {
        f"r{r}.log": warn(f"gpu{r}", WORDINGS[3].format("10.0.0.9")) for r in (1, 2, 3)
    }
    files["r4.log"] = warn("gpu4", WORDINGS[3].format("10.0.0.1"))
    files["r9.log"] = using("gpu9", "10.0.0.9")
    (finding,) = found(analyzed(files), SLUG)
    assert finding.hosts == ("gpu9",)


def test_the_printer_with_many_peers_is_named(analyzed):
    lines = [WORDINGS[3].format(f"10.0.0.{n}") for n in (2, 3, 4)]
    (finding,) = found(analyzed({"rank_8.log": warn("gpu1", *lines)}), SLUG)
    assert finding.hosts == ("gpu1",)
    assert any("mlx5_4" in step and "gpu1" in step for step in finding.remedy)


def test_a_link_that_both_ends_report_names_both(analyzed):
    files = {
        "a.log": using("gpu1", "10.0.0.1")
        + warn("gpu1", WORDINGS[2].format("10.0.0.2")),
        "b.log": using("gpu2", "10.0.0.2")
        + warn("gpu2", WORDINGS[2].format("10.0.0.1")),
    }
    (finding,) = found(analyzed(files), SLUG)
    assert (finding.hosts, finding.confidence) == (("gpu1", "gpu2"), "possible")


def test_flushed_transfers_alone_accuse_nobody(analyzed):
    analysis = analyzed({"a.log": warn("gpu1", FLUSH.format("10.0.0.2"))})
    (finding,) = found(analysis, SLUG)
    assert (finding.ranks, finding.hosts) == ((), ())


OFI = "NET/OFI Request 0x7f00 completed with error. RC: 5. Error: unknown"


def test_where_no_line_names_a_peer_the_host_that_reports_is_named_as_such(analyzed):
    analysis = analyzed({"rank_8.log": warn("gpu1", OFI)})
    (finding,) = found(analysis, SLUG)
    assert (finding.ranks, finding.hosts, finding.reports) == ((), ("gpu1",), True)
    assert "as gpu1 reports" in finding.headline
    # the other end may be the broken one
    assert analysis.report.verdict.restart == "unknown"


def test_of_two_hosts_that_report_without_a_peer_none_is_named(analyzed):
    files = {f"{host}.log": warn(host, OFI) for host in ("gpu1", "gpu2")}
    (finding,) = found(analyzed(files), SLUG)
    assert finding.hosts == ()


def test_a_flush_beside_the_failure_that_brought_it_says_nothing(analyzed):
    both = warn("gpu1", FLUSH.format("10.0.0.3"), WORDINGS[0].format("10.0.0.2"))
    (finding,) = found(analyzed({"a.log": both}), SLUG)
    assert finding.hosts == ("10.0.0.2",)


@pytest.mark.parametrize(
    "event",
    [
        "NET/IB : Got async event : port error",
        PORT.format("", "event ", "port error"),
        PORT.format("", "error event", "port error"),
        PORT.format("non-fatal ", "event", "port error(10)"),
        "NET/IB : mlx5_4:1 async fatal event on QP (0x7f00): local work queue "
        "catastrophic "
        "error",
    ],
)
def test_a_port_that_reports_itself_names_its_host(analyzed, event):
    files = {
        "rank_5.log": warn("gpu2", event),
        "rank_1.log": warn("gpu1", WORDINGS[3].format("10.0.0.7")),
    }
    (finding,) = found(analyzed(files), SLUG)
    assert (finding.hosts, finding.ranks) == (("gpu2",), (5,))
    assert finding.confidence == "certain"


def test_a_flap_that_no_transfer_noticed_and_recoveries_are_nothing(analyzed):
    flap = [PORT.format("", "error event", e) for e in ("port error", "port active")]
    assert not found(analyzed({"a.log": warn("gpu1", *flap)}), SLUG)
    healthy = [
        PORT.format("", "error event", e)
        for e in ("port active", "client reregistration", "SM change", "LID change")
    ]
    analysis = analyzed({"a.log": warn("gpu1", *healthy)})
    assert not found(analysis, SLUG)
    assert analysis.ranked.outcome == "no-failure"


MODIFY = [
    "Call to ibv_modify_qp failed with error Connection timed out errno 110",
    "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_1:1, curr "
    "state INIT, next state RTR, local GID index 3, local GID ::ffff:10.0.0.1, remote "
    "GID "
    "::ffff:10.0.0.2",
]


@pytest.mark.parametrize("wording", MODIFY)
def test_a_queue_pair_that_cannot_be_connected_fires_and_tells_the_gid(
    analyzed, wording
):
    (finding,) = found(analyzed({"a.log": warn("gpu1", wording)}), SLUG)
    assert any("NCCL_IB_GID_INDEX" in step for step in finding.remedy)


def test_a_retry_of_it_is_no_failure(analyzed):
    line = info("gpu1", MODIFY[1] + ", retrying 2/34 after 100 msec of sleep")
    analysis = analyzed({"a.log": line})
    assert not found(analysis, SLUG)
    assert analysis.ranked.outcome == "no-failure"


CRASH = (
    'Traceback (most recent call last):\n  File "train.py", line 3, in step\n'
    "ValueError: batch is empty\n"
)


def test_transfers_fail_after_a_rank_died(analyzed):
    files = {
        "rank_2.log": CRASH,
        "rank_1.log": warn("gpu1", WORDINGS[3].format("10.0.0.2")),
    }
    analysis = analyzed(files)
    assert analysis.ranked.verdict.slug == "crashed-rank"
    assert not [
        f for r, f in analysis.ranked.findings if f.slug == SLUG and r == "root"
    ]


@pytest.mark.parametrize(("code", "cause"), [(-6, SLUG), (-9, "crashed-rank")])
def test_an_abort_follows_from_it_and_a_kill_brings_it_about(analyzed, code, cause):
    agent = (
        "E1120 10:00:00.000000 4100 torch/distributed/elastic/multiprocessing/a.py:9] "
        f"failed (exitcode: {code}) local_rank: 1 (pid: 41010) of binary: /bin/python\n"
    )
    files = {
        "rank_0.log": warn("gpu1", WORDINGS[3].format("10.0.0.2")),
        "torchrun.log": agent,
    }
    assert analyzed(files).ranked.verdict.slug == cause


def test_a_kernel_that_saw_the_link_go_down_names_its_host(analyzed):
    files = {
        "dmesg-gpu0002.log": "[ 1843.305512] mlx5_core 0000:18:00.0 ib0: Link down\n",
        "rank_1.log": warn("gpu0001", WORDINGS[3].format("10.0.0.2")),
    }
    (finding,) = found(analyzed(files), SLUG)
    assert finding.hosts == ("gpu0002",)


SICK = (
    "NETDEV WATCHDOG: eth0 (ice): transmit queue 3 timed out 5120 ms",
    "mlx5_core 0000:18:00.0: mlx5_pci_err_detected was called",
)


@pytest.mark.parametrize("text", SICK)
def test_a_card_that_fails_by_its_kernel_names_its_host_at_that_time(analyzed, text):
    job = init(0, 2) + init(1, 2, "gpu0002") + timeout(0)
    files = {"job.log": job, "dmesg-gpu0002.log": kernel(text, "gpu0002")}
    (finding,) = found(analyzed(files), SLUG)
    assert finding.hosts == ("gpu0002",)
    files["dmesg-gpu0002.log"] = kernel(text, "gpu0002").replace("Aug 20", "Aug 2")
    assert not found(analyzed(files), SLUG)


def test_where_no_line_names_the_host_that_is_said(analyzed):
    (finding,) = found(analyzed({"dmesg.txt": f"[ 1843.305512] {SICK[1]}\n"}), SLUG)
    assert finding.hosts == ()
    assert "a host that the lines do not name" in finding.explanation


def test_of_queue_pairs_the_shared_gid_is_named_and_of_one_pair_nobody(analyzed):
    files = {"a.log": warn("gpu1", MODIFY[1])}
    (finding,) = found(analyzed(files), SLUG)
    assert finding.hosts == ()
    files["b.log"] = warn(
        "gpu3", MODIFY[1].replace("GID ::ffff:10.0.0.1", "GID ::ffff:1")
    )
    (finding,) = found(analyzed(files), SLUG)
    assert finding.hosts == ("10.0.0.2",)


def test_a_queue_pair_that_names_no_peer_accuses_no_rank(analyzed):
    text = "Call to ibv_modify_qp failed with error Network is unreachable"
    analysis = analyzed({"a.log": warn("gpu1", text)})
    (finding,) = found(analysis, SLUG)
    assert (finding.ranks, finding.hosts, finding.reports) == ((), ("gpu1",), True)
    assert analysis.ranked.outcome == "failure"


def test_before_2_19_the_reason_tells_whose_set_up_it_is(analyzed):
    text = "Call to ibv_modify_qp failed with error Invalid argument"
    (finding,) = found(analyzed({"a.log": warn("gpu1", text)}), SLUG)
    assert finding.hosts == ("gpu1",)


SLICE = (
    "E1120 02:57:10.528410  5811 worker_pool.cpp:274] Worker: Process failed for slice "
    "(opcode: 1, source_addr: 0x7efd, length: 404, dest_addr: 1405, local_nic: mlx5_1, "
    "peer_nic: 10.0.0.12:8149@mlx5_0, dest_rkey: 21, retry_cnt: 0): {}\n"
)


def test_a_flushed_request_of_mooncake_says_nothing(analyzed):
    log = SLICE.format("Work Request Flushed Error")
    assert not found(analyzed({"a.log": log}), SLUG)


@pytest.mark.parametrize(
    ("line", "card", "hosts"),
    [
        (
            "[gpu1:31180:0:31180] ib_mlx5_log.c:143  Transport retry count exceeded on "
            "mlx5_0:1/RoCE (synd 0x15 vend 0x81 hw_synd 0/0)\n",
            "mlx5_0",
            ("gpu1",),
        ),
        (
            "CQE ERROR wr_id=3 status=12(transport retry counter exceeded) opcode=1\n",
            "ibstat",
            (),
        ),
        (" Failed status 12: wr_id 0 syndrom 0x81\nscnt=128, ccnt=0\n", "ibstat", ()),
        ("  what():  a work item failed: status 12 (Ib failure: X)\n", "ibstat", ()),
        (
            "/opt/ibrc/ibrc.cpp:417: non-zero status: 110 ibv_modify_qp failed \n",
            "show_gids",
            (),
        ),
        (
            "/opt/ibrc/ibrc.cpp:523: error status: 7 (NVSHMEMX_ERROR_INTERNAL) IBRC QP "
            "modify INIT->RTR failed: pe 12 device mlx5_3 devid 3 port 1\n",
            "mlx5_3",
            (),
        ),
        (SLICE.format("transport retry counter exceeded"), "ibstat", ("10.0.0.12",)),
    ],
)
def test_other_users_of_the_cards_are_read_too(analyzed, line, card, hosts):
    (finding,) = found(analyzed({"a.log": line}), SLUG)
    assert (finding.ranks, finding.hosts) == ((), hosts)
    assert any(card in step for step in finding.remedy)


def test_a_completion_is_read_though_its_end_was_cut_off(analyzed):
    cut = "NET/IB : Got completion from peer 10.0.0.3<4000> with error 12, opcode 2"
    (finding,) = found(analyzed({"a.log": warn("gpu1", cut)}), SLUG)
    assert finding.hosts == ("10.0.0.3",)


def test_an_invalid_gid_is_the_printers_own(analyzed):
    text = MODIFY[1].replace("110 Connection timed out", "22 Invalid argument")
    (finding,) = found(analyzed({"a.log": warn("gpu1", text)}), SLUG)
    assert finding.hosts == ("gpu1",)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "NET/IB: mlx5_0: Maximum number of probing attempts (3) reached for request "
            "0x7f (id=1). Cannot post another probe.",
            True,
        ),
        # NCCL tries its other devices then
        ("NET/IB: mlx5_0: Got CQE with error (devIndex=1, req=0x7, wr_id=1)", False),
    ],
)
def test_a_connection_without_a_device_left_has_failed(analyzed, text, told):
    analysis = analyzed({"a.log": warn("gpu0001", text)})
    assert bool(found(analysis, "ib-error")) is told


def test_the_ranks_of_the_host_whose_own_transfers_failed_are_named(analyzed):
    files = {
        f"rank_{r}.log": warn(f"gpu{r}", WORDINGS[3].format("10.0.0.9"))
        for r in (1, 2, 3)
    }
    files["rank_9.log"] = using("gpu9", "10.0.0.9") + warn(
        "gpu9", WORDINGS[3].format("10.0.0.1")
    )
    (finding,) = found(analyzed(files), SLUG)
    assert (finding.hosts, finding.ranks) == (("gpu9",), (9,))


# rendered from the sources of infiniband-diags and rdma-core
IBSTAT = "CA 'mlx5_4'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: {}\n\t\tRate: 400\n"
DEVINFO = "hca_id:\tmlx5_4\n\ttransport:\t\tInfiniBand (0)\n\t\tport:\t1\n\t\t\tstate:\t\tPORT_{} (1)\n"


@pytest.mark.parametrize("form", [IBSTAT, DEVINFO], ids=["ibstat", "ibv_devinfo"])
@pytest.mark.parametrize(("state", "is_told"), [("Down", True), ("Active", False)])
def test_a_port_that_is_down_is_told_beside_the_failure(analyzed, form, state, is_told):
    ports = form.format(state.upper() if form is DEVINFO else state)
    files = {
        "a.log": warn("gpu1", WORDINGS[3].format("10.0.0.2")),
        "gpu0001/ports.txt": ports,
    }
    (finding,) = found(analyzed(files), SLUG)
    assert ("mlx5_4 on gpu0001: port 1 is DOWN" in finding.explanation) == is_told


def test_a_port_that_is_down_accuses_nobody(analyzed):
    assert not found(analyzed({"gpu0001/ports.txt": IBSTAT.format("Down")}), SLUG)


def test_the_address_that_all_hosts_but_one_report_is_that_ones_own(analyzed):
    files = {
        f"r{r}.log": warn(f"gpu{r}", WORDINGS[3].format("10.0.0.4")) for r in (1, 2, 3)
    }
    lost = [WORDINGS[3].format(f"10.0.0.{n}") for n in (1, 2, 3)]
    (finding,) = found(analyzed({**files, "r4.log": warn("gpu4", *lost)}), SLUG)
    assert finding.hosts == ("gpu4",)


def test_the_address_of_a_host_that_prints_nothing_is_nobody_elses(analyzed):
    files = {
        f"r{r}.log": warn(f"gpu{r}", WORDINGS[3].format("10.0.0.9")) for r in (1, 2, 3)
    }
    files["r4.log"] = warn("gpu4", WORDINGS[3].format("10.0.0.1"))
    (finding,) = found(analyzed(files), SLUG)
    assert finding.hosts == ("10.0.0.9",)


CXI = (
    "libfabric:4121:1787220000::cxi:ep_data:cxip_recv_cb():412<{level}> gpu0002: RXC "
    "(0x1234:12) PtlTE 27: {text}\n"
)


def test_slingshots_provider_names_the_host_that_reports(analyzed):
    failed = CXI.format(level="warn", text="Recv failed: Error UNDELIVERABLE")
    (finding,) = found(analyzed({"a.log": failed}), SLUG)
    assert (finding.hosts, finding.reports) == (("gpu0002",), True)
    told = CXI.format(level="info", text="Recv failed: Error UNDELIVERABLE")
    assert not found(analyzed({"a.log": told}), SLUG)


def test_a_fork_of_the_transport_under_its_own_name_is_read(analyzed):
    words = WORDINGS[2].replace("NET/IB", "NET/gIB").format("10.0.0.2")
    assert words.startswith("NET/gIB")
    (finding,) = found(analyzed({"a.log": warn("gpu0001", words)}), SLUG)
    assert finding.hosts == ("10.0.0.2",)
