"""Wording for suspects: the ranks to check first when there is no culprit.

A culprit is named by a finding, with a class and a confidence. A suspect has only a
share of the suspicion and a reason; the words used are "suspected" and "look at". A
culprit is never listed as a suspect as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ncclforensics.report.contract import Report, Suspect

FIRST = "Look here first (suspected, not accused)"
BESIDE = "Also suspected, not accused"
ALONE = "Suspected, not accused"  # of a verdict that names nobody


def suspects(report: Report) -> tuple[Suspect, ...]:
    """Return the suspects that are not culprits, the highest weight first."""
    if report.outcome != "failure" or report.verdict is None:
        return report.suspects
    sure = (
        f for f in report.findings if f.role == "root" and f.confidence != "possible"
    )
    accused = [f.culprits for f in (report.verdict, *sure)]
    ranks = {rank for culprits in accused for rank in culprits.ranks}
    # a finding that names hosts but no ranks covers all ranks on those hosts
    hosts = {host for named in accused if not named.ranks for host in named.hosts}
    return tuple(
        s for s in report.suspects if s.rank not in ranks and s.host not in hosts
    )


def comes_first(report: Report) -> bool:
    """Whether suspects go before everything else: if the outcome is not a failure."""
    return report.outcome != "failure"


def title(report: Report) -> str:
    """Return the heading of the list of suspects."""
    if comes_first(report):
        return FIRST
    named = report.verdict.culprits if report.verdict else None
    return BESIDE if named and (named.ranks or named.hosts) else ALONE


def share(suspect: Suspect) -> str:
    """Return a weight as "62 %"; near 0 or 1 as "<1 %" or ">99 %"."""
    if 0 < suspect.weight < 0.01:
        return "<1 %"
    if 0.99 < suspect.weight < 1:
        return ">99 %"
    return f"{suspect.weight * 100:.0f} %"


def name(suspect: Suspect) -> str:
    """Return "rank 13 on gpu0002"."""
    return f"rank {suspect.rank}" + (f" on {suspect.host}" if suspect.host else "")


def reason(suspect: Suspect) -> str:
    """Return the reason for a suspicion, and its first citation."""
    where = next((f" ({e.place})" for e in suspect.evidence if e.line), "")
    return f"{suspect.why}{where}"


def told(suspect: Suspect) -> str:
    """Return a suspect in one line: "rank 13 on gpu0002, 62 %: 15 wait for it"."""
    return f"{name(suspect)}, {share(suspect)}: {reason(suspect)}"


def brief(report: Report, room: int) -> str:
    """Name as many suspects as fit into `room` characters, but at least the first.

    "suspected: rank 13 on gpu0002 (62 %), rank 7 on gpu0001 (20 %), …"; "" if there are
    no suspects.
    """
    named = [f"{name(s)} ({share(s)})" for s in suspects(report)]
    tries = [f"suspected: {', '.join(named)}"] if named else [""]
    tries += [
        f"suspected: {', '.join(named[:n])}, …" for n in range(len(named) - 1, 0, -1)
    ]
    return next((text for text in tries if len(text) <= room), tries[-1])
