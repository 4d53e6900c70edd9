"""Builds the report from ranked findings and frames.

Here, text from logs is sanitized and truncated, references and families are read from
the classes, and unbounded lists are capped. A note says what a limit hides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ncclforensics import __version__
from ncclforensics.model import findings
from ncclforensics.model.folding import fold_hosts, fold_ranks, natural
from ncclforensics.report import causal_chain, file_facts, suspect_phrases
from ncclforensics.report import contract as c
from ncclforensics.report.class_docs import Documented, references
from ncclforensics.report.coverage import interrupted, recognised, refused
from ncclforensics.report.rfc3339 import rfc3339
from ncclforensics.report.sanitize import line, paragraphs

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

NAME, HEADLINE, REASON, QUOTE, PROSE = 300, 300, 400, 400, 4000  # characters
MOST_CITES = 1000
MOST_NOTES = 10_000
MOST_OF_OTHERS = 2  # cites
NO_COURSE = findings.Course()

Classes = Mapping[str, Documented]


def build(
    ranked: findings.Ranked,
    frames: Frames,
    classes: Classes,
    course: findings.Course = NO_COURSE,
) -> c.Report:
    """Return the report of one analysis.

    `frames` provides `sources` and `notes`. `classes` maps every possible failure class
    to its diagnoser; raises KeyError on a finding of an unknown class.
    """
    verdict = None if ranked.verdict is None else _verdict(ranked.verdict, classes)
    report = c.Report(
        schema_version=c.SCHEMA_VERSION,
        tool=c.Tool("ncclforensics", __version__),
        outcome=ranked.outcome,
        verdict=verdict,
        suspects=tuple(map(_suspect, ranked.suspects[: findings.MOST_SUSPECTS])),
        findings=tuple(
            _finding(role, f, classes, causal_chain.explained_by(ranked, number))
            for number, (role, f) in enumerate(ranked.findings)
        ),
        ruled_out=tuple(
            c.RuledOut(r.slug, line(r.why, PROSE), evidence(r.evidence))
            for r in ranked.ruled_out
        ),
        not_checked=tuple(
            c.NotChecked(n.slug, line(n.missing, PROSE), line(n.next_time, PROSE))
            for n in ranked.not_checked
        ),
        job=_job(ranked.job),
        sources=_sources(frames),
        notes=_notes(frames, [f for _, f in ranked.findings]),
        chain=causal_chain.chain(ranked, course, evidence),
        onset=causal_chain.onset(course.onset, evidence),
        clue=_clue(course.clue),
        last_line=next(iter(evidence([c for c in [course.last_line] if c])), None),
        fastest_gain=_gain(course.gain),
    )
    unread = interrupted(report) is not None or not recognised(report)
    if report.outcome == "no-failure" and (unread or refused(report)):
        # unread evidence may contain a failure
        return msgspec.structs.replace(report, outcome="inconclusive")
    return report


def other(report: c.Report, job: str | None, attempt: int | None) -> c.Other:
    """Summarize the report of another job or attempt."""
    verdict = report.verdict if report.outcome == "failure" else None
    unseen = "nothing failed" if report.outcome == "no-failure" else "cause not seen"
    if verdict is None and (suspected := suspect_phrases.brief(report, NAME)):
        unseen += f"; {suspected}"
    return c.Other(
        job=_name(job),
        attempt=attempt,
        outcome=report.outcome,
        slug=None if verdict is None else verdict.slug,
        headline=unseen if verdict is None else verdict.headline,
        culprits=c.Culprits((), "", (), ()) if verdict is None else verdict.culprits,
        evidence=() if verdict is None else verdict.evidence[:MOST_OF_OTHERS],
    )


def _verdict(finding: findings.Finding, classes: Classes) -> c.Verdict:
    """Convert a finding to the contract's Verdict."""
    entry = classes[finding.slug]
    lies = entry.variants.get(finding.variant, entry)
    call = finding.collective
    return c.Verdict(
        slug=finding.slug,
        family=cast("c.Family", entry.family),
        confidence=finding.confidence,
        headline=line(finding.headline, HEADLINE),
        culprits=c.Culprits(
            tuple(sorted(set(finding.ranks))),
            fold_ranks(finding.ranks),
            _names(finding.hosts),
            _names(finding.devices),
        ),
        collective=None
        if call is None
        else c.Collective(
            _name(call.process_group),
            _name(call.process_group_desc),
            call.seq,
            _name(call.op),
            _name(call.call_site),
        ),
        first_seen=rfc3339(finding.first_seen),
        evidence=evidence(finding.evidence),
        explanation=paragraphs(finding.explanation, PROSE),
        remedy=tuple(line(str(item), PROSE) for item in finding.remedy),
        references=references(entry.doc),
        domain=cast("c.Domain", lies.domain),
        restart=_restart(
            lies.restart,
            () if finding.reports else _names(finding.drain or finding.hosts),
        ),
    )


def _restart(told: str, hosts: Sequence[str]) -> str:
    """Return when to start again, with the hosts; unknown where these are."""
    if findings.HOST not in told:
        return told
    return told.replace(findings.HOST, fold_hosts(hosts)) if hosts else "unknown"


def _finding(
    role: findings.Role,
    finding: findings.Finding,
    classes: Classes,
    explained_by: str | None,
) -> c.Finding:
    """Convert a finding to the contract's Finding, with its role."""
    fields = msgspec.structs.asdict(_verdict(finding, classes))
    return c.Finding(**fields, role=role, explained_by=explained_by)


def _suspect(suspect: findings.Suspect) -> c.Suspect:
    """Convert a suspect; its weight is rounded to three places."""
    return c.Suspect(
        rank=suspect.rank,
        host=_name(suspect.host),
        weight=round(min(max(suspect.weight, 0.0), 1.0), 3),
        why=line(suspect.why, REASON),
        evidence=evidence(suspect.evidence),
    )


def _clue(clue: findings.Clue | None) -> c.Clue | None:
    """Convert a clue, with its ranks folded."""
    if clue is None:
        return None
    return c.Clue(
        text=line(clue.text, HEADLINE),
        ranks=clue.ranks,
        heard=fold_ranks(clue.heard),
        silent=fold_ranks(clue.silent),
        reporters=_names(clue.reporters),
        timed_out=fold_ranks(clue.timed_out),
        stood=tuple(
            c.Stood(fold_ranks(s.ranks), _name(s.op), s.seq, _name(s.process_group))
            for s in clue.stood
        ),
        needed=tuple(line(what, REASON) for what in clue.needed),
    )


def _gain(gain: findings.Gain | None) -> c.Gain | None:
    """Convert a gain; its share is rounded to three places."""
    if gain is None:
        return None
    folded, share = fold_ranks(gain.ranks), round(min(gain.share, 1.0), 3)
    text = line(gain.text, HEADLINE)
    return c.Gain(gain.ranks, folded, _names(gain.hosts), share, text)


def evidence(cites: Sequence[findings.Cite]) -> tuple[c.Evidence, ...]:
    """Return the first MOST_CITES cites, sanitized, without duplicates, in order."""
    return tuple(
        c.Evidence(
            line(cite.source, NAME), cite.line, line(cite.text, QUOTE), cite.counts
        )
        for cite in dict.fromkeys(cites[:MOST_CITES])
    )


def _notes(frames: Frames, told: Sequence[findings.Finding]) -> tuple[c.Note, ...]:
    """Return the notes by file and line, followed by notes on what limits hide."""
    notes = [
        c.Note(
            line(row["stage"] or "", NAME),
            line(row["text"] or "", QUOTE),
            _name(row["source"]),
            row["line"],
        )
        for row in frames["notes"].iter_rows(named=True)
    ]
    notes.sort(key=lambda n: (n.source or "", n.line or 0, n.stage, n.text))
    hidden = [
        f"{f.slug}: {MOST_CITES} of {len(f.evidence)} cited lines are kept"
        for f in told
        if len(f.evidence) > MOST_CITES
    ]
    if len(notes) > MOST_NOTES:
        hidden.append(f"{MOST_NOTES} of {len(notes)} notes are kept")
    return (
        *notes[:MOST_NOTES],
        *(c.Note("report", text, None, None) for text in hidden),
    )


def _sources(frames: Frames) -> tuple[c.SourceFile, ...]:
    """Return the files of the evidence, sorted by name."""
    known = file_facts.facts(frames)
    files = [
        c.SourceFile(
            source=line(row["source"], NAME),
            kind=line(row["kind"] or "unknown", NAME),
            why=line(row["why"] or "", NAME),
            rank=row["rank"],
            local_rank=row["local_rank"],
            host=_name(row["host"]),
            attempt=row["attempt"],
            stream=_name(row["stream"]),
            bytes=row["bytes"],
            lines=row["lines"],
            rows=row["rows"],
            sha256=_name(row["sha256"]),
            **_told(known.get(row["source"])),
        )
        for row in frames["sources"].iter_rows(named=True)
    ]
    return tuple(sorted(files, key=lambda file: file.source))


def _told(facts: Mapping[str, Any] | None) -> dict[str, Any]:
    """Convert what the rows of a file tell of it; nothing if it has none."""
    if facts is None:
        return {}
    return {
        "ranks": fold_ranks(facts["ranks"]),
        "hosts": _names(facts["hosts"]),
        "dialects": tuple(facts["dialects"] or ()),
        "first": rfc3339(facts["first"]),
        "last": rfc3339(facts["last"]),
    }


def _job(job: Mapping[str, Any]) -> c.Job:
    """Convert the known facts about the job; a missing key is null."""
    return c.Job(
        world_size=job.get("world_size"),
        ranks_seen=job.get("ranks_seen"),
        ranks_placed=job.get("ranks_placed"),
        hosts=_names(job.get("hosts") or ()),
        nccl_version=_name(job.get("nccl_version")),
        torch_version=_name(job.get("torch_version")),
        launcher=_name(job.get("launcher")),
    )


def _name(text: str | None) -> str | None:
    """Return a sanitized name; None stays None."""
    return None if text is None else line(text, NAME)


def _names(texts: Sequence[str]) -> tuple[str, ...]:
    """Return sanitized, distinct names in natural order: gpu2 before gpu10."""
    return tuple(sorted({line(text, NAME) for text in texts}, key=natural))
