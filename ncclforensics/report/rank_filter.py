"""Restricts a report to some ranks or groups, to inspect part of a large job.

Outcome, verdict and suspects concern the whole job and stay. Findings, files and notes
are kept only if they concern the requested ranks or group.
"""

from __future__ import annotations

import msgspec

from ncclforensics.report.contract import Finding, Note, Report
from ncclforensics.report.folding import count


def narrow(
    report: Report, *, ranks: frozenset[int] = frozenset(), pg: str | None = None
) -> Report:
    """Return `report` restricted to `ranks` and process group `pg`.

    Empty `ranks` means all ranks; `pg` is the name or description of a group. The
    verdict's finding, which is the first, always stays. A note states the restriction.
    """
    if not ranks and pg is None:
        return report
    kept = report.findings[:1] if report.verdict is not None else ()
    kept += tuple(
        finding
        for finding in report.findings[len(kept) :]
        if (not ranks or ranks & set(finding.culprits.ranks))
        and (pg is None or pg in _groups(finding))
    )
    sources = tuple(s for s in report.sources if not ranks or s.rank in ranks)
    names = {source.source for source in sources}
    notes = tuple(n for n in report.notes if not ranks or n.source in names)
    hidden = len(report.findings) - len(kept)
    told = Note(
        "report", f"narrowed as asked: {count(hidden, 'finding')} left out", None, None
    )
    return msgspec.structs.replace(
        report, findings=kept, sources=sources, notes=(*notes, told)
    )


def _groups(finding: Finding) -> set[str | None]:
    """Return the name and description of a finding's group."""
    call = finding.collective
    return set() if call is None else {call.process_group, call.process_group_desc}
