"""socket-error names the peer that everybody lost, unless the job was ending anyway."""

import pytest

from nccl_lines import found, info, init, using, warn

SLUG = "socket-error"
WORDINGS = [
    "Net : Connection closed by remote peer gpu3.example.org<4000>",
    "socketProgress: Connection closed by remote peer 10.0.0.3<4000>",
    "Net : Call to recv from 10.0.0.3<4000> failed : Connection reset by peer",
    "socketProgressOpt: Call to send to 10.0.0.3<4000> failed : Broken pipe",
    "ncclOsSocketProgressOpt: Call to recv from 10.0.0.3<4000> failed : Connection "
    "reset "
    "by peer",
    "socketPollConnect: connect to 10.0.0.3<4000> returned Connection refused, "
    "exceeded "
    "error retry count after 35 attempts",
]
TIMEOUT = (
    "[rank{0}]:[E1120 10:00:00.100000000 ProcessGroupNCCL.cpp:685] [Rank {0}] Watchdog "
    "caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, "
    "NumelIn=1, "
    "NumelOut=1, Timeout(ms)=600000) ran for 600010 milliseconds before timing out.\n"
)
NAMES = using("gpu3", "10.0.0.3", pid=33)


@pytest.mark.parametrize("wording", WORDINGS)
def test_the_host_that_several_lost_is_named(analyzed, wording):
    files = {f"rank_{r}.log": warn(f"gpu{r}", wording) for r in (1, 2)}
    analysis = analyzed({**files, "rank_3.log": NAMES})
    (finding,) = found(analysis, SLUG)
    assert (finding.hosts, finding.confidence) == (("gpu3",), "likely")
    assert analysis.ranked.outcome == "failure"
    assert any("gpu3" in step for step in finding.remedy)


def test_the_only_host_with_a_log_is_not_blamed_for_all_that_it_lost(analyzed):
    lost = "socketProgress: Connection closed by remote peer 10.0.0.{}<4000>"
    text = "".join(warn("gpu1", lost.format(peer)) for peer in (2, 3, 4))
    assert not [f for f in found(analyzed({"r1.log": text}), SLUG) if f.hosts]


def test_what_everybody_loses_afterwards_does_not_hide_who_fell_silent_first(analyzed):
    lost = "socketProgress: Connection closed by remote peer 10.0.0.{}<4000>"
    names = {f"r{r}.log": using(f"gpu{r}", f"10.0.0.{r}") for r in (1, 2, 3, 4)}
    pairs = [(2, 3), (4, 3), (1, 2), (1, 4)]  # a ring that lost gpu3
    for printer, peer in pairs:
        names[f"r{printer}.log"] += warn(f"gpu{printer}", lost.format(peer))
    (finding,) = found(analyzed(names), SLUG)
    assert finding.hosts == ("gpu3",)


def test_the_rank_is_named_where_all_others_lost_somebody(analyzed):
    files = {}
    for rank, host in enumerate(["gpu1", "gpu1", "gpu3", "gpu3"]):
        pid = 7 + rank
        files[f"n{rank}.log"] = using(host, f"10.0.0.{host[3]}", pid=pid)
        files[f"n{rank}.log"] += init(host, rank, 4, pid=pid)
    silent = dict(files)
    for rank in (0, 1, 2):
        host = "gpu1" if rank < 2 else "gpu3"
        files[f"n{rank}.log"] += warn(host, WORDINGS[1], pid=7 + rank)
    (finding,) = found(analyzed(files), SLUG)
    assert (finding.hosts, finding.ranks) == (("gpu3",), (3,))
    # logs that were cut off are silent too: then the host is all that is known
    silent["n0.log"] += warn("gpu1", WORDINGS[1], pid=7)
    (finding,) = found(analyzed(silent), SLUG)
    assert (finding.hosts, finding.ranks) == (("gpu3",), ())


def test_garbage_and_nobody_are_not_named(analyzed):
    data = b"\ngpu1:7:9 [0] misc/x.cc:7 NCCL WARN socketProgress: "
    data += b"Connection closed by remote"
    analysis = analyzed(
        {"a.log": data + b" peer \xef\xa3R<\xdf>\n" + data + b" peer <>\n"}
    )
    assert not found(analysis, SLUG)
    assert analysis.ranked.outcome == "inconclusive"


@pytest.mark.parametrize(
    "wording",
    [
        "Call to write failed : Connection reset by peer",
        "Call to recv failed : Connection reset by peer",
        "Call to connect timeout : Connection refused",
        "socketPollConnect: connect returned Connection refused, exceeded error retry "
        "count (35)",
    ],
)
def test_an_error_that_names_no_peer_accuses_nobody(analyzed, wording):
    analysis = analyzed({"a.log": warn("gpu1", wording)})
    (finding,) = found(analysis, SLUG)
    assert (finding.hosts, finding.ranks) == ((), ())
    assert analysis.ranked.outcome == "failure"


def test_two_hosts_that_lost_each_other_accuse_nobody(analyzed):
    files = {
        "a.log": using("gpu1", "10.0.0.1") + warn("gpu1", WORDINGS[1]),
        "b.log": NAMES
        + warn("gpu3", WORDINGS[1].replace("10.0.0.3", "10.0.0.1"), pid=33),
    }
    assert not found(analyzed(files), SLUG)


def test_after_a_timeout_everybody_loses_everybody(analyzed):
    after = {"rank_1.log": TIMEOUT.format(1) + warn("gpu1", WORDINGS[1])}
    assert not found(analyzed(after), SLUG)
    elsewhere = {
        "rank_1.log": warn("gpu1", WORDINGS[1]),
        "rank_2.log": TIMEOUT.format(2),
    }
    assert not found(analyzed(elsewhere), SLUG)


def test_a_loss_above_the_timeouts_stands(analyzed):
    before = {"rank_1.log": warn("gpu1", WORDINGS[1]) + TIMEOUT.format(1)}
    (finding,) = found(analyzed(before), SLUG)
    assert finding.hosts == ("10.0.0.3",)


def test_sockets_that_close_when_a_job_ends_are_no_failure(analyzed):
    files = {}
    for rank in (0, 1):
        host = f"gpu{rank}"
        files[f"rank_{rank}.log"] = (
            init(host, rank, 2)
            + warn(host, WORDINGS[0] if rank else "lib wrapper not initialized.")
            + info(
                host,
                f"comm 0x7f{rank} rank {rank} nranks 2 cudaDev 0 busId 7000 - "
                "Destroy COMPLETE",
            )
        )
    analysis = analyzed(files)
    assert not found(analysis, SLUG)
    assert analysis.ranked.outcome == "no-failure"


def test_an_exception_of_a_rank_explains_the_loss(analyzed):
    files = {f"rank_{r}.log": warn(f"gpu{r}", WORDINGS[1]) for r in (1, 2)}
    files["rank_3.log"] = (
        NAMES
        + 'Traceback (most recent call last):\n  File "train.py", line 3, in step\n'
        "ValueError: batch is empty\n"
    )
    analysis = analyzed(files)
    assert analysis.ranked.verdict.slug == "crashed-rank"
    assert analysis.ranked.verdict.ranks == (3,)


UNWIND = (
    "gpu{0}:4{0}:5{0} [0] NCCL INFO misc/{1}:505 -> {2}\n"
    "gpu{0}:4{0}:5{0} [0] NCCL INFO bootstrap.cc:275 -> {2}\n"
)


@pytest.mark.parametrize(
    ("place", "result", "slugs"),
    [
        ("socket.cc", 2, [SLUG]),  # an error of the system, in the socket's own code
        ("socket.cc", 6, []),  # the peer's
        ("strongstream.cc", 2, []),
    ],
)
def test_an_unwinding_from_the_socket_is_one_without_its_warning(
    analyzed, place, result, slugs
):
    log = "".join(UNWIND.format(r, place, result) for r in (1, 2))
    findings = found(analyzed({"job.log": log}), SLUG)
    assert [f.slug for f in findings] == slugs
    assert all(f.hosts == f.ranks == () for f in findings)


def test_an_unwinding_after_the_set_up_is_no_failed_connection(analyzed):
    log = init("gpu1", 0, 2, pid=41) + UNWIND.format(1, "socket.cc", 2)
    assert not found(analyzed({"job.log": log}), SLUG)


LAST_ERROR = (
    "[rank{0}]: torch.distributed.DistBackendError: NCCL error: remote process exited "
    "or there was a network error, NCCL version 2.21.5\n"
    "Last error:\n"
    "socketProgress: Connection closed by remote peer {1}<4000>\n"
)


@pytest.mark.parametrize(
    ("lost", "hosts"),
    [(("gpu3", "gpu3"), ("gpu3",)), (("gpu3", "gpu4"), ())],
)
def test_of_lines_without_a_header_one_peer_is_named_and_two_are_not(
    analyzed, lost, hosts
):
    log = "".join(LAST_ERROR.format(r, peer) for r, peer in enumerate(lost))
    (finding,) = found(analyzed({"job.log": log}), SLUG)
    assert (finding.hosts, finding.ranks) == (hosts, ())


def test_a_strangers_connection_alone_tells_neither_failure_nor_health(analyzed):
    log = warn("gpu1", "socketFinalizeAccept: wrong magic 74656d2f20544547 != 7970663b")
    assert analyzed({"job.log": log}).ranked.outcome == "inconclusive"


GLOO = (
    "Traceback (most recent call last):\n"
    '  File "/job/train.py", line 8, in step\n    dist.send(x, dst=0)\n'
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection "
    "closed by peer [10.0.0.9]:41000\n"
)


def test_a_closed_connection_alone_is_possible_and_names_nobody(analyzed):
    (finding,) = found(analyzed({"job.log": GLOO}), SLUG)
    assert (finding.hosts, finding.ranks) == ((), ())
    assert finding.confidence == "possible"


@pytest.mark.parametrize(
    "cause",
    [
        "[rank1]: ValueError: no such key\n",
        TIMEOUT.format(2),
        "Fatal Python error: Segmentation fault\n",
    ],
)
def test_a_closed_connection_beside_a_cause_is_no_finding(analyzed, cause):
    head = "[rank1]: Traceback (most recent call last):\n" if "Value" in cause else ""
    frame = '[rank1]:   File "/job/train.py", line 8, in step\n' if head else ""
    assert not found(analyzed({"job.log": head + frame + cause + GLOO}), SLUG)


@pytest.mark.parametrize("dots", ["...", "\u2026"])
def test_the_name_of_a_peer_whose_beginning_was_cut_off_is_not_empty(analyzed, dots):
    lost = f"socketProgress: Connection closed by remote peer {dots}zcn4.c.lab<4000>"
    (finding,) = found(analyzed({"rank_1.log": warn("gpu1", lost)}), SLUG)
    assert "" not in finding.hosts


def test_the_address_that_gloo_prints_is_told(analyzed):
    (finding,) = found(analyzed({"job.log": GLOO}), SLUG)
    assert "10.0.0.9" in finding.headline


BROKEN = (
    "[rank{}]: RuntimeError: [/x/gloo/gloo/transport/tcp/pair.cc:538] Read error "
    "[{}]:{}: Connection timed out\n"
)


@pytest.mark.parametrize("port", ["41000", "<port>"])
def test_the_one_peer_that_ranks_of_gloo_lost_is_told_and_nobody_is_named(
    analyzed, port
):
    logs = (BROKEN.format(r, "10.0.0.9", port) for r in (8, 9, 10))
    analysis = analyzed({"job.log": "".join(logs)})
    (finding,) = found(analysis, SLUG)
    assert "10.0.0.9" in finding.headline
    assert (finding.confidence, finding.ranks, finding.hosts) == ("possible", (), ())
    assert not found(analysis, "crashed-rank")


def test_of_several_peers_that_ranks_of_gloo_lost_none_is_told(analyzed):
    logs = (BROKEN.format(r, f"10.0.0.{r}", 41000) for r in (8, 9, 10))
    assert not found(analyzed({"job.log": "".join(logs)}), SLUG)


MPI_LOST = """\
An MPI communication peer process has unexpectedly disconnected.  This
usually indicates a failure in the peer process (e.g., a crash or
otherwise exiting without calling MPI_FINALIZE first).

  Local host: gpu0001
  Local PID:  41011
  Peer host:  {peer}
--------------------------------------------------------------------------
"""


def test_open_mpi_names_the_host_whose_process_is_gone(analyzed):
    top = analyzed({"job.log": MPI_LOST.format(peer="gpu0002")}).ranked.verdict
    assert (top.slug, top.hosts, top.confidence) == (SLUG, ("gpu0002",), "possible")


def test_a_process_that_open_mpi_saw_die_explains_its_lost_connection(analyzed):
    died = (
        "mpirun noticed that process rank 3 with PID 41011 on node gpu0002 exited on "
        "signal 11 (Segmentation fault).\n"
    )
    top = analyzed({"job.log": MPI_LOST.format(peer="gpu0002") + died}).ranked.verdict
    assert (top.slug, top.ranks) == ("crashed-rank", (3,))


@pytest.mark.parametrize(
    ("reason", "slug"),
    [("Connection refused", SLUG), ("No route to host", "unreachable-peer")],
)
def test_a_peer_in_a_line_without_its_header_is_possible(analyzed, reason, slug):
    log = f"socketPollConnect: connect to 10.0.0.9<42830> returned {reason}\n"
    top = analyzed({"issue.md": log}).ranked.verdict
    assert (top.slug, top.hosts, top.confidence) == (slug, ("10.0.0.9",), "possible")


def test_one_of_many_attempts_without_its_header_is_no_failure(analyzed):
    log = (
        "socketPollConnect: connect to 10.0.0.9<42830> returned Connection refused, "
        "retrying (1/34) after sleep for 100 msec\n"
    )
    assert analyzed({"issue.md": log}).ranked.verdict is None


CLOSED = "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Gone?\n"


@pytest.mark.parametrize(
    "lost",
    [
        "RuntimeError: Connection reset by peer\n",
        CLOSED,
        "nixl._bindings.nixlRemoteDisconnectError: NIXL_ERR_REMOTE_DISCONNECT\n",
        "RuntimeError: [/x/gloo/transport/tcp/pair.cc:143] Socket closed [10.0.0.9]:4\n",
        "terminate called after throwing an instance of 'gloo::IoException'\n  what():  "
        "[/x/gloo/transport/tcp/pair.cc:374] writev [10.0.0.9]:4: Connection reset by "
        "peer\n",
    ],
)
def test_an_exception_about_a_lost_connection_alone_is_possible(analyzed, lost):
    (finding,) = found(analyzed({"job.log": lost}), SLUG)
    assert (finding.hosts, finding.ranks) == ((), ())
    assert finding.confidence == "possible"


def test_a_lost_store_beside_a_cause_is_no_finding(analyzed):
    segfault = "Fatal Python error: Segmentation fault\n"
    assert not found(analyzed({"job.log": segfault + CLOSED}), SLUG)
