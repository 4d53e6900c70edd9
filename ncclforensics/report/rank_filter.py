"""Restricts a report to some ranks or groups, to inspect part of a large job.

Outcome, verdict and suspects concern the whole job and stay. Findings, files and notes
are kept only if they concern the requested ranks or group.
"""

from __future__ import annotations

import msgspec

from ncclforensics.model.folding import count, fold_ranks, name_ranks
from ncclforensics.report.contract import Finding, Note, Report

ASKED = "asked"


def narrow(
    report: Report, *, ranks: frozenset[int] = frozenset(), pg: str | None = None
) -> Report:
    """Return `report` restricted to `ranks` and process group `pg`.

    Empty `ranks` means all ranks; `pg` is the name or description of a group. The
    verdict's finding, which is the first, always stays. A note of the stage ASKED
    states the restriction, and whether nothing concerns what was asked for. Raises
    ValueError on ranks that the job does not have.
    """
    if not ranks and pg is None:
        return report
    size = report.job.world_size or 0
    if size and (beyond := {rank for rank in ranks if rank >= size}):
        raise ValueError(f"no rank {fold_ranks(beyond)} in this job of {size:,} ranks")
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
    hidden = count(len(report.findings) - len(kept), "other finding")
    told = Note(ASKED, f"{_about(kept, ranks, pg)}; {hidden} left out", None, None)
    return msgspec.structs.replace(
        report, findings=kept, sources=sources, notes=(told, *notes)
    )


def _about(findings: tuple[Finding, ...], ranks: frozenset[int], pg: str | None) -> str:
    """Return how many findings name the ranks, and concern the group."""
    named = sum(bool(ranks & {*f.culprits.ranks}) for f in findings)
    there = sum(pg in _groups(f) for f in findings)
    told = []
    if ranks:
        told.append(f"{count(named, 'finding')} on {name_ranks(ranks)}")
    if pg is not None:
        told.append(f"{count(there, 'finding')} on process group {pg!r}")
    return ", ".join(told)


def _groups(finding: Finding) -> set[str | None]:
    """Return the name and description of a finding's group."""
    call = finding.collective
    return set() if call is None else {call.process_group, call.process_group_desc}
