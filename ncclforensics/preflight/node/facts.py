"""The facts that are read from the system, one function each, by name in FACTS.

A function returns what json can hold, and raises OSError where the system does not
tell. Sizes are bytes.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import resource
import shutil
import subprocess
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncclforensics.collect import variables
from ncclforensics.preflight.node import network

if TYPE_CHECKING:
    from collections.abc import Callable

UNSYNCHRONISED = 5  # TIME_ERROR of adjtimex
CONFIG = ("/etc/nccl.conf", "~/.nccl.conf")
PACKAGES = r"torch|nvidia-nccl-cu\d+|triton|transformer-engine|ray"
GPU_FIELDS = "index,name,driver_version,memory.total,pci.bus_id"


def environment() -> dict[str, str]:
    """Return the variables that a job inherits, and those of NCCL's own files."""
    told = variables.kept(os.environ)
    for name in (*CONFIG, os.environ.get("NCCL_CONF_FILE", "")):
        try:
            text = Path(name).expanduser().read_text("utf-8", "replace") if name else ""
        except OSError:
            continue
        for line in text.splitlines():
            key, equals, value = line.partition("#")[0].partition("=")
            if equals and re.fullmatch(r"NCCL_\w+", key.strip()):
                told.setdefault(key.strip(), value.strip())
    return told


def limits() -> dict[str, int]:
    """Return the soft limits of a process; -1 is unlimited."""
    names = {"memlock": resource.RLIMIT_MEMLOCK, "nofile": resource.RLIMIT_NOFILE}
    return {name: resource.getrlimit(which)[0] for name, which in names.items()}


def shm() -> dict[str, int]:
    """Return size and free bytes of /dev/shm."""
    told = shutil.disk_usage("/dev/shm")
    return {"size": told.total, "free": told.free}


def dumps() -> dict[str, Any]:
    """Return where torch would write its dumps, and whether there is room.

    The folder need not exist: then its nearest parent is asked.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    default = f"{cache}/torch/comm_lib_trace_rank_"
    names = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
    prefix = next((os.environ[n] for n in names if os.environ.get(n)), default)
    folder = place = os.path.dirname(os.path.abspath(prefix))
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    told = os.statvfs(place)
    return {
        "folder": folder,
        "exists": place == folder,
        "writable": os.access(place, os.W_OK),
        "free": told.f_bavail * told.f_frsize,
        "files_free": told.f_favail if told.f_files else -1,
    }


def clock() -> dict[str, Any]:
    """Return the node's time, and whether the kernel's clock is synchronised."""

    class Timex(ctypes.Structure):
        _fields_ = (
            *(("modes", ctypes.c_uint), ("offset", ctypes.c_long)),
            *(("freq", ctypes.c_long), ("maxerror", ctypes.c_long)),
            *(("esterror", ctypes.c_long), ("status", ctypes.c_int)),
            ("rest", ctypes.c_char * 256),
        )

    asked = Timex()
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(asked))
    told: dict[str, Any] = {"now": time.time()}
    if state >= 0:
        told["synchronised"] = state != UNSYNCHRONISED
        told["max_error_s"] = asked.maxerror / 1e6
    return told


def versions() -> dict[str, str]:
    """Return the versions of kernel, Python, driver and of packages, never imported."""
    told = {"kernel": platform.release(), "python": platform.python_version()}
    try:
        text = Path("/proc/driver/nvidia/version").read_text("utf-8")
        if found := re.search(r"Module\D*?([\d.]{5,})", text):
            told["nvidia kernel module"] = found[1]
    except OSError:
        pass
    for package in metadata.distributions():
        name = package.metadata["Name"] or ""
        if re.fullmatch(PACKAGES, name):
            told[name] = package.version
    return told


def gpus() -> list[dict[str, str]]:
    """Return the GPUs as nvidia-smi lists them; none on a node without a driver."""
    if not os.path.exists("/proc/driver/nvidia"):
        return []
    command = ["nvidia-smi", f"--query-gpu={GPU_FIELDS}", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError((done.stdout + done.stderr).strip()[:200] or "nvidia-smi failed")
    keys = ("index", "name", "driver", "memory", "bus_id")
    rows = (line.split(", ") for line in done.stdout.splitlines())
    return [dict(zip(keys, row)) for row in rows if len(row) == len(keys)]  # noqa: B905


def fabric_manager() -> dict[str, bool]:
    """Return whether this node has NVSwitches, and whether their manager runs.

    `seen` says whether processes of the node are visible, which a container hides.
    """
    switches = ("/dev/nvidia-nvswitchctl", "/proc/driver/nvidia-nvswitch/devices")
    needed = any(os.path.exists(place) for place in switches)
    names = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            names.add(Path(f"/proc/{pid}/comm").read_text("utf-8").strip())
        except OSError:
            continue
    running = "nv-fabricmanage" in names  # the kernel keeps 15 characters of a name
    return {"needed": needed, "running": running, "seen": "kthreadd" in names}


FACTS: dict[str, Callable[[], Any]] = {
    "environment": environment,
    "interfaces": network.interfaces,
    "infiniband": network.infiniband,
    "master": network.master,
    "limits": limits,
    "shm": shm,
    "dumps": dumps,
    "clock": clock,
    "versions": versions,
    "gpus": gpus,
    "fabric_manager": fabric_manager,
}
