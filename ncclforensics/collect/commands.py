"""The commands that a node is asked: one row each, in one table.

A row without `when` is asked everywhere; a program that is not there is a line of the
manifest. Rows of TWICE move while a job works, and are asked in both looks.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncclforensics.collect.children import Question

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


FOLDER = "commands"
HOUR_S = 3600


@dataclass(frozen=True)
class Command:
    """A command line, its limit in seconds, its file, and where it is asked.

    `otherwise` is asked in its place where it gives no answer.
    """

    argv: tuple[str, ...]
    limit: float
    file: str
    when: Callable[[], str] = lambda: ""  # why not, or ""
    otherwise: Command | None = None
    clean: Callable[[bytes], bytes] | None = None

    @property
    def name(self) -> str:
        """What it is called in the manifest."""
        return " ".join(self.argv)


def no_gpu() -> str:
    """Return why no GPU is asked, or ""."""
    has_one = os.path.exists("/proc/driver/nvidia") or os.path.exists("/dev/nvidiactl")
    return "" if has_one else "this node has no NVIDIA driver"


def _no_switch() -> str:
    places = ("/dev/nvidia-nvswitchctl", "/proc/driver/nvidia-nvswitch/devices")
    if any(os.path.exists(place) for place in places):
        return ""
    return no_gpu() or "this node has no NVSwitch"


def _no_rdma() -> str:
    try:
        has_one = bool(os.listdir("/sys/class/infiniband"))
    except OSError:
        has_one = False
    return "" if has_one else "this node has no InfiniBand or RoCE device"


def _of_last_hour(data: bytes) -> bytes:
    """Return the lines of the last hour of `dmesg --time-format iso`.

    dmesg prints the whole ring buffer: an old fault in it is of another job.
    """
    since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - HOUR_S))
    kept, keeps = [], False
    for line in data.splitlines(keepends=True):
        if found := re.match(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)", line):
            keeps = found[1].decode() >= since
        if keeps:
            kept.append(line)
    return b"".join(kept)


DMESG = Command(("dmesg", "--time-format", "iso"), 5, "dmesg.txt", clean=_of_last_hour)
TWICE = (
    Command(("nvidia-smi", "-q", "-x"), 10, "nvidia-smi.xml", no_gpu),
    Command(("ip", "-j", "-s", "link"), 3, "ip-link.json"),
    Command(("ss", "-tinp"), 4, "ss.txt"),
)
ONCE = (
    Command(("nvidia-smi", "topo", "-m"), 8, "nvidia-smi-topo.txt", no_gpu),
    Command(
        ("systemctl", "status", "nvidia-fabricmanager", "--no-pager"),
        limit=4,
        file="nvidia-fabricmanager.txt",
        when=_no_switch,
    ),
    Command(("ip", "-j", "addr"), 3, "ip-addr.json"),
    Command(("ip", "-j", "route"), 3, "ip-route.json"),
    Command(("ibstat",), 5, "ibstat.txt", _no_rdma),
    Command(("rdma", "link"), 3, "rdma-link.txt", _no_rdma),
    Command(("df", "-lPk"), 4, "df.txt"),
    Command(("chronyc", "-n", "tracking"), 3, "chronyc.txt"),
    Command(("timedatectl",), 3, "timedatectl.txt"),
    Command(
        ("journalctl", "-k", "--since", "-1h", "-o", "short-iso", "--no-pager"),
        limit=6,
        file="journalctl-k.txt",
        otherwise=DMESG,
    ),
)


def questions(
    commands: Iterable[Command], folder: str
) -> tuple[list[Question], dict[str, str]]:
    """Return a question per command, and why others do not apply to this node."""
    asked, why_not = [], {}
    for command in commands:
        if why := command.when():
            why_not[command.name] = why
        else:
            asked.append(_question(command, folder))
    return asked, why_not


def _question(command: Command, folder: str) -> Question:
    later = command.otherwise
    other = None if later is None else _question(later, folder)
    file = f"{folder}{FOLDER}/{command.file}"
    return Question(
        command.name, command.argv, command.limit, file, other, command.clean
    )


def ethtool() -> list[Command]:
    """Return a command per interface with a device, at most 16."""
    base = "/sys/class/net"
    try:
        names = sorted(os.listdir(base))
    except OSError:
        return []
    real = [name for name in names if os.path.exists(f"{base}/{name}/device")]
    return [Command(("ethtool", name), 3, f"ethtool-{name}.txt") for name in real[:16]]
