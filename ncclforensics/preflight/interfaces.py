"""Which interfaces NCCL and Gloo choose, by the variables that they read.

NCCL_SOCKET_IFNAME is a list of prefixes; `=` before it asks for whole names, `^` leaves
those out. Without it NCCL takes `ib*` first, then all but lo, docker and virbr, then
those. GLOO_SOCKET_IFNAME is a list of whole names. Checked against NCCL 2.27's
documentation and torch 2.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.preflight.results import Facts

Interface = dict[str, Any]
LAST = ("docker", "virbr", "lo")


def chosen(facts: Facts) -> list[Interface]:
    """Return the interfaces that NCCL would use for its sockets, in order."""
    has_address = [i for i in facts["interfaces"] if i["address"] or i["has_ipv6"]]
    asked = facts.variable("NCCL_SOCKET_IFNAME")
    if asked:
        return matching(has_address, asked)
    usable = [i for i in has_address if i["up"]]
    first = [i for i in usable if i["name"].startswith("ib")]
    return first or matching(usable, "^" + ",".join(LAST)) or usable


def matching(interfaces: Sequence[Interface], asked: str) -> list[Interface]:
    """Return the interfaces that a value of NCCL_SOCKET_IFNAME selects."""
    is_not, asked = asked.startswith("^"), asked.removeprefix("^")
    exact, asked = asked.startswith("="), asked.removeprefix("=")
    names = [name.partition(":")[0] for name in asked.split(",") if name]

    def selects(name: str) -> bool:
        return any(name == n if exact else name.startswith(n) for n in names)

    return [i for i in interfaces if selects(i["name"]) is not is_not]


def names(interfaces: Sequence[Interface]) -> str:
    """Return the names of interfaces, with commas, "none" if there is none."""
    return ", ".join(i["name"] for i in interfaces) or "none"
