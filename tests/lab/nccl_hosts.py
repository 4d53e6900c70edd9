"""Hosts without machines: a UTS, network and mount namespace each, wired by a switch.

The library finds in them what it would find on a cluster: a host name, interfaces
with addresses, a /sys that shows these interfaces only, a /dev/shm of its own.
Nothing outside the namespaces is touched; they go when their holder process goes.
"""

import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HOLD = "mount -t sysfs sysfs /sys && mount -t tmpfs -o size={shm} shm /dev/shm && "
HOLD += "{bind_names}hostname {name} && exec sleep infinity"
BIND_NAMES = "mount --bind {names} /etc/hosts && "


@dataclass(frozen=True, slots=True)
class Host:
    """What one host has: interface name to address.

    A name that starts with ``docker`` or ``virbr`` is a bridge of the host's own,
    every other one a wire to the switch that all hosts share. An isolated host's
    wires end nowhere: its link is up, but nobody answers.
    """

    interfaces: Mapping[str, str] = field(default_factory=dict)
    loopback: bool = True
    shm: str = "1g"
    isolated: bool = False


def inside(holder: int, command: Sequence[str]) -> list[str]:
    """The command, to be run in the namespaces of that process."""
    entered = ["nsenter", f"--target={holder}", "--uts", "--net", "--mount"]
    return [*entered, "--", *command]


def run_ip(holder: int, arguments: str) -> None:
    """``ip`` in that host."""
    subprocess.run(inside(holder, ["ip", *arguments.split()]), check=True)


def names_file(hosts: Mapping[str, Host], file: Path) -> None:
    """Write an /etc/hosts that knows every address of every host."""
    lines = [
        f"{address.split('/')[0]} {name}.cluster.local {name}\n"
        for name, host in hosts.items()
        for address in host.interfaces.values()
    ]
    file.write_text("127.0.0.1 localhost\n" + "".join(lines))


def hold(name: str, shm: str, names: Path | None) -> subprocess.Popen[bytes]:
    """A process that keeps fresh namespaces with that host name alive."""
    bind_names = BIND_NAMES.format(names=names) if names else ""
    script = HOLD.format(name=name, shm=shm, bind_names=bind_names)
    unshare = ["unshare", "--uts", "--net", "--mount", "sh", "-c", script]
    holder = subprocess.Popen(unshare)
    for _ in range(100):
        if Path(f"/proc/{holder.pid}/comm").read_text() == "sleep\n":
            break
        time.sleep(0.02)
    return holder


def wire(host: Host, name: str, holder: int, switch: int) -> None:
    """Give the host its interfaces."""
    if host.loopback:
        run_ip(holder, "link set lo up")
    for interface, address in host.interfaces.items():
        if interface.startswith(("docker", "virbr")):
            run_ip(holder, f"link add {interface} type bridge")
        else:
            port = f"{name}-{interface}"[-15:]
            peer = f"type veth peer name {interface} netns {holder}"
            run_ip(switch, f"link add {port} {peer}")
            run_ip(switch, f"link set {port} up")
            if not host.isolated:
                run_ip(switch, f"link set {port} master bridge")
        run_ip(holder, f"addr add {address} dev {interface}")
        run_ip(holder, f"link set {interface} addrgenmode none")
        run_ip(holder, f"link set {interface} up")


@contextmanager
def cluster(hosts: Mapping[str, Host], names: Path | None) -> Iterator[dict[str, int]]:
    """The hosts, up and wired: host name to the process that holds it.

    ``names`` becomes their /etc/hosts; without it no address has a name.
    """
    if names:
        names_file(hosts, names)
    switch = hold("switch", "1m", None)
    holders = {"switch": switch}
    try:
        run_ip(switch.pid, "link add bridge type bridge")
        run_ip(switch.pid, "link set bridge up")
        for name, host in hosts.items():
            holders[name] = hold(name, host.shm, names)
            wire(host, name, holders[name].pid, switch.pid)
        time.sleep(0.5)
        yield {name: holder.pid for name, holder in holders.items()}
    finally:
        for holder in holders.values():
            holder.kill()
            holder.wait()
