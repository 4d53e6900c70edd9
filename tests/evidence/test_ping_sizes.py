"""Large pings that get lost where small ones arrive tell of an MTU in between."""

import json

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


def from_nodes(narrow):
    """Four nodes ping each other; large packets to and from `narrow` get lost."""
    files = {"job.log": HUNG}
    for host in range(1, 5):
        name = f"gpu000{host}"
        manifest = {"collected_by": "x", "host": name, "asked": []}
        files[f"{name}/manifest.json"] = json.dumps(manifest)
        for peer in {1, 2, 3, 4} - {host}:
            lost = bool({host, peer} & narrow)
            told = [ping(56, 3, f"10.0.0.{peer}", f"10.0.0.{peer}")]
            told.append(ping(8972, 0 if lost else 3, *[f"10.0.0.{peer}"] * 2))
            for size, text in zip(("-small", ""), told, strict=True):
                files[f"{name}/commands/ping{size}-10.0.0.{peer}.txt"] = text
    return files


@pytest.mark.parametrize(("narrow", "hosts"), [({2}, ("gpu0002",)), ({1, 2, 3, 4}, ())])
def test_the_host_whose_large_packets_reach_nobody_is_named(analyzed, narrow, hosts):
    (finding,) = found(analyzed(from_nodes(narrow)), SLUG)
    assert finding.hosts == hosts
