"""unreachable-peer names what the failed connections share, and nobody on a guess."""

import pytest

from nccl_lines import found, info, init, using, warn

SLUG = "unreachable-peer"
# NCCL 2.4, 2.10, 2.16, 2.24, 2.27 and its poll, and a socket that gave up
WORDINGS = [
    "Connect to {}<4000> failed : No route to host",
    "Net : Connect to {}<4000> failed : Connection timed out",
    "socketStartConnect: Connect to {}<4000> failed : No route to host",
    "socketPollConnect: Connect to {}<4000> returned 113(No route to host) errno "
    "115(Operation now in progress)",
    "socketPollConnect: connect to {}<4000> returned Connection timed out, exceeded "
    "error retry count after 35 attempts",
]


@pytest.mark.parametrize("wording", WORDINGS)
def test_the_address_that_did_not_answer_is_named(analyzed, wording):
    (finding,) = found(
        analyzed({"a.log": warn("gpu1", wording.format("10.0.0.2"))}), SLUG
    )
    assert (finding.hosts, finding.ranks) == (("10.0.0.2",), ())
    assert any("10.0.0.2 4000" in step and "gpu1" in step for step in finding.remedy)


def test_the_address_is_named_as_the_host_that_bound_it(analyzed):
    files = {
        "rank_0.log": using("gpu1", "10.0.0.1")
        + warn("gpu1", WORDINGS[2].format("10.0.0.2")),
        "rank_1.log": using("gpu2", "10.0.0.2"),
    }
    (finding,) = found(analyzed(files), SLUG)
    assert finding.hosts == ("gpu2",)


def test_the_host_that_several_cannot_reach_is_named(analyzed):
    files = {
        f"rank_{r}.log": warn(f"gpu{r}", WORDINGS[0].format("10.0.0.9"))
        for r in (1, 2, 3)
    }
    files["rank_9.log"] = using("gpu9", "10.0.0.9") + warn(
        "gpu9", WORDINGS[0].format("10.0.0.1"), pid=9
    )
    (finding,) = found(analyzed(files), SLUG)
    assert finding.hosts == ("gpu9",)


def test_the_host_that_reaches_nobody_is_named_with_its_ranks(analyzed):
    files = {f"rank_{r}.log": using(f"gpu{r}", f"10.0.0.{r}") for r in (1, 2)}
    files["rank_3.log"] = warn(
        "gpu3", *(WORDINGS[0].format(f"10.0.0.{r}") for r in (1, 2))
    )
    (finding,) = found(analyzed(files), SLUG)
    assert (finding.hosts, finding.ranks) == (("gpu3",), (3,))


def test_an_address_that_is_not_said_accuses_nobody(analyzed):
    text = "Call to connect failed : Connection timed out"
    analysis = analyzed({"a.log": warn("gpu1", text)})
    (finding,) = found(analysis, SLUG)
    assert (finding.hosts, analysis.ranked.outcome) == ((), "failure")


def test_no_route_at_all_may_be_either_end(analyzed):
    line = warn(
        "gpu1",
        "socketStartConnect: Connect to 10.0.0.2<4000> failed : Network is unreachable",
    )
    (finding,) = found(analyzed({"a.log": line}), SLUG)
    assert finding.hosts == ()
    assert "10.0.0.2" in finding.headline


def retries(host, count, reason="No route to host"):
    return info(
        host,
        *(
            f"socketPollConnect: connect to 10.0.0.1<4000> returned {reason}, retrying "
            f"({n}/34) after sleep for {n}00 msec"
            for n in range(1, count + 1)
        ),
    )


def started(*hosts):
    return {
        f"rank_{r}.log": using(host, f"10.0.0.{r + 1}") + init(host, r, 3, "START")
        for r, host in enumerate(hosts)
    }


def test_retries_to_the_end_name_the_host_that_alone_does_not_reach_the_root(analyzed):
    files = started("gpu1", "gpu2", "gpu3")
    files["rank_2.log"] += retries("gpu3", 9)
    analysis = analyzed(files)
    (finding,) = found(analysis, SLUG)
    assert (finding.hosts, finding.ranks) == (("gpu3",), (2,))
    assert analysis.ranked.outcome == "failure"


def test_a_few_retries_or_retries_that_ended_well_are_nothing(analyzed):
    files = started("gpu1", "gpu2", "gpu3")
    files["rank_2.log"] += retries("gpu3", 3)
    assert not found(analyzed(files), SLUG)
    files["rank_2.log"] += retries("gpu3", 9) + init("gpu3", 2, 3)
    assert not found(analyzed(files), SLUG)


def test_a_late_root_refuses_and_is_reachable(analyzed):
    files = started("gpu1", "gpu2", "gpu3")
    files["rank_2.log"] += retries("gpu3", 9, "Connection refused")
    assert not found(analyzed(files), SLUG)
    refused = warn(
        "gpu3", "socketStartConnect: Connect to 10.0.0.1<4> failed : Connection refused"
    )
    assert not found(analyzed({"x.log": refused}), SLUG)


def test_a_host_that_bound_loopback_is_wrong_nic_and_this_its_echo(analyzed):
    files = {
        "rank_0.log": using("gpu1", "10.0.0.1"),
        "rank_1.log": using("gpu2", "127.0.0.1", "lo")
        + warn("gpu2", WORDINGS[0].format("10.0.0.1")),
    }
    roles = {f.slug: role for role, f in analyzed(files).ranked.findings}
    assert roles == {"wrong-nic": "root", SLUG: "echo"}


@pytest.mark.parametrize(("nranks", "hosts"), [(2, ("10.0.0.1",)), (8, ())])
def test_of_one_pair_among_hosts_that_are_not_shown_nobody_is_named(
    analyzed, nranks, hosts
):
    text = init("gpu3", 1, nranks, "START") + retries("gpu3", 9)
    (finding,) = found(analyzed({"rank_1.log": text}), SLUG)
    assert finding.hosts == hosts


EARLY = "Call to connect returned Connection timed out, retrying"


def test_tries_that_early_versions_do_not_count_last_two_minutes_each(analyzed):
    assert found(analyzed({"a.log": info("gpu1", EARLY, EARLY)}), SLUG)
    assert not found(analyzed({"a.log": info("gpu1", EARLY)}), SLUG)
    up = info("gpu1", EARLY, EARLY) + init("gpu1", 0, 2)
    assert not found(analyzed({"a.log": up}), SLUG)


@pytest.mark.parametrize(
    ("error", "slug", "hosts"),
    [
        ("Gloo connectFullMesh failed with [/x/gloo/pair.cc:144] no error", SLUG, ()),
        (
            "[/x/gloo/transport/tcp/pair.cc:799] connect [10.0.0.2]:1319: Connection "
            "timed out",
            SLUG,
            ("10.0.0.2",),
        ),
        (
            "[/x/gloo/transport/tcp/pair.cc:799] connect [10.0.0.2]:1319: Connection "
            "refused",
            "socket-error",
            (),
        ),
    ],
)
def test_gloo_that_connects_no_pair_is_no_crash_of_its_own(
    analyzed, error, slug, hosts
):
    ranked = analyzed({"job.log": f"RuntimeError: {error}\n"}).ranked
    assert (ranked.verdict.slug, ranked.verdict.hosts) == (slug, hosts)


def unwound(host, *frames, pid=7):
    return info(host, *(f"{frame} -> 2{tail}" for frame, tail in frames), pid=pid)


PENDING = " (Operation now in progress)"


def test_a_connect_given_up_in_the_bootstrap_never_came_about(analyzed):
    text = unwound(
        "gpu1",
        ("misc/socket.cc:505", PENDING),
        ("bootstrap.cc:275", ""),
        ("init.cc:9", ""),
    )
    (finding,) = found(analyzed({"a.log": text}), SLUG)
    assert (finding.hosts, finding.ranks) == ((), ())


@pytest.mark.parametrize(
    "text",
    [
        unwound(
            "gpu1", ("misc/socket.cc:505", PENDING), ("transport/net_socket.cc:9", "")
        ),
        unwound("gpu1", ("misc/socket.cc:47", ""), ("bootstrap.cc:275", "")),
        init("gpu1", 0, 2)
        + unwound("gpu1", ("misc/socket.cc:505", PENDING), ("bootstrap.cc:275", "")),
    ],
    ids=["later", "another error", "connected before"],
)
def test_other_unwinding_is_no_connect_in_the_bootstrap(analyzed, text):
    assert not found(analyzed({"a.log": text}), SLUG)


def test_gloos_timeout_to_an_address_is_nobody_answering(analyzed):
    text = (
        "RuntimeError: [/build/third_party/gloo/gloo/transport/tcp/pair.cc:611] "
        "Connect timeout [10.20.0.12]:41023\n"
    )
    (finding,) = found(analyzed({"a.log": text}), SLUG)
    assert "10.20.0.12" in finding.headline


DAEMON = (
    "A process or daemon was unable to complete a TCP connection\n"
    "to another process:\n  Local host:    gpu0002\n  Remote host:   {}\n"
    "This is usually caused by a firewall on the remote host.\n"
    "ORTE was unable to reliably start one or more daemons.\n"
)


def test_a_daemon_of_open_mpi_that_cannot_connect_is_why_none_started(analyzed):
    analysis = analyzed({"job.log": DAEMON.format("gpu0001")})
    assert analysis.ranked.verdict.slug == SLUG
    assert analysis.ranked.verdict.hosts == ("gpu0001",)
    echo = [f.slug for role, f in analysis.ranked.findings if role == "echo"]
    assert echo == ["rendezvous-failed"]


def test_a_daemon_that_did_not_start_for_another_reason_is_no_lost_connection(analyzed):
    text = DAEMON.format("gpu0001").partition("firewall on the remote host.\n")[2]
    analysis = analyzed({"job.log": text})
    assert analysis.ranked.verdict.slug == "rendezvous-failed"


def test_warnings_of_open_mpi_s_start_are_no_failure(analyzed):
    text = (
        "WARNING: An invalid value was given for btl_tcp_if_include.  This\n"
        "value will be ignored.\n\n  Local host: gpu0001\n  Value:      10.20.0.0/24\n"
        "  Message:    Did not find interface matching this subnet\n"
    )
    assert analyzed({"job.log": text}).report.outcome == "no-failure"
