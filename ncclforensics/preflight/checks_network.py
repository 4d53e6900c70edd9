"""Checks of one node's network: what NCCL would use, and whether it leads anywhere.

A check's docstring says what it looks at, why that matters, and what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.preflight.interfaces import chosen, matching, names

if TYPE_CHECKING:
    from ncclforensics.preflight.results import Facts, Found

ACTIVE = "ACTIVE"


def socket_interface(facts: Facts) -> Found:
    """NCCL_SOCKET_IFNAME names an interface of this node.

    A name that no interface has leaves NCCL without one: it fails with `no socket
    interface found`, on this node alone.

    Do: set NCCL_SOCKET_IFNAME to a prefix that holds on every node (`ip -br addr`), or
    unset it.
    """
    asked, here = facts.variable("NCCL_SOCKET_IFNAME"), facts["interfaces"]
    if not asked:
        return f"not set, NCCL would take {names(chosen(facts)[:1])}"
    found = matching(here, asked)
    if not found:
        return "failed", f"NCCL_SOCKET_IFNAME={asked}: here are {names(here)}"
    if not chosen(facts):
        return "failed", f"NCCL_SOCKET_IFNAME={asked}: {names(found)} has no address"
    return f"NCCL_SOCKET_IFNAME={asked}: {names(chosen(facts))}"


def gloo_interface(facts: Facts) -> Found:
    """GLOO_SOCKET_IFNAME names interfaces of this node, by their whole names.

    Gloo takes no prefix: an unknown name ends init_process_group with `Unable to find
    address for`.

    Do: set GLOO_SOCKET_IFNAME to a whole name from `ip -br addr`, or unset it.
    """
    asked = facts.variable("GLOO_SOCKET_IFNAME")
    if not asked:
        return "not set"
    here = {i["name"] for i in facts["interfaces"] if i["address"] or i["has_ipv6"]}
    missing = [name for name in asked.split(",") if name not in here]
    if missing:
        return "failed", f"GLOO_SOCKET_IFNAME={asked}: no {', '.join(missing)} here"
    return f"GLOO_SOCKET_IFNAME={asked}"


def link_up(facts: Facts) -> Found:
    """The interfaces that NCCL would use are up.

    NCCL connects through an interface that is down until its peers time out.

    Do: `ip link show`, and the switch port; or leave this node out.
    """
    used = chosen(facts)
    if not used:
        down = [i for i in facts["interfaces"] if i["is_device"] and not i["up"]]
        return "failed", f"no interface is up and has an address; down: {names(down)}"
    down = [i for i in used if not i["up"]]
    if down:
        return "failed", f"{names(down)} is {down[0]['state'] or 'down'}"
    return names(used)


def mtu(facts: Facts) -> Found:
    """The interfaces that NCCL_SOCKET_IFNAME names have one MTU.

    Large messages over the narrower one get lost where the path does not fragment.
    Without the variable NCCL may take any interface, and those of different networks
    have MTUs of their own.

    Do: ip link set dev IFACE mtu N, alike on all nodes and switches
    """
    used = [i for i in chosen(facts) if i["name"] != "lo"]
    told = ", ".join(f"{i['name']} {i['mtu']}" for i in used) or "none but lo"
    is_named = bool(facts.variable("NCCL_SOCKET_IFNAME"))
    return ("failed", told) if is_named and len({i["mtu"] for i in used}) > 1 else told


def infiniband_ports(facts: Facts) -> Found:
    """The InfiniBand and RoCE ports are active, those of NCCL_IB_HCA above all.

    NCCL leaves a port that is down aside: the node then has less bandwidth than the
    others, or none.

    Do: `ibstat`, `rdma link`; reseat the cable, or name the active ones in NCCL_IB_HCA.
    """
    ports = facts["infiniband"]
    if not ports:
        return "unknown", "this node has no InfiniBand or RoCE device"
    asked = facts.variable("NCCL_IB_HCA") or ""
    rows = [{**p, "name": p["device"]} for p in ports]
    mine = matching(rows, asked) if asked else rows
    if not mine:
        devices = ", ".join(sorted({p["device"] for p in ports}))
        return "failed", f"NCCL_IB_HCA={asked}: here are {devices}"
    down = [
        f"{p['device']}:{p['port']} {p['state']}" for p in mine if p["state"] != ACTIVE
    ]
    if down:
        text = ", ".join(down)
        # without a choice, a port that nobody uses is no failure
        return ("failed" if asked or len(down) == len(mine) else "warning"), text
    return f"{len(mine)} active, {mine[0]['rate']}"


def master(facts: Facts) -> Found:
    """MASTER_ADDR resolves, and its host answers on MASTER_PORT.

    All ranks meet there first. Before the start nobody listens, so a refused connection
    is a good sign: the host is reached. One that is accepted is of another job.

    Do: `getent hosts $MASTER_ADDR`, then routes and firewalls from this node to it.
    """
    told = facts["master"]
    if not told:
        return "unknown", "MASTER_ADDR is not set"
    where = f"{told['name']}:{told['port']}"
    if not told["addresses"]:
        return "failed", f"{where} does not resolve: {told['answer']}"
    loop = [a for a in told["addresses"] if a.startswith("127.") or a == "::1"]
    if loop and told["name"] not in ("localhost", *loop):
        # Debian's own /etc/hosts does that on the host itself
        return "warning", f"{told['name']} resolves to {loop[0]} on this node"
    if told["answer"] == "open":
        return "warning", f"{where} is in use already: by this job, or port-in-use"
    if told["answer"] != "refused":
        return "failed", f"{where} cannot be reached: {told['answer']}"
    return f"{where} is reached"


CHECKS = (socket_interface, gloo_interface, link_up, mtu, infiniband_ports, master)
