"""Whether large packets reach the hosts that the job talks to: `ping -M do`.

The packet is as large as the interface to the peer allows, and may not be fragmented:
if only small ones come through, the path is narrower than the interface says.
"""

from __future__ import annotations

import fcntl
import re
import socket
import struct
from typing import TYPE_CHECKING

from ncclforensics.collect.children import Question

if TYPE_CHECKING:
    from ncclforensics.collect.processes import Process

MOST = 16
LIMIT_S = 4.0
HEADERS = 28  # bytes of IPv4 and ICMP
SMALL = 56  # bytes, as ping sends by default
FILE, SMALL_FILE = "commands/ping-", "commands/ping-small-"
SIOCGIFADDR, SIOCGIFMTU = 0x8915, 0x8921
_ADDRESS = re.compile(r"^((?:\d{1,3}\.){3}\d{1,3}):\d+$")


def addresses(
    processes: list[Process], states: dict[int, dict[str, object]]
) -> list[str]:
    """Return the IPv4 addresses of other hosts that the processes are connected to.

    MASTER_ADDR is among them if it is an address; no name is resolved here.
    """
    found: dict[str, None] = {}
    for process in processes:
        told = states.get(process.pid, {}).get("sockets", [])
        rows = told if isinstance(told, list) else []
        remote = [row["remote"] for row in rows if row["state"] != "LISTEN"]
        master = process.environment.get("MASTER_ADDR", "")
        for name in [f"{master}:0", *remote]:
            if match := _ADDRESS.match(str(name)):
                found[match[1]] = None
    own = {address for address, _ in interfaces().values()}
    local = ("127.", "0.")
    return [a for a in found if a not in own and not a.startswith(local)][:MOST]


def interfaces() -> dict[str, tuple[str, int]]:
    """Return the IPv4 address and MTU of each interface by its name."""
    found: dict[str, tuple[str, int]] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                reply = fcntl.ioctl(asked.fileno(), SIOCGIFADDR, request)
                address = socket.inet_ntoa(reply[20:24])
                reply = fcntl.ioctl(asked.fileno(), SIOCGIFMTU, request)
                found[name] = (address, struct.unpack_from("i", reply, 16)[0])
            except OSError:
                continue
    return found


def questions(peers: list[str]) -> tuple[list[Question], dict[str, str]]:
    """Return two pings per peer: a small one, and one as large as the interface allows.

    Only a peer that answers the small one shows that the way is too narrow. The second
    value says why a peer cannot be asked: this node's routes lead nowhere.
    """
    mtus = dict(interfaces().values())
    asked, why_not = [], {}
    for peer in peers:
        try:
            mtu = mtus.get(_source(peer), 0)
        except OSError as error:
            why_not[f"route to {peer}"] = error.strerror or "none"
            continue
        if mtu > HEADERS:
            for file, size in ((FILE, mtu - HEADERS), (SMALL_FILE, SMALL)):
                ping = ("ping", "-M", "do", "-c", "2", "-i", "0.2", "-W", "1", "-s")
                argv = (*ping, str(size), peer)
                name = " ".join(argv)
                asked.append(Question(name, argv, LIMIT_S, f"{file}{peer}.txt"))
    return asked, why_not


def _source(peer: str) -> str:
    """Return the address that packets to `peer` come from; nothing is sent.

    Raises OSError where no route leads there.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.connect((peer, 9))
        return str(asked.getsockname()[0])
