"""The entries of the findings pane: what was found, ruled out, and not checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncclforensics.model.folding import count
from ncclforensics.report import suspect_phrases
from ncclforensics.report.contract import Evidence
from ncclforensics.report.coverage import recognised
from ncclforensics.report.formats.text_parts import alike
from ncclforensics.report.phrases import (
    GIVE,
    call,
    clue,
    grouped,
    job,
    others,
    perhaps,
    sureness,
    who,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.report.contract import (
        Finding,
        Note,
        Report,
        Suspect,
        Verdict,
    )

MOST_CITES = 20
MOST_NOTES = 50


@dataclass(frozen=True, slots=True)
class Entry:
    """A selectable line: its label and text, the full text, and where it leads."""

    label: str
    text: str
    whole: str
    slug: str | None = None
    finding: Verdict | None = None
    cite: Evidence | None = None
    suspect: Suspect | None = None


def entries(report: Report) -> list[Entry]:
    """Return all entries: first the verdict, or the suspects if there is no failure."""
    suspects = [
        Entry(
            "suspect", told, f"{suspect_phrases.title(report)}\n{told}", suspect=suspect
        )
        for suspect in suspect_phrases.suspects(report)
        for told in (suspect_phrases.told(suspect),)
    ]
    found: list[Entry] = []
    if suspect_phrases.comes_first(report):
        found += suspects
    if report.clue is not None and report.clue.text:
        found.insert(0, Entry("open", report.clue.text, report.clue.text))
    found += [Entry(label, text, text) for label, text in clue(report)]
    verdict = report.verdict
    if verdict is not None:
        found.append(_finding("verdict", verdict, report))
        last = report.last_line
        if last is not None:
            # a narrow pane cuts at the end: what it says comes before where it stands
            text = f"{last.text}  {last.place}".strip()
            found.append(Entry("last", text, text, verdict.slug, verdict, last))
        found += [_cite(cite, verdict) for cite in verdict.evidence[:MOST_CITES]]
        found += [Entry("do", item, item, verdict.slug) for item in verdict.remedy]
    elif not recognised(report):
        found.append(Entry("do", GIVE, GIVE))
    if not suspect_phrases.comes_first(report):
        found += suspects
    for finding in others(report):
        found.append(_finding(finding.role, finding, report))
        found += [_cite(cite, finding) for cite in finding.evidence[:3]]
    for slugs, why in grouped((r.slug, r.why) for r in report.ruled_out):
        text = f"{slugs}: {why}"
        found.append(Entry("not", text, f"Ruled out: {text}", slugs.split(", ")[0]))
    unseen = grouped(
        (n.slug, f"{n.missing}; {n.next_time}") for n in report.not_checked
    )
    for slugs, why in unseen:
        text = f"{slugs}: {why}"
        found.append(
            Entry("unknown", text, f"Not checked: {text}", slugs.split(", ")[0])
        )
    if told := job(report.job):
        found.append(Entry("job", told, told))
    return found + [_notes(group) for group in alike(report.notes)]


def _notes(group: Sequence[Note]) -> Entry:
    """Return notes that differ only in digits as one entry, and where each is from."""
    first = group[0]
    texts = [f"{n.source}: {n.text}" if n.source else n.text for n in group]
    cite = first.source and Evidence(first.source, first.line, "")
    if len(group) == 1:
        return Entry("note", texts[0], texts[0], cite=cite or None)
    files = len({note.source for note in group if note.source})
    where = f", {count(files, 'file')}" if files else ""
    text = f"{len(group):,} times{where}: {first.text}"
    more = len(texts) - MOST_NOTES
    listed = texts[:MOST_NOTES] + ([f"and {more:,} more"] if more > 0 else [])
    return Entry("note", text, "\n".join([text, *listed]), cite=cite or None)


def _finding(label: str, finding: Verdict | Finding, report: Report) -> Entry:
    named = who(finding.culprits, 100)
    claim = f"{perhaps(finding)}{finding.slug}: {named or 'no rank accused'}"
    brief = f"{claim} ({sureness(finding, report)})"
    parts = [finding.headline, finding.explanation]
    if finding.collective is not None:
        parts.append(f"call: {call(finding.collective)}")
    if finding.first_seen is not None:
        parts.append(f"first seen {finding.first_seen}")
    parts += [f"do: {item}" for item in finding.remedy]
    parts += [f"see: {reference}" for reference in finding.references]
    whole = "\n".join(part for part in parts if part)
    return Entry(label, brief, f"{brief}\n{whole}", finding.slug, finding)


def _cite(cite: Evidence, finding: Verdict) -> Entry:
    text = f"{cite.place} {cite.text}".rstrip()
    return Entry("evidence", text, text, finding.slug, finding, cite)
