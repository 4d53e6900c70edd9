"""Fetches NVIDIA's NCCL wheels and builds the stub CUDA driver, outside the repo.

Everything lies under ``/tmp/nccl_lab``. A wheel is a zip that holds
``nvidia/nccl/lib/libnccl.so.2``, some 250 MB; nothing of it is committed.
"""

import subprocess
import sys
import zipfile
from pathlib import Path

LAB = Path("/tmp/nccl_lab")
HERE = Path(__file__).parent
STUB_NAMES = ("libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1")
# One for each way in which NCCL came to write its lines.
VERSIONS = (
    "2.16.2",
    "2.18.3",
    "2.19.3",
    "2.20.5",
    "2.21.5",
    "2.22.3",
    "2.23.4",
    "2.24.3",
    "2.26.2",
    "2.27.5",
    "2.28.9",
    "2.29.7",
    "2.30.7",
    "2.32.3",
)


def library(version: str) -> Path:
    """libnccl.so.2 of that version, from PyPI the first time."""
    wanted = LAB / "libraries" / version / "libnccl.so.2"
    if wanted.exists():
        return wanted
    wheels = LAB / "wheels"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    which = ["--only-binary=:all:", f"nvidia-nccl-cu12=={version}"]
    subprocess.run([*pip, "--dest", str(wheels), *which], check=True)
    (wheel,) = wheels.glob(f"*-{version}-*.whl")
    wanted.parent.mkdir(parents=True)
    with zipfile.ZipFile(wheel) as parts:
        wanted.write_bytes(parts.read("nvidia/nccl/lib/libnccl.so.2"))
    wheel.unlink()
    return wanted


def stub() -> Path:
    """The stub, under the names by which NCCL looks for the driver and NVML."""
    directory = LAB / "stub"
    directory.mkdir(parents=True, exist_ok=True)
    first, *others = (directory / name for name in STUB_NAMES)
    source = str(HERE / "nccl_stub_cuda.c")
    draft = directory / "draft.so"
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, "-o", str(draft), source, "-ldl"], check=True)
    draft.rename(first)
    for other in others:
        other.unlink(missing_ok=True)
        other.symlink_to(first.name)
    return first
