"""Checks the rank and host of a log's path against the log's own lines.

A Slurm task is a rank with one process per task, a node with torchrun, and neither in a
job array. A file named after one node may hold the output of all nodes. The lines
decide: torch labels them `[rank3]:`, torchrun `[default3]:`, NCCL `host:pid:tid`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_RANK = re.compile(rb"\[rank(\d{1,6})\]")
_LOCAL = re.compile(rb"\[default(\d{1,4})\]:")
# begins with a colon, which is fast to search for; the host precedes it
_NCCL = re.compile(
    rb":(\d{1,7}):\d{1,7} (?:\[\d+\] )?(?:\S{1,80} )??NCCL (?:INFO|WARN|CALL)"
)
_HOST = re.compile(rb"[\w.-]{1,80}\Z")


def objections(head: bytes, who: Mapping[str, int | str]) -> dict[str, str]:
    """Return the fields of `who` that lines in `head` contradict, with the reason."""
    against: dict[str, str] = {}
    if not who.keys() & {"rank", "host"}:
        return against
    if "rank" in who:
        ranks, locals_ = (_numbers(form, head) for form in (_RANK, _LOCAL))
        if others := ranks - {who["rank"]}:
            against["rank"] = f"its lines are those of rank {_few(others)}"
        elif len(locals_) > 1:
            against["rank"] = f"its lines are those of local ranks {_few(locals_)}"
        elif not ranks and len(pids := _numbers(_NCCL, head)) > 1:
            against["rank"] = f"its lines come from several processes: {_few(pids)}"
    if "host" in who:
        hosts = {_short(host) for host in _hosts(head)}
        if hosts - {_short(str(who["host"]))}:
            against["host"] = f"its lines come from {', '.join(sorted(hosts)[:4])}"
    return against


def is_of_one_rank(head: bytes) -> bool:
    """Whether torch labels the lines in `head` with one rank."""
    return len(set(_RANK.findall(head))) == 1


def _numbers(form: re.Pattern[bytes], head: bytes) -> set[int]:
    return {*map(int, {*form.findall(head)})}


def _hosts(head: bytes) -> set[str]:
    begins = (header.start() for header in _NCCL.finditer(head))
    before = {head[max(0, at - 80) : at].rpartition(b"\n")[2] for at in begins}
    found = map(_HOST.search, before)
    return {match[0].decode("ascii") for match in found if match}


def _short(host: str) -> str:
    return host.split(".")[0].lower()


def _few(numbers: set[int]) -> str:
    shown = ", ".join(map(str, sorted(numbers)[:4]))
    return f"{shown}, …" if len(numbers) > 4 else shown
