"""What tools show of ports is told and accuses nobody.

Rendered from the sources of infiniband-diags, iproute2's rdma and mstflint, and of the
counters in mlx5's `ethtool -S`.
"""

import pytest

from ncclforensics.evidence import port_state

PORT = "      0x9c63c00300f2a1b0     15    1[  ] ==( {})==>      33   12[  ] {}\n"
UP = '"MF0;leaf-03:MQM9700/U1" ( )'
SLOW = '"MF0;leaf-03:MQM9700/U1" ( Could be 4X)'
ODD = {
    "perfquery": (
        "# Port counters: Lid 16 port 1 (CapMask: 0x5A00)\n"
        "PortSelect:......................1\n"
        "SymbolErrorCounter:..............65535\n"
        "LinkErrorRecoveryCounter:........0\n"
        "LinkDownedCounter:...............31\n",
        "a card: SymbolErrorCounter 65535, LinkDownedCounter 31",
    ),
    "ibqueryerrors": (
        'Errors for "gpu0045 mlx5_2"\n'
        "   GUID 0x9c63c00300f2a1c0 port 1: [SymbolErrorCounter == 65535] "
        "[PortRcvErrors == 10421]\n",
        "mlx5_2 on gpu0045: SymbolErrorCounter 65535, PortRcvErrors 10421",
    ),
    "iblinkinfo": (
        "CA: gpu0044 mlx5_2:\n"
        + PORT.format("4X      106.25 Gbps Active/  LinkUp", UP)
        + "CA: gpu0045 mlx5_2:\n"
        + PORT.format("1X       25.78125 Gbps Active/  LinkUp", SLOW)
        + "CA: gpu0046 mlx5_2:\n"
        + PORT.format("                Down/ Polling", '"" ( )'),
        "mlx5_2 on gpu0045: port 1 is 1X, could be 4X; "
        "mlx5_2 on gpu0046: port 1 is DOWN",
    ),
    "rdma link": (
        "link mlx5_0/1 subnet_prefix fe80:0000:0000:0000 lid 1 sm_lid 1 lmc 0 state "
        "ACTIVE physical_state LINK_UP\n"
        "link mlx5_5/1 subnet_prefix fe80:0000:0000:0000 lid 65535 sm_lid 0 lmc 0 "
        "state DOWN physical_state POLLING\n",
        "mlx5_5: port 1 is DOWN",
    ),
    "sysfs": (
        "/sys/class/infiniband/mlx5_2/ports/1/counters/symbol_error:120931\n"
        "/sys/class/infiniband/mlx5_2/ports/1/counters/link_downed:0\n",
        "mlx5_2: symbol_error 120931",
    ),
    "ethtool -S": (
        "NIC statistics:\n     rx_packets: 9012345678\n     rx_crc_errors_phy: 184467\n"
        "     rx_symbol_err_phy: 0\n     link_down_events_phy: 37\n",
        "a card: rx_crc_errors_phy 184467, link_down_events_phy 37",
    ),
    "ethtool -S at a prompt": (
        "[root@gpu0031 ~]# ethtool -S ens5f0np0 | grep link_down\n"
        "     link_down_events_phy: 37\n",
        "a card on gpu0031: link_down_events_phy 37",
    ),
    "mlxlink": (
        "Status Opcode                      : 1024\n"
        "Recommendation                     : Cable is unplugged\n"
        "Link Down                          : 14\n",
        "a card: Cable is unplugged",
    ),
    "ip -s link": (
        "2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP\n"
        "    link/ether 0c:42:a1:00:00:01 brd ff:ff:ff:ff:ff:ff\n"
        "    RX:  bytes  packets errors dropped  missed   mcast\n"
        "    9182736455 12039485 128441      22       0   55122\n"
        "    TX:  bytes  packets errors dropped carrier collsns\n"
        "    8812736455 11039485      0       0       0       0\n"
        "3: docker0: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500 state DOWN\n"
        "4: ib0: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 2044 qdisc mq state DOWN\n",
        "eth0: RX errors 128441; ib0: a port is DOWN",
    ),
    "a cable by the kernel": (
        "[ 81.1] mlx5_core 0000:5e:00.0: Port module event: module 0, Cable plugged\n"
        "[ 82.1] mlx5_core 0000:5e:00.0: Port module event: module 0, Cable unplugged\n",
        "0000:5e:00.0: its link went down",
    ),
}


@pytest.mark.parametrize(("text", "told"), ODD.values(), ids=ODD)
def test_a_port_that_is_odd_is_told_and_accuses_nobody(analyzed, text, told):
    ranked = analyzed({"out.txt": text}).ranked
    assert (ranked.outcome, ranked.verdict) == ("inconclusive", None)
    assert [n.missing for n in ranked.not_checked if n.slug == "ib-error"] == [
        f"{port_state.SHOWN}{told}"
    ]


WELL = {
    "a link at full width": "CA: gpu0044 mlx5_2:\n"
    + PORT.format("4X      106.25 Gbps Active/  LinkUp", UP),
    "counters at zero": "NIC statistics:\n     rx_crc_errors_phy: 0\n",
    "an interface": "2: eth0: <BROADCAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP\n",
    "a link that came back": "[ 81.1] mlx5_core 0000:5e:00.0 ib0: Link down\n"
    "[ 82.1] mlx5_core 0000:5e:00.0 ib0: Link up\n",
    "no issue": "Recommendation                     : No issue was observed\n",
}


@pytest.mark.parametrize("text", WELL.values(), ids=WELL)
def test_nothing_is_told_of_a_port_that_is_well(analyzed, text):
    ranked = analyzed({"out.txt": text}).ranked
    assert ranked.verdict is None
    assert not [n for n in ranked.not_checked if port_state.SHOWN in n.missing]
