"""Expands host names that Slurm folded: `gpu[0001-0003,0007],login01`."""

from __future__ import annotations

import re

_PART = re.compile(r"[^,\[\]\s]+(?:\[[\d,-]*\][^,\[\]\s]*)?|\[[\d,-]*\][^,\[\]\s]*")
_FOLDED = re.compile(r"([^\[\]]*)\[([\d,-]*)\](.*)")
MOST_HOSTS = 1 << 16


def expanded(text: str) -> list[str]:
    """Return the host names of a folded list, in order; at most MOST_HOSTS.

    Only one bracket per name is expanded; `(null)` and `None` are no hosts.
    """
    hosts: list[str] = []
    for part in _PART.findall(text):
        folded = _FOLDED.fullmatch(part)
        if folded is None:
            hosts.append(part)
            continue
        head, spans, tail = folded.groups()
        for span in spans.split(","):
            first, _, last = span.partition("-")
            if not first or len(first) > 9 or len(last) > 9:
                continue
            end = min(int(last or first), int(first) + MOST_HOSTS)
            hosts += [
                f"{head}{n:0{len(first)}d}{tail}" for n in range(int(first), end + 1)
            ]
        if len(hosts) > MOST_HOSTS:
            break
    return [host for host in hosts[:MOST_HOSTS] if host not in ("(null)", "None")]
