"""A real Ray cluster on the nodes: the head on the first, a raylet on each."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from live.nodes import Node

PORT = 6379
START = (
    *(sys.executable, "-m", "ray.scripts.scripts", "start", "--num-cpus=2"),
    *("--object-store-memory=100000000", "--disable-usage-stats"),
)


def start(nodes: Sequence[Node], folder: Path, own: Mapping[str, str]) -> str:
    """Start Ray on the nodes, whose end ends it; returns the address of its head."""
    address = f"{nodes[0].address}:{PORT}"
    with (folder / "ray.log").open("wb") as log:
        for node in nodes:
            who = (f"--node-ip-address={node.address}", f"--node-name={node.name}")
            part = (f"--address={address}",)
            if node is nodes[0]:
                part = ("--head", f"--port={PORT}", "--include-dashboard=false")
                part += (f"--temp-dir={folder}/ray",)
            started = node.start(*START, *who, *part, env=own, stdout=log, stderr=log)
            if started.wait():
                raise subprocess.CalledProcessError(1, "ray start")
    return address
