"""A remedy can be pasted: a shell takes it, or Python does, and no blank is left open."""

import ast
import re
import subprocess

import pytest

from log_lines import agent, found, init, traceback
from nccl_lines import info

PROGRAMS = (
    *("bash", "df", "echo", "env", "export", "getent", "grep", "head", "horovodrun"),
    *("ibstat", "ipmitool", "ls", "mlxlink", "nvidia-smi", "scontrol", "ssh"),
    *("torchrun", "unset"),
)
BELOW = (
    "WARNING:root:blacklist failing host: gpu0002\n"
    "TimeoutException: Timed out waiting for minimum number of slots to be available. "
    "Please check that you have enough resources to run at least 6 Horovod processes.\n"
)
FELL = "NET/IB : mlx5_4:1 speed change detected: 400000 -> 200000 Mbps"
DEVICES = "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>"
HOT = (
    "GPU 00000000:9B:00.0\n"
    "    Clocks Event Reasons\n"
    "        HW Thermal Slowdown               : Active\n"
)
AGAIN = (
    "".join(f"step {n} loss 1.25\n" for n in range(41))
    + "I0820 11:09:12.278000 41007 torch/distributed/elastic/agent/server/api.py:900] "
    "[default] Worker group FAILED. 2/3 attempts left; will restart worker group\n"
    + "".join(f"step {n} loss 1.25\n" for n in range(11))
)
SPLIT = {f"gpu000{n}.log": agent(n) for n in (1, 2)}
WORLDS = {
    "job.log": "".join(
        init(r, 2, host=host, pid=50 + r, comm=comm)
        for host, comm in (("gpu0001", "0xaa"), ("gpu0002", "0xbb"))
        for r in (0, 1)
    )
    + traceback(None, "ValueError: expected a world of 4")
}
JOBS = [
    ("slow-network", {"a.log": info("gpu1", FELL)}, "mlx5_4"),
    ("slow-network", {"a.log": info("gpu1", DEVICES, "Using network Socket")}, "unset"),
    (
        "thermal-throttle",
        {"gpu0002/nvidia-smi.txt": HOT},
        "NodeName=gpu0002 ",
    ),
    ("split-rendezvous", SPLIT, "--nnodes=2 "),
    ("split-rendezvous", WORLDS, "--rdzv-endpoint=gpu0001:29500"),
    (
        "restart-lost-state",
        {"job.log": AGAIN},
        "TORCHELASTIC_RESTART_COUNT",
    ),
    ("elastic-below-min", {"horovodrun.log": BELOW}, "--min-np 3 "),
    (
        "elastic-below-min",
        {"horovodrun.log": "reset count 4 has exceeded limit 3 -> stop running\n"},
        "--reset-limit 6 ",
    ),
]


def is_python(code):
    try:
        ast.parse(code)
    except SyntaxError:
        return False
    return True


def is_shell(step):
    run = subprocess.run(["bash", "-n", "-c", step], capture_output=True, check=False)
    commands = re.split(r"\s*(?:;|\||&&)\s*", step.partition("   #")[0])
    return not run.returncode and all(c.split()[0] in PROGRAMS for c in commands)


@pytest.mark.parametrize(("slug", "files", "value"), JOBS)
def test_a_remedy_can_be_pasted(analyzed, slug, files, value):
    ((_, finding),) = found(analyzed(files), slug)
    assert any(value in step for step in finding.remedy)
    for step in finding.remedy:
        assert not re.search("…|<[a-z]", step)
        assert is_shell(step) or is_python(step)


def test_what_a_log_says_is_quoted(analyzed):
    files = {f"gpu000{n}.log": agent(n, run="$(reboot)") for n in (1, 2)}
    remedy = analyzed(files).ranked.verdict.remedy
    assert "--rdzv-id='$(reboot)' " in remedy[0]
    assert not any("localhost" in step for step in remedy)
