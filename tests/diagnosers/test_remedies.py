"""A remedy can be pasted: a shell takes it, or Python does, and no blank is left open."""

import ast
import re
import shlex
import subprocess

import pytest

from log_lines import agent, found, init, traceback
from nccl_lines import info, using, warn

PROGRAMS = (
    *("bash", "df", "echo", "env", "export", "getent", "grep", "head", "horovodrun"),
    *("ibstat", "ipmitool", "ls", "mlxlink", "nvidia-smi", "scontrol", "ssh"),
    *("torchrun", "unset", "ip", "ping", "nc", "iptables", "ss", "dmesg", "lspci"),
    *("cat", "for", "do", "done", "setpci", "ufw", "allow", "read", "ethtool"),
    *("cut", "awk", "mount", "docker"),
    *("ib_write_bw", "show_gids", "squeue", "ldconfig", "lsmod", "python", "srun"),
    *("ibstatus", "hostname"),
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
LOST = "socketProgressOpt: Call to recv from 10.0.0.3<4000> failed : Broken pipe"
FAR = "socketStartConnect: Connect to 10.0.0.3<4000> failed : No route to host"
NEAR = "Connect to XXX failed: Network is unreachable"
GONE = "NET/IB : Got completion from peer 10.0.0.3<4000> with error 12, opcode 0, len 0"
JOBS = [
    (
        "wrong-nic",
        {
            "job.log": info("gpu1", "NCCL_SOCKET_IFNAME set by environment to ib9")
            + warn("gpu1", "Bootstrap : no socket interface found")
        },
        "in place of ib9, on gpu1",
    ),
    (
        "socket-error",
        {"job.log": using("gpu1", "10.0.0.1") + warn("gpu1", LOST)},
        "ss -ti dst 10.0.0.3; ethtool -S eth0 ",
    ),
    ("unreachable-peer", {"job.log": warn("gpu1", FAR)}, "nc -vz 10.0.0.3 4000 "),
    ("unreachable-peer", {"job.log": warn("gpu1", NEAR)}, "NCCL_DEBUG=INFO "),
    ("ib-error", {"job.log": warn("gpu1", GONE)}, "ib_write_bw 10.0.0.3 "),
    (
        "p2p-blocked",
        {"job.log": warn("gpu1", "cudaIpcGetMemHandle failed : invalid argument")},
        "ECAP_ACS+6.w=0000; done   # as root on gpu1",
    ),
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


def commands(step):
    """Return the programs that a line of shell starts, outside of what it quotes."""
    words = shlex.shlex(step, posix=True, punctuation_chars=True)
    words.wordchars += "$%{}:,^"
    found_, before = [], ";"
    for word in words:
        if before in (";", "|", "||", "&&", "(", "do") and word != "export":
            found_.append(word)
        before = word
    return found_


def is_shell(step):
    run = subprocess.run(["bash", "-n", "-c", step], capture_output=True, check=False)
    return not run.returncode and set(commands(step)) <= set(PROGRAMS)


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
