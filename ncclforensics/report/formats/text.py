"""Renders the text answer: two self-contained lines, then why, where, what to do.

Text from a log follows its `path:line` or a bar, so that none of it can pass for a line
of the report. Long lists end with the number of hidden entries and how to see them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.cells import cell_len

from ncclforensics.report import suspect_phrases
from ncclforensics.report.coverage import recognised
from ncclforensics.report.folding import count
from ncclforensics.report.opening_lines import opening
from ncclforensics.report.phrases import (
    GIVE,
    beside,
    call,
    grouped,
    job,
    onset,
    others,
    perhaps,
    restart,
    step,
    who,
)
from ncclforensics.report.sanitize import ELLIPSIS
from ncclforensics.report.text_layout import (
    LABEL,
    Row,
    fold,
    labelled,
    paint,
    shorten,
    wrap,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.report.contract import Evidence, Finding, Note, Report, Verdict

PROSE = 100  # cells; longer lines of prose are hard to read
MOST = 1000  # entries of any list even with -v: the JSON has them all
_OUTCOME = {"failure": "bold red", "inconclusive": "bold yellow"}
# Shell commands stay on one line. Such a line starts like a command, or contains what
# only commands contain and is not a sentence that introduces one.
_COMMAND = re.compile(
    r"(?:\$ |export |[A-Z][A-Z0-9_]*=\S|(?:sudo|ssh|pdsh|srun|scontrol|sacct|systemctl"
    r"|journalctl|dmesg|nvidia-smi|dcgmi|kubectl|torchrun|python3?|ip|ibstat|df|mount"
    r"|ncclforensics) [^ ]*[^ .,]( |$)|(?!.*: ).* (?:#|&&|\||--[a-z][a-z-]*) )"
)


def render_text(
    report: Report,
    *,
    width: int = 80,
    colour: bool = False,
    verbose: bool = False,
    quiet: bool = False,
) -> str:
    """Return the report as text that ends with a newline.

    `width` is that of the terminal in cells, at least 80. `quiet` prints only the two
    opening lines, `verbose` lifts the caps of the lists.
    """
    first, second = opening(report)
    rows = [
        Row("", first, _OUTCOME.get(report.outcome, "bold green")),
        Row("", second),
    ]
    if not quiet:
        rows += _body(report, max(width, 80) - LABEL, verbose=verbose)
    # the opening lines start at the left edge; all others are indented by the labels
    return paint(rows[:2], colour=colour) + paint(rows[2:], colour=colour, indent=LABEL)


def _body(report: Report, room: int, *, verbose: bool) -> list[Row]:
    """Return all rows below the opening lines, `room` cells wide beside the label."""
    prose = min(room, PROSE)
    rows: list[Row] = []
    if suspect_phrases.comes_first(report):
        rows += _suspects("look at", report, prose, verbose=verbose)
    if report.verdict is not None:
        rows += _verdict(report.verdict, report, room, verbose=verbose)
    elif not recognised(report):
        rows += labelled("do", wrap(GIVE, prose))
    if not suspect_phrases.comes_first(report):
        rows += _suspects("suspect", report, prose, verbose=verbose)
    rows += _course(report, prose, verbose=verbose)
    in_chain = {(s.slug, s.text) for s in report.chain if s.part == "spread"}
    for role, label in (("root", "also"), ("echo", "echoes"), ("witness", "witness")):
        told = [
            _brief(f)
            for f in others(report)
            if f.role == role
            and (f.slug, f.headline) not in in_chain
            # witnesses are already covered by "when" and "then"
            and not (role == "witness" and report.onset is not None)
        ]
        rows += _listed(label, told, prose, 4, verbose=verbose)
    told = [beside(other) for other in report.others]
    rows += _listed("others", told, prose, 4, verbose=verbose)
    ruled_out = grouped((r.slug, r.why) for r in report.ruled_out)
    told = [f"{slugs}: {why}" for slugs, why in ruled_out]
    rows += _listed("not", told, prose, 5, verbose=verbose)
    rows += _unknown(report, prose, verbose=verbose)
    rows += labelled("job", wrap(job(report.job), prose))
    rows += _notes(report.notes, prose, verbose=verbose)
    return [*rows, Row("next", _next(report))]


def _verdict(
    verdict: Verdict, report: Report, room: int, *, verbose: bool
) -> list[Row]:
    """Return the rows for why, call, when, evidence and what to do."""
    prose = min(room, PROSE)
    second = opening(report)[1]
    # a headline that was truncated in the second line is printed in full here
    full = [verdict.headline] if second.endswith(ELLIPSIS) else []
    why = [line for part in (*full, verdict.explanation) for line in wrap(part, prose)]
    rows = labelled("why", why)
    if verdict.collective is not None:
        rows += labelled("call", wrap(call(verdict.collective), prose))
    if verdict.first_seen is not None and report.onset is None:
        rows.append(Row("when", f"first seen {verdict.first_seen[:23]}Z"))
    if report.onset is not None:
        rows += labelled("when", wrap(onset(report.onset), prose))
        last = report.onset.last_line
        if last is not None:
            rows += labelled("last", _quote(last, room, verbose=verbose))
    cites = verdict.evidence[: MOST if verbose else 8]
    quoted = [line for cite in cites for line in _quote(cite, room, verbose=verbose)]
    quoted += _more(len(verdict.evidence) - len(cites), verbose=verbose)
    rows += labelled("evidence", quoted)
    do = [
        line
        for item in verdict.remedy
        for line in ([item] if _COMMAND.match(item) else wrap(item, prose, hang=2))
    ]
    rows += labelled("do", do)
    if again := restart(verdict):
        rows.append(Row("restart", again))
    return rows


def _suspects(label: str, report: Report, width: int, *, verbose: bool) -> list[Row]:
    """Return the suspects: name, share, reason; shares are aligned."""
    found = suspect_phrases.suspects(report)
    shown = found[: MOST if verbose else 3]
    broad = max((cell_len(suspect_phrases.name(s)) for s in shown), default=0)
    lines: list[str] = []
    for suspect in shown:
        name, share = suspect_phrases.name(suspect), suspect_phrases.share(suspect)
        head = f"{name}{' ' * (broad - cell_len(name))} {share:>5} "
        # a placeholder as wide as the head, because wrapping collapses spaces
        place = "#" * cell_len(head)
        first, *rest = wrap(f"{place} {suspect_phrases.reason(suspect)}", width, hang=2)
        lines += [head + first[len(place) :], *rest]
    return labelled(label, lines + _more(len(found) - len(shown), verbose=verbose))


def _course(report: Report, width: int, *, verbose: bool) -> list[Row]:
    """Return the chain from the cause to the symptoms, one step per line."""
    steps = [s for s in report.chain if s.part != "cause"]
    told = [f"-> {step(s)}" for s in steps if s.part == "spread"]
    told += [f"   {step(s)}" for s in steps if s.part == "seen"]
    shown = told[: MOST if verbose else 7]
    lines = [line for text in shown for line in wrap(text, width, hang=3)]
    return labelled("then", lines + _more(len(told) - len(shown), verbose=verbose))


def _unknown(report: Report, width: int, *, verbose: bool) -> list[Row]:
    """Return what was not checked, and if the cause is open, how to check it."""
    if report.outcome == "inconclusive" or verbose:
        if not (recognised(report) or verbose):
            return []  # it would list every class
        seen_by = (
            (n.slug, f"{n.missing}; next time: {n.next_time}")
            for n in report.not_checked
        )
        told = [f"{slugs}: {why}" for slugs, why in grouped(seen_by)]
        return _listed("unknown", told, width, 8, verbose=verbose)
    missing = grouped((n.slug, n.missing) for n in report.not_checked)
    told = [_one_line(slugs, why, width) for slugs, why in missing]
    return _listed("unknown", told, width, 3, verbose=verbose)


def _one_line(slugs: str, why: str, width: int) -> str:
    """Return classes and why they are unknown; class names are dropped before that."""
    names = slugs.split(", ")
    tries = [
        slugs,
        *(f"{', '.join(names[:n])} …" for n in range(len(names) - 1, 0, -1)),
    ]
    fit = (t for t in tries if cell_len(t) + 2 + cell_len(why) <= width)
    return shorten(f"{next(fit, tries[-1])}: {why}", width)


def _quote(cite: Evidence, room: int, *, verbose: bool) -> list[str]:
    """Return a citation: on one line if it fits, else the text below its place."""
    where = cite.source if cite.line is None else f"{cite.source}:{cite.line}"
    if not cite.text:
        return [where]
    together = f"{where}  {cite.text}"
    if shorten(together, room) == together:
        return [together]
    parts = fold(cite.text, room - 4, MOST if verbose else 4)
    return [where, *(f"  | {part}" for part in parts)]


def _brief(finding: Finding) -> str:
    """Return another finding in one line."""
    named = who(finding.culprits, 80)
    where = [f"{e.source}:{e.line}" for e in finding.evidence[:1] if e.line]
    said = "; ".join((finding.headline, *where))
    slug = f"{perhaps(finding)}{finding.slug}"
    return f"{slug}: {named} ({said})" if named else f"{slug}: {said}"


def _listed(
    label: str, told: Sequence[str], width: int, most: int, *, verbose: bool
) -> list[Row]:
    """Return at most `most` of `told`, wrapped, and the number of hidden ones."""
    shown = told[: MOST if verbose else most]
    lines = [line for text in shown for line in wrap(text, width, hang=2)]
    return labelled(label, lines + _more(len(told) - len(shown), verbose=verbose))


def _more(hidden: int, *, verbose: bool) -> list[str]:
    """Return a line on how many entries are hidden and which option shows them."""
    flag = "-f json" if verbose else "-v"
    return [f"… {hidden:,} more: {flag}"] if hidden > 0 else []


def _notes(notes: Sequence[Note], width: int, *, verbose: bool) -> list[Row]:
    """Return the number of notes, and one line for notes that differ only in digits."""
    if not notes:
        return []
    alike: dict[str, list[Note]] = {}
    for note in notes:
        alike.setdefault(re.sub(r"[0-9]+", "#", note.text), []).append(note)
    told = [count(len(notes), "note")]
    for group in sorted(alike.values(), key=len, reverse=True):
        first, files = group[0], len({note.source for note in group})
        where = f"{first.source}: " if first.source else ""
        rest = f" (and {len(group) - 1:,} more like it" if len(group) > 1 else ""
        rest += f", in {count(files, 'file')})" if rest else ""
        told.append(f"{where}{first.text}{rest}")
    return _listed("notes", told, width, 4, verbose=verbose)


def _next(report: Report) -> str:
    """Return the commands that show more."""
    see = "ncclforensics evidence PATH"
    if report.verdict is None:
        return see
    return f"ncclforensics explain {report.verdict.slug} · {see}"
