"""The two lines that open every answer and can be pasted into a ticket.

They depend on the outcome: a verdict, suspects, no failure, or what kept the tool from
an answer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ncclforensics.model.folding import count
from ncclforensics.report import suspect_phrases
from ncclforensics.report.coverage import interrupted, recognised, refused, unknown
from ncclforensics.report.phrases import heard, looked_at, others, perhaps, who
from ncclforensics.report.text_layout import shorten, two_ends

if TYPE_CHECKING:
    from ncclforensics.report.contract import Clue, Report, Verdict

_GROUP = re.compile(r" on process group (\S+) \([^)]*\)")
TICKET_WIDTH = 80  # the two opening lines are pasted into tickets
NOTHING_FAILED = "no-failure: nothing in this evidence failed"
CAUSE_UNSEEN = "inconclusive: something stopped, and its cause is not in this evidence"
SUSPECTED = "inconclusive: something stopped; ranks are suspected, none is accused"
NOT_ACCUSED = "; not accused"
JOB_UNSEEN = "inconclusive: nothing of the job itself is in this evidence"
UNKNOWN_FAILURE = (
    "inconclusive: a line reads like a failure that this tool does not know"
)
NOT_READ = "inconclusive: reading was interrupted, and what was read names no failure"
NOT_OPENED = "inconclusive: %s could not be read, and the others name no failure"
NOT_EVIDENCE = "inconclusive: nothing here was recognised as evidence"


def opening(report: Report) -> tuple[str, str]:
    """Return the two opening lines, fit for a ticket, at most 80 cells each."""
    verdict, clue = report.verdict, report.clue
    if clue is not None and clue.text and not interrupted(report):
        return _open(clue, report)
    if verdict is not None:
        return _named(verdict, report), _headline(verdict)
    suspected = suspect_phrases.brief(report, TICKET_WIDTH)
    looked = f"looked at {looked_at(report)}"
    if interrupted(report):
        first, second = NOT_READ, suspected or looked
    elif len(stories := [f for f in report.findings if f.role == "root"]) > 1:
        first = f"inconclusive: {len(stories)} explanations fit, nobody is accused"
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
    elif (note := unknown(report)) and not report.findings:
        first, second = UNKNOWN_FAILURE, note.text
    else:
        unseen = not (report.job.ranks_seen or report.chain or report.findings)
        first = JOB_UNSEEN if unseen else CAUSE_UNSEEN
        second = _would_tell(report)
    return first, shorten(second, TICKET_WIDTH)


def _open(clue: Clue, report: Report) -> tuple[str, str]:
    """Return the lines of a report that accuses nobody: its clue, then whom to see."""
    first = shorten(f"inconclusive: {clue.text}", TICKET_WIDTH)
    suspected = suspect_phrases.brief(report, TICKET_WIDTH - len(NOT_ACCUSED))
    second = f"{suspected}{NOT_ACCUSED}" if suspected else _settles(clue)
    return first, shorten(second, TICKET_WIDTH)


def _settles(clue: Clue) -> str:
    """Return which files would settle it, as many as fit, else who was heard."""
    tries = [" and ".join(clue.needed[:n]) for n in range(len(clue.needed), 0, -1)]
    told = [f"nobody is accused; needed: {files}" for files in tries]
    fit = (text for text in told if len(text) <= TICKET_WIDTH)
    return next(fit, f"nobody is accused; heard: {heard(clue)}")


def _named(verdict: Verdict, report: Report) -> str:
    """Return the first line of a report that has a verdict."""
    head = f"{perhaps(verdict)}{verdict.slug}: "
    if report.outcome == "inconclusive":
        head += "inconclusive, "
    # the confidence is stated once: at the start or at the end of the line; where the
    # outcome is open, that of a sign would read as one of the outcome
    is_said = perhaps(verdict) or report.outcome == "inconclusive"
    sure = "" if is_said else verdict.confidence
    room = TICKET_WIDTH - len(head) - (len(sure) + 2 if sure else 0)
    name = who(verdict.culprits, room) or "no rank accused"
    if report.outcome == "failure":
        name += _beside(verdict, report, room - len(name))
    asked = verdict.collective
    if asked is not None and asked.seq is not None:
        where = f", {asked.op or 'call'} SeqNum={asked.seq}"
        where = "" if f"SeqNum={asked.seq}" in _headline(verdict) else where
        name += where if len(name) + len(where) <= room else ""
    return two_ends(head + name, sure, TICKET_WIDTH) if sure else head + name


def _beside(verdict: Verdict, report: Report, room: int) -> str:
    """Name the first failure that is independent of the verdict, if it fits."""
    for other in others(report):
        sure = other.confidence != "possible" or verdict.confidence == "possible"
        if other.role == "root" and sure:
            named = [who(other.culprits), who(other.culprits).partition(" on ")[0]]
            tries = [f"; and {name}: {other.slug}" for name in named if name]
            return next((t for t in tries if len(t) <= room), "")
    return ""


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
