"""What torch's own analyzer of Flight Recorder dumps says of calls that did not match.

It reads one group after the other and knows no waits between groups: a rank that waits
in another group, or in a message, is missing in its report all the same. So only ranks
that each of its reports lists are named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import common
from ncclforensics.model.findings import Finding

if TYPE_CHECKING:
    from ncclforensics.model.actions import Action
    from ncclforensics.model.findings import Collective
    from ncclforensics.model.frames import Frames

TYPE = "COLLECTIVE_TYPE_MISMATCH"
SIZE = ("SIZE_OR_SYNTAX_MISMATCH", "COLLECTIVE_DTYPE_MISMATCH")
SAID = "torch's Flight Recorder analyzer says so"


@dataclass(frozen=True, slots=True)
class Report:
    """The reports as `lines`, the call of the first, and the global ranks they name.

    `said` tells whose report it is, as a sentence.
    """

    lines: pl.DataFrame
    ranks: tuple[int, ...]
    came: tuple[int, ...]
    call: Collective
    said: str = SAID

    @property
    def is_of_one(self) -> bool:
        """Whether a single rank of several came: the call may be that rank's alone."""
        return len(self.came) == 1 < len(self.ranks)


def not_joined(frames: Frames) -> Report | None:
    """Return the ranks that are missing in all reports; `came` joined the first call.

    None if there is no such report, or if its groups contradict each other.
    """
    lines = frames.message("c10d.analyzer.not_joined")
    if "missing" not in lines.columns:
        return None
    lines = lines.drop_nulls("missing")
    listed = [set(ranks) for ranks in lines["missing"].to_list()]
    ranks = set.intersection(*listed) if listed else set()
    if not ranks:
        return None
    first = lines.row(0, named=True)
    came = {*(first["expected"] or ())} - listed[0]
    call = common.collective(frames, first)
    return Report(lines, tuple(sorted(ranks)), tuple(sorted(came)), call)


def differing(frames: Frames, *kinds: str) -> Report | None:
    """Return the smaller side of the first call in which ranks differ by `kinds`.

    The analyzer calls whoever differs from the group's first rank a culprit. Where all
    others do, that rank is the odd one; of two equal sides none is, and `ranks` is
    empty.
    """
    lines = frames.message("c10d.analyzer.mismatch")
    if "differ_in" not in lines.columns:
        return None
    lines = lines.filter(pl.col("differ_in").is_in(kinds))
    lines = lines.filter(pl.any_horizontal(pl.col("expected", "size").is_not_null()))
    for first in lines.head(1).iter_rows(named=True):
        theirs = {*first["differing"]}
        others = {*(first["expected"] or ())} - theirs
        # up to torch 2.5 the members are only counted
        few = 2 * len(theirs) - (len(first["expected"] or ()) or first["size"])
        odd = theirs if few < 0 else others if few > 0 else set()
        call = common.collective(frames, first)
        return Report(lines.head(1), tuple(sorted(odd)), tuple(sorted(others)), call)
    return None


def mismatch(
    frames: Frames, told: Report, slug: str, remedy: tuple[str | Action, ...]
) -> Finding:
    """Return the finding for a report of `differing`."""
    who = common.ranks(told.ranks) if told.ranks else "one of two equal sides"
    kind = str(told.lines["differ_in"][0]).lower().replace("_", " ")
    return Finding(
        slug=slug,
        confidence="likely",
        headline=f"{who} differs from the others in {common.call_words(told.call)}",
        evidence=common.cites(told.lines),
        explanation=f"{SAID}: {kind}. It compares all ranks with the first of the "
        "group; the smaller side is named.",
        remedy=remedy,
        ranks=told.ranks,
        hosts=common.hosts_of(frames, told.ranks),
        collective=told.call,
        first_seen=common.first_seen(told.lines),
    )
