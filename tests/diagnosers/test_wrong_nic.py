"""wrong-nic fires on the host with the odd interface, and not where it is harmless."""

import pytest

VERSIONS = {"2.20": "Bootstrap : Using {}:{}<0>", "2.28": "Bootstrap: Using {}:{}<0>"}


def log(host, *lines, pid=100):
    return "".join(f"{host}:{pid}:{pid} [0] NCCL INFO {line}\n" for line in lines)


def using(host, interface, address, version="2.28"):
    return log(host, VERSIONS[version].format(interface, address))


def found(analysis):
    return [f for _, f in analysis.ranked.findings if f.slug == "wrong-nic"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "odd", ["docker0", "lo", "virbr0", "veth1a2b3c", "br-5f", "cni0"]
)
def test_the_host_that_bound_a_local_interface_is_named(analyzed, odd, version):
    (finding,) = found(
        analyzed(
            {
                "rank_0.log": using("gpu0001", "eth0", "10.0.0.1", version),
                "rank_1.log": using("gpu0002", odd, "172.17.0.1", version),
            }
        )
    )
    assert (finding.hosts, finding.ranks) == (("gpu0002",), (1,))
    assert finding.confidence == "certain"
    assert finding.evidence[0].source == "rank_1.log"


def test_one_host_may_use_any_interface(analyzed):
    files = {f"rank_{r}.log": using("gpu0001", "lo", "127.0.0.1") for r in range(4)}
    assert not found(analyzed(files))


def test_a_communicator_over_several_hosts_proves_the_choice_right(analyzed):
    def complete(host, rank):
        return log(
            host,
            f"ncclCommInitRank comm 0x{rank + 1} rank {rank} nranks 2 cudaDev 0 nvmlDev 0 "
            "busId 7000 commId 0xabc - Init COMPLETE",
        )

    files = {
        "rank_0.log": using("gpu0001", "br-lan", "10.0.0.1") + complete("gpu0001", 0),
        "rank_1.log": using("gpu0002", "br-lan", "10.0.0.2") + complete("gpu0002", 1),
    }
    analysis = analyzed(files)
    assert not found(analysis)
    assert analysis.ranked.outcome == "no-failure"


def test_other_names_for_one_network_are_fine(analyzed):
    analysis = analyzed(
        {
            "rank_0.log": using("gpu0001", "eth0", "10.0.0.1"),
            "rank_1.log": using("gpu0002", "eno1", "10.0.0.2"),
        }
    )
    assert not found(analysis)
    assert "wrong-nic" in [s.slug for s in analysis.ranked.ruled_out]


NONE_FOUND = "\ngpu0002:7:7 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found\n"


def test_no_interface_at_all_is_certain_and_quotes_the_setting(analyzed):
    env = log("gpu0002", "NCCL_SOCKET_IFNAME set by environment to ib0", pid=7)
    (finding,) = found(analyzed({"rank_1.log": env + NONE_FOUND}))
    assert (finding.hosts, finding.ranks) == (("gpu0002",), (1,))
    assert "NCCL_SOCKET_IFNAME=ib0" in finding.headline
    assert finding.evidence[0].line == 3


def test_the_host_without_ib_among_hosts_with_it_is_named_once_something_failed(
    analyzed,
):
    files = {
        f"rank_{r}.log": log(f"gpu000{r}", "Using network IB", pid=r) for r in range(3)
    }
    files["rank_3.log"] = log("gpu0003", "Using network Socket", pid=9)
    assert not found(analyzed(files))
    files["rank_3.log"] += (
        "\ngpu0003:9:9 [0] misc/socket.cc:5 NCCL WARN socketProgress: Connection closed "
        "by remote peer gpu0001<4000>\n"
    )
    (finding,) = found(analyzed(files))
    assert (finding.hosts, finding.confidence) == (("gpu0003",), "likely")


def test_nothing_to_see_is_not_checked(analyzed):
    analysis = analyzed({"rank_0.log": "step 1\nstep 2\n"})
    assert "wrong-nic" in [s.slug for s in analysis.ranked.not_checked]


@pytest.mark.parametrize(
    "text",
    [
        "ncclSocketInit: connecting to address  with family 59936 is neither AF_INET(2) "
        "nor AF_INET6(10)",
        "Socket creation failed : Address family not supported by protocol",
    ],
)
def test_no_address_to_bind_means_that_no_interface_was_left(analyzed, text):
    line = log("gpu1", f"misc/socket.cc:72 NCCL WARN {text}").replace(" NCCL INFO", "")
    (finding,) = found(analyzed({"a.log": line}))
    assert finding.hosts == ("gpu1",)


NO_SUBNET = (
    "gpu0001:100:100 [0] include/socket.h:197 NCCL WARN Net : No interface found in the "
    "same subnet as remote address 192.0.2.91<27030>\n"
)


def test_a_host_without_a_way_to_the_address_it_was_given_is_named(analyzed):
    log_ = NO_SUBNET + using("gpu0001", "eth0", "172.17.0.3")
    (finding,) = found(analyzed({"rank_1.log": log_}))
    assert (finding.hosts, finding.confidence) == (("gpu0001",), "likely")
    assert "192.0.2.91" in finding.headline


LAYERS = (
    "gpu0001:100:130 [0] transport/net_ib.cc:900 NCCL WARN NET/IB : Can't connect net "
    "devices with different link_layer. i=0 remMeta.ndevs=1 link_layer=1 "
    "rem_link_layer=2\n"
)


def complete(host, rank):
    return log(
        host,
        f"ncclCommInitRank comm 0x7f{rank} rank {rank} nranks 2 cudaDev 0 nvmlDev 0 "
        "busId 7000 commId 0xabc - Init COMPLETE",
    )


def test_ends_that_chose_cards_of_another_kind_name_neither(analyzed):
    (finding,) = found(analyzed({"a.log": LAYERS}))
    assert (finding.ranks, finding.hosts, finding.confidence) == ((), (), "likely")


def test_ends_that_found_a_way_in_spite_of_it_are_silent(analyzed):
    built = complete("gpu0001", 0) + complete("gpu0002", 1)
    assert not found(analyzed({"a.log": LAYERS + built}))


def test_a_log_of_another_host_is_no_second_host_of_a_job_that_was_built(
    analyzed, jobs
):
    at_home = jobs / "nccl-healthy-single-node-docker0" / "evidence" / "gpu0001"
    files = {f"gpu0001/{f.name}": f.read_text("utf-8") for f in at_home.iterdir()}
    stranger = jobs / "nccl-healthy-single-node" / "evidence/gpu0001/rank_0.log"
    text = stranger.read_text("utf-8").replace("gpu0001", "gpu0777")
    verdict = analyzed(files | {"other/nccl.log": text}).report.verdict
    assert verdict is None or verdict.slug != "wrong-nic"


# ethtool 6.1 of a veth; the speed of another card
ETHTOOL = "Settings for {}:\n\tSupported ports: [  ]\n\tSpeed: 1000Mb/s\n\tLink detected: yes\n"


def test_ethtool_of_the_named_host_is_told_and_accuses_nobody(analyzed):
    odd = {
        "rank_0.log": using("gpu0001", "eth0", "10.0.0.1"),
        "rank_1.log": using("gpu0002", "docker0", "172.17.0.1"),
    }
    looked = {f"gpu000{n}/ethtool.txt": ETHTOOL.format("eno1") for n in (1, 2)}
    (finding,) = found(analyzed(odd | looked))
    assert "eno1 of gpu0002 runs at 1000Mb/s" in finding.explanation
    assert "gpu0001 runs" not in finding.explanation


@pytest.mark.parametrize(
    ("setters", "hosts", "ranks"),
    [
        (("gpu0007",), ("gpu0007",), ()),
        (("gpu0007", "gpu0008"), (), (0,)),
        ((), (), (0,)),
    ],
)
def test_who_repeats_the_error_is_not_whose_setting_it_is(
    analyzed, setters, hosts, ranks
):
    files = {
        f"{host}.log": log(host, "NCCL_SOCKET_IFNAME set by environment to eth9")
        for host in setters
    }
    files["job.log"] = (
        "[rank0]:ncclInternalError: Internal check failed.\n[rank0]:Last error:\n"
        "[rank0]:ncclSocketInit: connecting to address  with family 51022 is neither "
        "AF_INET(2) nor AF_INET6(10)\n"
    )
    (finding,) = found(analyzed(files))
    assert (finding.hosts, finding.ranks) == (hosts, ranks)


def early(host, *interfaces, pid=100):
    """The lines of NCCL up to 2.3: one for each interface."""
    return log(host, *(f"NET : Using interface {i}<0>" for i in interfaces), pid=pid)


REFUSED = (
    "\ngpu0002:7:7 [0] include/socket.h:361 NCCL WARN Call to connect timeout : "
    "Connection refused\n"
)


def test_loopback_before_the_others_serves_the_setup_of_old_releases(analyzed):
    there = log("gpu0001", "comm 0x7fd1e824c640 rank 0 nranks 2")
    wrong = early("gpu0002", "lo:127.0.0.1", "eth0:10.0.0.2", pid=7)
    analysis = analyzed({"job.log": there + wrong + REFUSED})
    assert analysis.ranked.verdict.slug == "wrong-nic"
    (finding,) = found(analysis)
    assert (finding.hosts, finding.confidence) == (("gpu0002",), "likely")


def test_loopback_after_the_others_is_only_one_more(analyzed):
    there = log("gpu0001", "comm 0x7fd1e824c640 rank 0 nranks 2")
    right = early("gpu0002", "eth0:10.0.0.2", "lo:127.0.0.1", pid=7)
    assert not found(analyzed({"job.log": there + right + REFUSED}))


@pytest.mark.parametrize("address", ["fe80::42:acff:fe11:2%ens5", "169.254.3.7"])
def test_a_link_local_address_is_possible_in_a_job_that_failed(analyzed, address):
    files = {
        "rank_0.log": using("gpu0001", "ens5", address),
        "rank_1.log": using("gpu0002", "ens5", address) + REFUSED,
    }
    (finding,) = found(analyzed(files))
    assert (finding.hosts, finding.confidence) == (("gpu0001", "gpu0002"), "possible")


def test_a_link_local_address_is_no_finding_where_nothing_failed(analyzed):
    address = "fe80::42:acff:fe11:2%ens5"
    files = {f"rank_{r}.log": using(f"gpu000{r}", "ens5", address) for r in (0, 1)}
    assert not found(analyzed(files))


def test_a_global_address_of_ipv6_is_none(analyzed):
    files = {
        f"rank_{r}.log": using(f"gpu000{r}", "ens5", f"2001:db8::{r}") for r in (0, 1)
    }
    files["rank_1.log"] += REFUSED
    assert not found(analyzed(files))


@pytest.mark.parametrize(
    ("text", "library"),
    [
        (
            "RuntimeError: [enforce fail at /x/gloo/transport/tcp/device.cc:80] rp != "
            "nullptr. Unable to find address for: ib0\n",
            "Gloo",
        ),
        (
            "2026:11:20-17:20:51:( 2399) |CCL_ERROR| internal_kvs.cpp:289 "
            "fill_local_host_ip: can't find interface  to get host IP\n",
            "oneCCL",
        ),
    ],
)
def test_no_interface_for_other_libraries_names_the_library(analyzed, text, library):
    (finding,) = found(analyzed({"job.log": text}))
    assert (finding.hosts, library in finding.explanation) == ((), True)
    assert not found(analyzed({"job.log": text.replace("nable to find", "sing")[:90]}))
