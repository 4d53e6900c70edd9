"""Phrases shared by renderers: culprits, calls, the two opening lines.

Terms are those of NCCL and torch (SeqNum, process group), so that grep finds them in
the raw log. Numbers have thousands separators.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ncclforensics.report import suspect_phrases
from ncclforensics.report.coverage import (
    interrupted,
    recognised,
    refused,
    unknown,
    was_read,
)
from ncclforensics.report.folding import count, fold_hosts, some
from ncclforensics.report.text_layout import shorten, two_ends

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncclforensics.report.contract import (
        Collective,
        Culprits,
        Finding,
        Job,
        Onset,
        Other,
        Report,
        Step,
        Verdict,
    )

_GROUP = re.compile(r" on process group (\S+) \([^)]*\)")
TICKET_WIDTH = 80  # the two opening lines are pasted into tickets

NOTHING_FAILED = "no-failure: nothing in this evidence failed"
CAUSE_UNSEEN = "inconclusive: something stopped, and its cause is not in this evidence"
SUSPECTED = "inconclusive: something stopped; ranks are suspected, none is accused"
JOB_UNSEEN = "inconclusive: nothing of the job itself is in this evidence"
UNKNOWN_FAILURE = "inconclusive: a line reads as a failure that is not known here"
NOT_READ = "inconclusive: reading was interrupted, and what was read names no failure"
NOT_OPENED = "inconclusive: %s could not be read, and the others name no failure"
NOT_EVIDENCE = "inconclusive: nothing here was recognised as evidence"
SPREAD = "0-56:8 is every 8th rank from 0 to 56."
GIVE = (
    "Give the directory that holds NCCL_DEBUG logs, torchrun or Slurm output, or"
    " Flight Recorder dumps."
)


def who(culprits: Culprits, room: int = 10_000) -> str:
    """Name the culprits in at most `room` characters; "" if there are none."""
    ranks, hosts, devices = culprits.ranks, culprits.hosts, culprits.devices
    gpu = f"GPU{'s' if len(devices) > 1 else ''} {','.join(devices)}" if devices else ""
    word = "rank" if len(ranks) == 1 else "ranks"
    where = fold_hosts(hosts)
    many = count(len(hosts), "host")
    if not ranks and not hosts:
        return shorten(gpu, room)
    if not ranks:
        whose = "host" if len(hosts) == 1 else "hosts"
        tries = [
            f"{whose} {where}{f' ({gpu})' if gpu else ''}",
            f"{whose} {where}",
            many,
        ]
    else:
        full = f"{word} {culprits.ranks_folded}"
        few = f"{word} {some(culprits.ranks_folded, 24)} ({len(ranks):,} in all)"
        at = f" on {where}" if hosts else ""
        about = f" on {many}" if hosts else ""
        tries = [f"{full}{at} ({gpu})"] if gpu else []
        tries += [full + at, full + about, few + about, count(len(ranks), "rank")]
    return next((t for t in tries if len(t) <= room), shorten(tries[-1], room))


def call(collective: Collective) -> str:
    """Name a call: "all_reduce SeqNum=7 in process group 35 (TP) at train.py:12"."""
    group = collective.process_group
    parts = [
        collective.op or "",
        "" if collective.seq is None else f"SeqNum={collective.seq}",
        "" if group is None else f"in process group {group}",
        f"({collective.process_group_desc})" if collective.process_group_desc else "",
        f"at {collective.call_site}" if collective.call_site else "",
    ]
    return " ".join(part for part in parts if part)


def job(job: Job) -> str:
    """Describe the job as far as it is known; "" if nothing is."""
    seen, size, hosts = job.ranks_seen, job.world_size, len(job.hosts)
    if size is None:
        ranks = f"{count(seen, 'rank')} seen" if seen else ""
    elif not seen or seen == size:
        ranks = count(size, "rank")
    elif seen < size:
        ranks = f"{seen:,} of {count(size, 'rank')} seen"
    else:
        ranks = f"{count(seen, 'rank')} seen, world size {size:,}"
    names = fold_hosts(job.hosts)
    where = names if hosts == 1 else count(hosts, "host")
    if hosts > 1 and len(names) <= 40:
        where += f" ({names})"
    parts = [
        " on ".join(part for part in (ranks, where if hosts else "") if part),
        f"NCCL {job.nccl_version}" if job.nccl_version else "",
        f"torch {job.torch_version}" if job.torch_version else "",
        job.launcher or "",
    ]
    return " · ".join(part for part in parts if part)


def step(step: Step) -> str:
    """Return a step of the chain: "1,022 x timeout: … (ranks 0-616,618-1023)"."""
    many = f"{step.count:,} x " if step.part == "seen" else ""
    name = f"{step.slug}: " if step.slug else ""
    word = "rank" if step.ranks_folded.isdigit() else "ranks"
    ranks = f" ({word} {some(step.ranks_folded, 40)})" if step.ranks_folded else ""
    # most headlines already name their ranks
    return f"{many}{name}{step.text}{ranks if step.part == 'seen' else ''}"


def onset(onset: Onset) -> str:
    """Say when the job stopped, when that was noticed, and the GPU hours lost."""
    told = f"stopped {onset.stopped[:23]}Z"
    if onset.hidden_seconds is None:
        return told
    hidden = f"{onset.hidden_seconds:,} s"
    if onset.hidden_seconds >= 180:
        hidden = f"{onset.hidden_seconds / 60:,.0f} min"
    told += f", noticed {hidden} later" if onset.hidden_seconds else ", noticed at once"
    if onset.ranks is None or onset.gpu_hours in (None, "0.00"):
        return told
    return f"{told}: {onset.ranks:,} GPUs x {hidden} = {onset.gpu_hours} GPU hours"


def beside(told: Other) -> str:
    """Describe the outcome of another job or attempt: "attempt 0: crashed-rank: …"."""
    name = f"job {told.job}" if told.job is not None else f"attempt {told.attempt}"
    what = f"{told.slug}: {told.headline}" if told.slug else told.headline
    where = next((f" ({e.source}:{e.line})" for e in told.evidence if e.line), "")
    return f"{name}: {what}{where}"


def looked_at(report: Report) -> str:
    """Say how much was read: "12 files of 8 ranks, 2 not recognised"."""
    unread = sum(not was_read(source) for source in report.sources)
    text = count(len(report.sources), "file")
    if report.job.ranks_seen:
        text += f" of {count(report.job.ranks_seen, 'rank')}"
    return f"{text}, {unread:,} not recognised" if unread else text


def opening(report: Report) -> tuple[str, str]:
    """Return the two opening lines, fit for a ticket, at most 80 cells each."""
    verdict = report.verdict
    if verdict is not None:
        return _named(verdict, report), _headline(verdict)
    suspected = suspect_phrases.brief(report, TICKET_WIDTH)
    looked = f"looked at {looked_at(report)}"
    if interrupted(report):
        first, second = NOT_READ, suspected or looked
    elif len(stories := [f for f in report.findings if f.role == "root"]) > 1:
        first = f"inconclusive: {len(stories)} stories fit, nobody is accused"
        second = "; or ".join(f"{f.slug}: {who(f.culprits, 40)}" for f in stories)
    elif not recognised(report):
        first, second = NOT_EVIDENCE, looked
    elif report.outcome == "no-failure":
        first = NOTHING_FAILED
        second = f"not a clean bill of health; {looked}"
    elif (closed := refused(report)) and not (report.chain or report.findings):
        first = NOT_OPENED % count(closed, "file")
        second = suspected or looked
    elif suspected:
        first, second = SUSPECTED, suspected
    elif (line := unknown(report)) and not report.findings:
        first, second = UNKNOWN_FAILURE, line
    else:
        unseen = not (report.job.ranks_seen or report.chain or report.findings)
        first = JOB_UNSEEN if unseen else CAUSE_UNSEEN
        second = _would_tell(report)
    return first, shorten(second, TICKET_WIDTH)


def _named(verdict: Verdict, report: Report) -> str:
    """Return the first line of a report that has a verdict."""
    head = f"{perhaps(verdict)}{verdict.slug}: "
    if report.outcome == "inconclusive":
        head += "inconclusive, "
    # the confidence is stated once: at the start or at the end of the line
    sure = "" if perhaps(verdict) else verdict.confidence
    room = TICKET_WIDTH - len(head) - (len(sure) + 2 if sure else 0)
    name = who(verdict.culprits, room) or "no rank accused"
    if report.outcome == "failure":
        name += _beside(report, room - len(name))
    asked = verdict.collective
    if asked is not None and asked.seq is not None:
        where = f", {asked.op or 'call'} SeqNum={asked.seq}"
        where = "" if f"SeqNum={asked.seq}" in _headline(verdict) else where
        name += where if len(name) + len(where) <= room else ""
    return two_ends(head + name, sure, TICKET_WIDTH) if sure else head + name


def perhaps(finding: Verdict) -> str:
    """Return the prefix "possible: " for a finding that is only possible, else ""."""
    return "possible: " if finding.confidence == "possible" else ""


def _beside(report: Report, room: int) -> str:
    """Name the first failure that is independent of the verdict, if it fits."""
    for other in others(report):
        if other.role == "root" and other.confidence != "possible":
            named = [who(other.culprits), who(other.culprits).partition(" on ")[0]]
            tries = [f"; and {name}: {other.slug}" for name in named if name]
            return next((t for t in tries if len(t) <= room), "")
    return ""


def also(report: Report) -> tuple[str, ...]:
    """Name the failures that are independent of the verdict, one line each."""
    if report.outcome != "failure":
        return ()
    roots = (f for f in others(report) if f.role == "root")
    return tuple(
        f"and {who(f.culprits, 200) or 'no rank accused'}: {f.slug}: {f.headline}"
        for f in roots
        if f.confidence != "possible"
    )


def _headline(verdict: Verdict) -> str:
    """Return the headline; if too long, without the group that `call` names as well."""
    told = verdict.headline
    shorter = told.replace(" on process group ", " on pg ")
    tries = [told, shorter]
    if verdict.collective is not None and verdict.collective.process_group is not None:
        tries += [_GROUP.sub(r" on pg \1", told), _GROUP.sub("", told)]
    fit = (words for words in tries if len(words) <= TICKET_WIDTH)
    return next(fit, shorten(shorter, TICKET_WIDTH))


def _would_tell(report: Report) -> str:
    """Return what would have shown the cause, else the first sign of failure."""
    if report.not_checked:
        return f"next time: {report.not_checked[0].next_time}"
    if report.findings:
        return f"first sign: {report.findings[0].headline}"
    return "no class fits; ncclforensics evidence PATH shows what was read"


def others(report: Report) -> tuple[Finding, ...]:
    """Return the findings other than the verdict."""
    return report.findings if report.verdict is None else report.findings[1:]


def grouped(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Group (class, reason) pairs by reason, in order; classes are comma-separated."""
    groups: dict[str, list[str]] = {}
    for slug, reason in pairs:
        groups.setdefault(reason, []).append(slug)
    return [(", ".join(slugs), reason) for reason, slugs in groups.items()]
