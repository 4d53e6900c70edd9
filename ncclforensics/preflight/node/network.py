"""Facts of the network: interfaces, InfiniBand ports, and who can be reached."""

from __future__ import annotations

import errno
import os
import socket
import threading
from pathlib import Path
from typing import Any

from ncclforensics.collect import peers
from ncclforensics.collect.children import Answer, ask_all

NET, IB = Path("/sys/class/net"), Path("/sys/class/infiniband")
CONNECT_S = 3.0
RESOLVE_S = 3.0
NEIGHBOURS = 2  # in the ring of all nodes; more find little more
# an answer, though not that of a listener: the host is there
REFUSED = (errno.ECONNREFUSED,)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except (OSError, ValueError):
        return ""


def interfaces() -> list[dict[str, Any]]:
    """Return each interface: name, IPv4 address, mtu, speed in Mb/s, is it up.

    `up` is the kernel's view of the link, not of the administrator alone. An address of
    IPv6 alone is "".
    """
    addresses = peers.interfaces()
    sixes = {
        line.split()[-1] for line in _read(Path("/proc/net/if_inet6")).splitlines()
    }
    found = []
    for _, name in socket.if_nameindex():
        address, mtu = addresses.get(name, ("", 0))
        state, speed = _read(NET / name / "operstate"), _read(NET / name / "speed")
        carrier = _read(NET / name / "carrier")
        found.append(
            {
                "name": name,
                "address": address,
                "has_ipv6": name in sixes,
                # /sys may show the interfaces of another network namespace
                "mtu": mtu or int(_read(NET / name / "mtu") or 0),
                # loopback, tunnels and some virtual links do not know
                "up": state in ("up", "unknown") and carrier != "0",
                "state": state,
                "speed": int(speed) if speed.isdigit() else None,
                "is_device": (NET / name / "device").exists(),
            }
        )
    return found


def infiniband() -> list[dict[str, str]]:
    """Return each port of InfiniBand and RoCE: device, state, rate, link layer."""
    if not IB.is_dir():
        return []
    return [
        {
            "device": device.name,
            "port": port.name,
            "state": _read(port / "state").partition(": ")[2],
            "physical": _read(port / "phys_state").partition(": ")[2],
            "rate": _read(port / "rate"),
            "layer": _read(port / "link_layer"),
            "firmware": _read(device / "fw_ver"),
        }
        for device in sorted(IB.iterdir())
        for port in sorted((device / "ports").iterdir())
    ]


def master() -> dict[str, Any]:
    """Return what MASTER_ADDR resolves to, and whether its port can be reached.

    `answer` is "open", "refused" (the host is there, nobody listens), or the error.
    """
    name, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT", "29500")
    if not name:
        return {}
    told: dict[str, Any] = {"name": name, "port": port, "addresses": [], "answer": ""}
    if not port.isdigit():
        return {**told, "answer": "MASTER_PORT is no number"}
    found, why = _resolved(name, int(port))
    if not found:
        return {**told, "answer": why}
    told["addresses"] = sorted({str(address[0]) for *_, address in found})
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as asked:
            asked.settimeout(CONNECT_S)
            try:
                asked.connect(address)
                told["answer"] = "open"
                break
            except OSError as error:
                is_refused = error.errno in REFUSED
                told["answer"] = "refused" if is_refused else _why(error)
                if is_refused:
                    break
    return told


def _resolved(name: str, port: int) -> tuple[list[Any], str]:
    """Return the addresses of a host, or why there are none; a resolver may be slow."""
    found: list[Any] = []
    failed: list[str] = [f"the resolver does not answer within {RESOLVE_S:g} s"]

    def ask() -> None:
        try:
            found.extend(socket.getaddrinfo(name, port, type=socket.SOCK_STREAM))
        except (socket.gaierror, UnicodeError) as error:
            failed[:] = [getattr(error, "strerror", None) or str(error)]

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(RESOLVE_S)
    return found, failed[0]


def _why(error: OSError) -> str:
    if isinstance(error, socket.timeout):
        return f"no answer within {CONNECT_S:g} s"
    return error.strerror or str(error)


def neighbours(ring: list[str]) -> list[str]:
    """Return the addresses behind this node's own in the ring of all nodes."""
    own = {address for address, _ in peers.interfaces().values()}
    at = next((n for n, address in enumerate(ring) if address in own), None)
    if at is None:
        return []
    behind = [ring[(at + step) % len(ring)] for step in range(1, NEIGHBOURS + 1)]
    return [address for address in dict.fromkeys(behind) if address not in own]


def reached(addresses: list[str], until: float) -> list[dict[str, str]]:
    """Return for each address "good", "narrow", "none" or "unknown".

    "narrow": small packets come through, large ones do not. A large packet is as large
    as the interface to it allows, and may not be fragmented.
    """
    asked, no_route = peers.questions(addresses)
    sizes: dict[bool, list[Answer]] = {False: [], True: []}
    for answer in ask_all(asked, until):
        is_small = str(answer.question.file).startswith(peers.SMALL_FILE)
        sizes[is_small].append(answer)
    large, small = map(_by_address, sizes.values())
    return [
        {
            "address": address,
            "answer": "none"
            if f"route to {address}" in no_route
            else _answer(large.get(address), small.get(address)),
            "why": no_route.get(f"route to {address}")
            or _said(small.get(address) or large.get(address)),
        }
        for address in addresses
    ]


def _by_address(answers: list[Answer]) -> dict[str, Answer]:
    return {answer.question.name.split()[-1]: answer for answer in answers}


def _came(answer: Answer | None) -> bool:
    return answer is not None and answer.exit == 0


def _answer(large: Answer | None, small: Answer | None) -> str:
    if _came(large):
        return "good"
    if _came(small):
        return "narrow"
    # 1 is "nobody answered", anything else that ping itself could not ask
    return "none" if small is not None and small.exit == 1 else "unknown"


def _said(answer: Answer | None) -> str:
    return "" if answer is None or _came(answer) else answer.why_not
