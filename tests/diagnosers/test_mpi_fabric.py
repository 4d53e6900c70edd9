"""What MPI and UCX print of their network: a host that reports, and no rank of it."""

import pytest

from log_lines import verdict

ABORT = (
    "MPICH ERROR [Rank 25] [job id 50917.0] [Fri Nov 20 12:00:00 2026] [gpu0001] - "
    "Abort(70891919) (rank 25 in comm 0): Fatal error in PMPI_Recv: Other MPI error, "
    "error stack:\nPMPI_Recv(353).........: \n"
)
OFI = (
    "MPIDI_OFI_handle_cq_error(1059): OFI poll failed "
    "(ofi_events.c:1061:MPIDI_OFI_handle_cq_error:Input/output error - {})\n"
)
UCX = (
    "[gpu{}:41011:0:41011] ib_mlx5_log.c:179  Transport retry count exceeded on "
    "mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)\n"
)
UCX_OLD = (
    "[gpu0001:6807 :0:6807] ib_mlx5_log.c:115  FATAL: Error on mlx5_3:1 QP 0xe6d7 "
    "wqe[7821]: Transport retry count exceeded (synd 0x15 vend 0x81) opcode SEND\n"
)
VERBS = (
    "[1787220000.912881] [gpu0001:6807 :0]    rc_verbs_iface.c:63   UCX  ERROR send "
    "completion with error: {} qpn 0x2b wrid 0x3 vendor_err 0x81\n"
)
INTERNAL = "MPICH ERROR [Rank 1] [job id 7.7] [Fri Nov 20 12:00:00 2026] [gpu0001] - Abort(1): Internal error\n"


@pytest.mark.parametrize(
    "text",
    [
        ABORT + OFI.format("local protection error"),
        UCX.format("0001"),
        UCX.format("0001").removeprefix("["),
        UCX_OLD,
        VERBS.format("transport retry counter exceeded"),
        "[1787220000.91] [gpu0001:7:0] ib_device.c:481  UCX  ERROR IB Async event on "
        "mlx5_0: port error on port 1\n",
        "[1787220000.91] [gpu0001:7:0] ib_mlx5_dv.c:452  UCX  ERROR   "
        "mlx5dv_devx_obj_create(CQ) failed on mlx5_1, syndrome 0x2a: Remote I/O error\n",
        "mlx5: gpu0001: got completion with error:\n" + ABORT + OFI.format("x"),
    ],
)
def test_the_host_that_reports_is_named_and_no_rank(analyzed, text):
    analysis = analyzed({"job.log": text})
    assert verdict(analysis)[:3] == ("ib-error", (), ("gpu0001",))


def test_a_rank_that_died_where_a_host_reports_is_not_to_blame(analyzed):
    died = (
        "mpirun noticed that process rank 0 with PID 41011 on node gpu0001 exited on "
        "signal 6 (Aborted).\n"
    )
    analysis = analyzed({"job.log": UCX.format("0001") + died})
    assert verdict(analysis)[:3] == ("ib-error", (), ("gpu0001",))


def test_of_several_hosts_that_report_none_is_named(analyzed):
    analysis = analyzed({"job.log": UCX.format("0001") + UCX.format("0002")})
    assert verdict(analysis)[:3] == ("ib-error", (), ())


def test_an_abort_for_another_reason_is_no_network_error(analyzed):
    analysis = analyzed({"job.log": ABORT})
    assert (analysis.ranked.outcome, analysis.ranked.verdict) == ("inconclusive", None)


def test_an_internal_error_is_of_the_rank_itself(analyzed):
    analysis = analyzed({"job.log": INTERNAL})
    assert verdict(analysis)[:3] == ("crashed-rank", (1,), ("gpu0001",))


def test_an_address_of_docker_is_everybody_s(analyzed):
    line = (
        "[gpu0001][[38971,1],2][btl_tcp_endpoint.c:796:"
        "mca_btl_tcp_endpoint_complete_connect] connect() to {} failed: Connection "
        "refused (111)\n"
    )
    analysis = analyzed({"job.log": line.format("172.17.0.1")})
    assert verdict(analysis)[:3] == ("wrong-nic", (), ())
    other = analyzed({"job.log": line.format("10.0.0.7")})
    assert other.ranked.verdict is None or other.ranked.verdict.slug != "wrong-nic"


@pytest.mark.parametrize(
    "text",
    [
        VERBS.format("none"),
        "[gpu0001:7:0:7] ib_mlx5_log.c:143  DCI QP 0x14e4 wqe[0]: SEND s-e [inl len 18]\n",
        "[1787220000.91] [gpu0001:7:0] ib_device.c:481  UCX  WARN  IB Async event on "
        "mlx5_0: client reregistration on port 1\n",
    ],
)
def test_what_ucx_tells_beside_is_no_network_error(analyzed, text):
    assert analyzed({"job.log": text}).ranked.verdict is None


@pytest.mark.parametrize(
    ("error", "slug"),
    [("No route to host", "unreachable-peer"), ("Connection refused", "socket-error")],
)
def test_an_address_that_ucx_cannot_connect_to_tells_why(analyzed, error, slug):
    line = (
        "[1787220000.475958] [gpu0002:5215 :0]            sock.c:325  UCX  ERROR   "
        f"connect(fd=40, dest_addr=10.20.0.11:40703) failed: {error}\n"
    )
    assert analyzed({"job.log": line}).ranked.verdict.slug == slug
    other = line.replace("ERROR  ", "DEBUG").replace("failed: ", "")
    assert analyzed({"job.log": other}).ranked.verdict is None


CONNECT = (
    "WARNING: Open MPI failed to TCP connect to a peer MPI process.  This\n"
    "should not happen.\n\n  Local host: gpu0001\n  PID:        41011\n"
    "  Message:    connect() to {}:1024 failed\n  Error:      {}\n"
)


@pytest.mark.parametrize(
    ("peer", "error", "slug"),
    [
        ("10.20.0.12", "No route to host (113)", "unreachable-peer"),
        ("172.17.0.1", "Connection refused (111)", "wrong-nic"),
        ("10.20.0.12", "Operation now in progress (115)", "unreachable-peer"),
    ],
)
def test_the_address_that_open_mpi_tried_tells_the_class(analyzed, peer, error, slug):
    assert verdict(analyzed({"job.log": CONNECT.format(peer, error)}))[0] == slug


def test_a_peer_that_refuses_may_only_be_late(analyzed):
    late = CONNECT.format("10.20.0.12", "Connection refused (111)")
    assert verdict(analyzed({"job.log": late})) in ("inconclusive", "no-failure")


CALLED = "MPI_ABORT was invoked on rank {} in communicator MPI_COMM_WORLD\n"
ENDS = (
    CALLED.format(3) + "with errorcode 1.\n",
    "Abort(1) on node 3 (rank 3 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, "
    "1) - process 3\n",
    "mpirun has exited due to process rank 3 with PID 41011 on\nnode gpu0001 exiting "
    "improperly. There are three reasons this could occur:\n",
    "[gpu0001:mpispawn_0][child_handler] MPI process (rank: 3, pid: 41011) terminated "
    "with signal 11 -> abort job\n",
    "_pmiu_daemon(SIGCHLD): [NID 01234] [c6-0c1s4n2] [Fri Nov 20 12:00:00 2026] PE RANK "
    "3 exit signal Segmentation fault\n",
)


@pytest.mark.parametrize("text", ENDS)
def test_the_rank_that_ended_the_job_is_named(analyzed, text):
    assert verdict(analyzed({"job.log": text}))[:2] == ("crashed-rank", (3,))


@pytest.mark.parametrize(
    "text",
    [
        CALLED.format(3) + CALLED.format(1),
        # its own Horovod says that it had lost a peer
        "[1,3]<stderr>:[2026-11-20 12:00:00.555830: E /src/horovod/common/operations.cc:"
        "548] Horovod background loop uncaught exception: Connection reset by peer\n"
        + CALLED.format(3),
        "MPI_ABORT was invoked on rank 0 in communicator MPI COMMUNICATOR 4 SPLIT FROM 0\n",
    ],
)
def test_who_aborts_after_another_or_as_one_of_several_is_not_named(analyzed, text):
    top = analyzed({"job.log": text}).ranked.verdict
    assert top is None or not top.ranks


@pytest.mark.parametrize(
    ("reason", "told"),
    [("Segmentation fault (signal 11)", True), ("Interrupt (signal 2)", False)],
)
def test_only_a_fault_that_hydra_reports_is_a_crash(analyzed, reason, told):
    text = f"YOUR APPLICATION TERMINATED WITH THE EXIT STRING: {reason}\n"
    found = analyzed({"job.log": text}).ranked.findings
    assert ("crashed-rank" in [f.slug for _, f in found]) == told


def test_a_daemon_that_never_reported_back_was_not_started(analyzed):
    line = "An ORTE daemon has unexpectedly failed after launch and before\n"
    assert verdict(analyzed({"job.log": line}))[0] == "rendezvous-failed"


def test_a_call_of_mpi_that_fails_names_the_rank_that_reports_it(analyzed):
    text = (
        "[gpu0001:14820] *** An error occurred in MPI_Comm_rank\n"
        "[gpu0001:14820] *** reported by process [2917433345,21]\n"
        "[gpu0001:14820] *** MPI_ERR_COMM: invalid communicator\n"
    )
    told = verdict(analyzed({"job.log": text}))
    assert told == ("crashed-rank", (21,), ("gpu0001",))
