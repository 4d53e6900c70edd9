"""Ranks of which nothing was collected: dead, or their files were lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.evidence import common
from ncclforensics.theory import sides
from ncclforensics.theory.story import Story

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.theory.case import Case, End


def propose(case: Case, end: End) -> Iterator[Story]:
    """Blame the unseen ranks that everybody at an end hangs on."""
    unseen = end.ranks if end.kind == "unseen" else end.unseen
    calls = [c for n in end.calls if (c := case.calls[n])["unseen"]]
    if not unseen or not calls:
        return
    call = max(calls, key=lambda c: (not c["is_p2p"], len(c["waiting"]), -c["call"]))
    hosts = common.hosts_of(case.frames, unseen)
    there = common.ranks_on(case.frames, hosts)
    whole = len(unseen) > 1 and len(hosts) == 1 and {*there} <= {*unseen}
    yield Story(
        "node-lost" if whole else "crashed-rank",
        tuple(unseen),
        call,
        what="lost",
        costs=(
            ("lost", 1.0),
            # what took one of them may have taken all: a host, a way to the files
            ("kin", len(unseen) - 1),
            *sides.unexplained(case, end, ()),
        ),
    )
