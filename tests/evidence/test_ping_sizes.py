"""Large pings that get lost where small ones arrive tell of an MTU in between."""

import pytest

from log_lines import timeout
from nccl_lines import found

SLUG = "mtu-mismatch"


def ping(payload, received, peer="gpu0002", address="10.0.0.2"):
    lost = 100 - 100 * received // 3
    return (
        f"PING {peer} ({address}) {payload}({payload + 28}) bytes of data.\n\n"
        f"--- {peer} ping statistics ---\n3 packets transmitted, {received} received, "
        f"{lost}% packet loss, time 2029ms\n"
    )


HUNG = timeout(0) + timeout(1)


def told(analyzed, *pings, log=HUNG):
    files = {"job.log": log, "ping.txt": "\n".join(pings)}
    return found(analyzed(files), SLUG)


@pytest.mark.parametrize("order", [(8972, 1472), (1472, 8972)])
def test_large_packets_that_get_lost_tell_of_the_way_and_name_no_host(analyzed, order):
    (finding,) = told(analyzed, *(ping(s, 3 if s == 1472 else 0) for s in order))
    assert (finding.confidence, finding.hosts, finding.ranks) == ("likely", (), ())
    assert "9,000 bytes" in finding.headline
    assert "gpu0002" in finding.headline


@pytest.mark.parametrize(
    "pings",
    [
        (ping(1472, 3), ping(8972, 3)),
        (ping(1472, 0), ping(8972, 0)),  # that host does not answer at all
        (ping(8972, 0),),
        (ping(1472, 3), ping(8972, 0, "gpu0003", "10.0.0.3")),
        (ping(1472, 0), ping(8972, 3)),
        (ping(1472, 3), ping(8972, 1)),  # some came through: packets fit
    ],
)
def test_other_pings_tell_of_no_mtu(analyzed, pings):
    assert told(analyzed, *pings) == []


def test_of_a_job_that_is_well_no_ping_tells_anything(analyzed):
    steps = "".join(f"step {n} loss 2.5\n" for n in range(9))
    assert told(analyzed, ping(1472, 3), ping(8972, 0), log=steps) == []
