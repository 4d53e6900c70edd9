"""The command: this node for real, several by a fake ssh; verdict and exit code."""

import json
import os

import pytest

from ncclforensics.cli import main
from ncclforensics.preflight import flight
from ncclforensics.preflight.node import facts, network
from ncclforensics.preflight.node import node as here


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("NCCL_", "MASTER_", "GLOO_", "SLURM", "TORCH_")):
            monkeypatch.delenv(name)
    # the machine of a test may be short of what a node needs
    monkeypatch.setattr("ncclforensics.preflight.checks_machine.LEAST_SHM", 0)


def preflight(capsys, *options):
    code = main(["preflight", "-f", "json", *options])
    return code, json.loads(capsys.readouterr().out)


def test_this_node_tells_all_its_facts_within_seconds():
    told = here.gathered()
    assert set(facts.FACTS) <= {*told, *told["unknown"]}
    assert {"lo"} <= {i["name"] for i in told["interfaces"]}
    json.dumps(told)


def test_a_prolog_gets_1_where_a_check_fails_and_2_for_a_mistake(capsys, monkeypatch):
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "nosuch")
    code, told = preflight(capsys)
    assert (code, told["verdict"]) == (1, "failed")
    checks = {c["check"]: c for c in told["nodes"][0]["checks"]}
    assert checks["socket-interface"]["status"] == "failed"
    assert checks["socket-interface"]["do"]
    assert main(["preflight", "--no-such-option"]) == 2
    capsys.readouterr()
    assert main(["preflight"]) == 1
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("preflight failed: ")
    assert "NCCL_SOCKET_IFNAME=nosuch" in second + _[0] + _[1]


def test_a_master_that_does_not_resolve_fails_and_no_secret_is_told(
    capsys, monkeypatch
):
    monkeypatch.setattr(network, "_resolved", lambda *_: ([], "Name unknown"))
    monkeypatch.setenv("MASTER_ADDR", "nosuch.invalid")
    monkeypatch.setenv("NCCL_API_TOKEN", "hunter22hunter22")
    code, told = preflight(capsys)
    checks = {c["check"]: c for c in told["nodes"][0]["checks"]}
    assert (code, checks["master"]["status"]) == (1, "failed")
    assert "hunter22" not in json.dumps([told, here.gathered()])


def test_a_port_without_a_listener_proves_that_its_host_is_there(monkeypatch):
    import socket

    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        monkeypatch.setenv("MASTER_PORT", str(port))
        assert network.master()["answer"] == "refused"
        held.listen()
        assert network.master()["answer"] == "open"


def test_files_of_nccl_are_part_of_the_environment(tmp_path, monkeypatch):
    file = tmp_path / "nccl.conf"
    file.write_text("NCCL_ALGO = Ring # for a test\nPATH=/x\n")
    monkeypatch.setenv("NCCL_CONF_FILE", str(file))
    told = facts.environment()
    assert (told["NCCL_ALGO"], told.get("PATH")) == ("Ring", None)


def test_a_node_pings_those_behind_it_in_the_ring(monkeypatch):
    monkeypatch.setattr(
        network.peers, "interfaces", lambda: {"eth0": ("10.0.0.3", 1500)}
    )
    ring = [f"10.0.0.{n}" for n in range(1, 5)]
    assert network.neighbours(ring) == ["10.0.0.4", "10.0.0.1"]
    assert network.neighbours(["10.0.0.3"]) == []
    assert network.neighbours(["10.9.9.9", "10.9.9.8"]) == []


def test_several_nodes_are_compared_and_a_silent_one_fails(
    tmp_path, fakes, monkeypatch, capsys
):
    hosts = tmp_path / "hosts"
    hosts.write_text("gpu0001\ngpu0002\ngpu0003\n")
    code, told = preflight(capsys, "--ssh", str(hosts))
    assert [n["node"] for n in told["nodes"]] == ["gpu0001", "gpu0002", "gpu0003"]
    assert (code, told["missing"]) == (0, [])
    monkeypatch.setenv("FAKE_DOWN", "gpu0002")
    code, told = preflight(capsys, "--ssh", str(hosts))
    assert (code, told["missing"][0]["node"]) == (1, "gpu0002")
    assert main(["preflight", "--ssh", str(hosts)]) == 1
    text = capsys.readouterr().out
    assert text.startswith("preflight failed: 2 of 3 nodes answered")
    assert "no answer  gpu0002" in text


def test_what_is_sent_runs_by_itself(tmp_path, fakes):
    import subprocess
    import sys

    from ncclforensics.fleet.script import script

    packed = script(*flight.NODE)
    assert packed == script(*flight.NODE)
    argv = [sys.executable, "-I", "-"]
    done = subprocess.run(argv, input=packed, capture_output=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["interfaces"]
    assert sorted(f.name for f in tmp_path.iterdir()) == ["bin"]
