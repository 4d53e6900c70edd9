"""What only several nodes together show: clocks that differ, and who reaches whom."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ncclforensics.model.folding import count
from ncclforensics.preflight.differences import Difference
from ncclforensics.preflight.interfaces import chosen
from ncclforensics.preflight.results import UnknownError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncclforensics.preflight.results import Facts

MOST_OFFSET_S = 1.0
WORDS = {"none": "is not reached", "narrow": "is reached by small packets only"}
DO = {
    "none": "ip route get ADDRESS on both nodes; firewall and VLAN of the odd one",
    "narrow": "ip link show; the MTU of the switch ports on the path",
}


def clocks(
    nodes: Mapping[str, Facts], asked: Mapping[str, tuple[float, float]]
) -> list[Difference]:
    """Return the nodes whose clock is off, compared with this machine's.

    `asked` is when each node was asked and had answered, in seconds since 1970 here: a
    node's time has to lie between them.
    """
    off: dict[str, float] = {}
    for name, facts in nodes.items():
        try:
            now, (begun, ended) = float(facts["clock"]["now"]), asked[name]
        except (UnknownError, KeyError, TypeError, ValueError):
            continue
        late = max(begun - now, now - ended)
        if late > MOST_OFFSET_S:
            off[name] = now - ended if now > ended else now - begun
    if not off:
        return []
    if len(off) > 1 and 2 * len(off) > len(nodes):
        text, who = "most nodes differ from the clock of this machine", ()
        return [
            Difference("clock", "warning", who, text, "timedatectl, here and there")
        ]
    text = ", ".join(f"{seconds:+.0f} s on {name}" for name, seconds in off.items())
    do = "systemctl status chronyd on the odd node"
    return [Difference("clock", "failed", tuple(off), text, do)]


def ring(nodes: Mapping[str, Facts]) -> dict[str, str]:
    """Return the address of each node that NCCL would use, by node; IPv4 alone."""
    found = {}
    for name, facts in nodes.items():
        try:
            used = [i["address"] for i in chosen(facts) if i["name"] != "lo"]
        except (UnknownError, KeyError, TypeError):
            continue
        if address := next(filter(None, used), None):
            found[name] = address
    return found


def reach(nodes: Mapping[str, Facts], addresses: Mapping[str, str]) -> list[Difference]:
    """Return the nodes that their neighbours do not reach, or by small packets only.

    A failed ping has two ends. The end that fails with all its neighbours while the
    other end reaches somebody is the odd one.
    """
    of = {address: name for name, address in addresses.items()}
    pairs: list[tuple[str, str, str]] = []
    for name, facts in nodes.items():
        try:
            rows = facts["reached"]
        except UnknownError:
            continue
        pairs += [
            (name, of[r["address"]], r["answer"]) for r in rows if r["address"] in of
        ]
    good = Counter(n for a, b, answer in pairs if answer == "good" for n in (a, b))
    found = []
    for answer, words in WORDS.items():
        failed = [(a, b) for a, b, told in pairs if told == answer]
        ends = Counter(n for pair in failed for n in pair)
        most = max(ends.values(), default=0)
        odd = {n for n in ends if not good[n]} or {n for n in ends if ends[n] == most}
        # with both ends of every pair among them nobody is told from the others
        is_clear = all((a in odd) is not (b in odd) for a, b in failed)
        if failed:
            (a, b), many = failed[0], count(len(failed), "pair")
            text = f"{addresses[b]} of {b} {words} from {a} ({many} of {len(pairs):,})"
            who = tuple(sorted(odd)) if is_clear else ()
            found.append(Difference("reach", "failed", who, text, DO[answer]))
    return found
