"""How suspects are worded: whom to check first, where nobody can be accused.

A culprit is named by a finding, with a class and a confidence. A suspect has a share of
the blame and a reason, and nothing more: the words for it are "suspected" and "look
at". Who is accused is never told as a suspect beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ncclforensics.report.contract import Report, Suspect

FIRST = "Look here first (suspected, not accused)"
BESIDE = "Also suspected, not accused"


def suspects(report: Report) -> tuple[Suspect, ...]:
    """Return the suspects whom the report does not accuse, the heaviest first."""
    if report.outcome != "failure" or report.verdict is None:
        return report.suspects
    sure = (
        f for f in report.findings if f.role == "root" and f.confidence != "possible"
    )
    accused = [f.culprits for f in (report.verdict, *sure)]
    ranks = {rank for culprits in accused for rank in culprits.ranks}
    # a finding that names hosts and no ranks accuses all that ran there
    hosts = {host for named in accused if not named.ranks for host in named.hosts}
    return tuple(
        s for s in report.suspects if s.rank not in ranks and s.host not in hosts
    )


def comes_first(report: Report) -> bool:
    """Say whether the suspects are what a reader has to see before all else."""
    return report.outcome != "failure"


def title(report: Report) -> str:
    """Return the heading of the list of suspects."""
    return FIRST if comes_first(report) else BESIDE


def share(suspect: Suspect) -> str:
    """Return a weight as "62 %"; what is nearly nothing or all is not rounded to it."""
    if 0 < suspect.weight < 0.01:
        return "<1 %"
    if 0.99 < suspect.weight < 1:
        return ">99 %"
    return f"{suspect.weight * 100:.0f} %"


def name(suspect: Suspect) -> str:
    """Return "rank 13 on gpu0002"."""
    return f"rank {suspect.rank}" + (f" on {suspect.host}" if suspect.host else "")


def reason(suspect: Suspect) -> str:
    """Return why somebody is suspected, and the first line that says so."""
    where = next((f" ({e.source}:{e.line})" for e in suspect.evidence if e.line), "")
    return f"{suspect.why}{where}"


def told(suspect: Suspect) -> str:
    """Return a suspect in one line: "rank 13 on gpu0002, 62 %: 15 wait for it"."""
    return f"{name(suspect)}, {share(suspect)}: {reason(suspect)}"


def brief(report: Report, room: int) -> str:
    """Name as many suspects as `room` holds, and the heaviest in any case.

    "suspected: rank 13 on gpu0002 (62 %), rank 7 on gpu0001 (20 %), …"; "" where nobody
    is suspected.
    """
    named = [f"{name(s)} ({share(s)})" for s in suspects(report)]
    tries = [f"suspected: {', '.join(named)}"] if named else [""]
    tries += [
        f"suspected: {', '.join(named[:n])}, …" for n in range(len(named) - 1, 0, -1)
    ]
    return next((text for text in tries if len(text) <= room), tries[-1])
