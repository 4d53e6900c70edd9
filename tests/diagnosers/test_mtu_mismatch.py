"""mtu-mismatch needs MTUs that differ and a job that failed; of two hosts neither."""

import pytest

from log_lines import init
from nccl_lines import found, info, using, warn

SLUG = "mtu-mismatch"
FAILED = warn(
    "gpu0001",
    "NET/IB : Got completion from peer 10.0.0.2<4> with status=12 "
    "opcode=0 len=0 vendor err 129 (Send)",
)
PAIRS = [
    "NET/IB: Dev 0 Port 1 qpn 2841 mtu {} GID 3 (0/4A1FA8C0FFFF0000)",
    "NET/IB: NCCL Dev 0 IbDev 0 Port 1 qpn 2841 mtu {} GID 3 (0/4A1FA8C0FFFF0000) "
    "fifoRkey=0x1f00 fifoLkey=0x1f00",
    "NET/IB: ncclIbConnect: NCCL Dev 0 IbDev 0 Port 1 qp_num 2841 mtu {} LID 12 "
    "subnet-prefix 0  FLID 0 ctsFifoRkey=0x1f00 ctsFifoLkey=0x1f00",
]


def link(mtu, name="eth0"):
    return (
        "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN mode "
        "DEFAULT\n"
        f"2: {name}: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu {mtu} qdisc mq state UP\n"
    )


def hosts(*mtus):
    return {f"gpu000{n}/ip-link.txt": link(mtu) for n, mtu in enumerate(mtus, 1)}


def test_the_rarer_mtu_is_named_where_a_job_failed(analyzed):
    files = {**hosts(9000, 9000, 1500), "gpu0001/rank_0.log": FAILED}
    (finding,) = found(analyzed(files), SLUG)
    assert finding.hosts == ("gpu0003",)
    assert "gpu0003 1500" in finding.headline


@pytest.mark.parametrize("text", PAIRS)
def test_queue_pairs_tell_it_too(analyzed, text):
    files = {
        f"gpu000{n}/rank_{n}.log": info(f"gpu000{n}", text.format(code))
        for n, code in ((1, 5), (2, 3), (3, 5))
    }
    files["gpu0001/rank_1.log"] += FAILED
    (finding,) = found(analyzed(files), SLUG)
    assert finding.hosts == ("gpu0002",)
    assert "1024" in finding.headline


def test_two_hosts_that_differ_accuse_neither(analyzed):
    files = {**hosts(9000, 1500), "gpu0001/rank_0.log": FAILED}
    (finding,) = found(analyzed(files), SLUG)
    assert (finding.hosts, finding.confidence) == ((), "possible")


def test_differing_mtus_of_a_healthy_job_are_silent(analyzed):
    log = info("gpu0001", "Bootstrap: Using eth0:10.0.0.1<0>")
    analysis = analyzed({**hosts(9000, 9000, 1500), "a.log": log})
    assert not found(analysis, SLUG)
    assert analysis.ranked.outcome == "no-failure"


def test_equal_mtus_and_those_of_bridges_are_silent(analyzed):
    bridges = {
        "gpu0001/ip.txt": link(1500, "docker0"),
        "gpu0002/ip.txt": link(9000, "docker0"),
        "gpu0001/rank_0.log": FAILED,
    }
    assert not found(analyzed(bridges), SLUG)
    other = {**hosts(9000, 9000), "gpu0001/rank_0.log": FAILED}
    assert not found(analyzed(other), SLUG)


def test_only_the_interface_that_nccl_bound_counts(analyzed):
    files = {**hosts(9000, 9000, 1500), "gpu0001/rank_0.log": FAILED}
    files["gpu0001/rank_0.log"] += using("gpu0001", "10.0.0.1", "bond0")
    assert not found(analyzed(files), SLUG)


@pytest.mark.parametrize(
    "text",
    [
        "ping: local error: message too long, mtu=1500\n",
        "From 10.20.0.1 icmp_seq=1 Frag needed and DF set (mtu = 1500)\n",
    ],
)
def test_a_ping_that_did_not_fit_is_told(analyzed, text):
    (finding,) = found(analyzed({"ping.txt": text}), SLUG)
    assert finding.confidence == "likely"


# iproute2 6.1: `ip -j link`, and spread over lines by `-p`
PLAIN = (
    '[{{"ifindex":1,"ifname":"lo","flags":["LOOPBACK","UP","LOWER_UP"],"mtu":65536}},'
    '{{"ifindex":3,"link":"up0","ifname":"eth0","flags":["BROADCAST","UP","LOWER_UP"],'
    '"mtu":{},"qdisc":"noqueue","operstate":"UP","txqlen":1000}}]\n'
)
SPREAD = (
    PLAIN.replace("{{", " {{\n        ")
    .replace(',"', ',\n        "')
    .replace('":', '": ')
)


@pytest.mark.parametrize("form", [PLAIN, SPREAD], ids=["plain", "spread"])
def test_json_of_ip_tells_it_too(analyzed, form):
    files = {
        f"gpu000{n}/ip.json": form.format(mtu)
        for n, mtu in enumerate((9000, 9000, 1500), 1)
    }
    (finding,) = found(analyzed({**files, "gpu0001/rank_0.log": FAILED}), SLUG)
    assert finding.hosts == ("gpu0003",)
    assert "MTUs of eth0 differ" in finding.headline


def test_an_interface_that_is_down_has_no_say(analyzed):
    files = {
        f"gpu000{n}/ip.json": PLAIN.replace('"BROADCAST","UP"', '"BROADCAST"').format(
            mtu
        )
        for n, mtu in enumerate((9000, 9000, 1500), 1)
    }
    assert not found(analyzed({**files, "gpu0001/rank_0.log": FAILED}), SLUG)


def test_the_number_of_an_interface_is_no_task_of_a_host(analyzed):
    """srun's task 2 ran on gpu0002; the file holds the links of two hosts."""
    log = "".join(
        f"{rank}: {init(rank, 4, host=f'gpu000{1 + rank // 2}')}" for rank in range(4)
    )
    files = {"srun.log": f"{log}2: {FAILED}", "links.txt": link(9000) + link(1500)}
    told = [f.headline for f in found(analyzed(files), SLUG)]
    assert not any("gpu0002 9000" in line for line in told)
