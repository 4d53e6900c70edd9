"""Renders the text answer: two self-contained lines, then why, where, what to do.

The body fits on one screen; the verbose body lists everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.report import suspect_phrases
from ncclforensics.report.coverage import recognised
from ncclforensics.report.formats import text_brief
from ncclforensics.report.formats import text_parts as parts
from ncclforensics.report.given import NOTHING_GIVEN
from ncclforensics.report.opening_lines import opening
from ncclforensics.report.phrases import (
    beside,
    call,
    grouped,
    job,
    onset,
    others,
    restart,
    step,
)
from ncclforensics.report.text_layout import LABEL, Row, labelled, paint, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.report.contract import Report, Verdict
    from ncclforensics.report.given import Given

_OUTCOME = {"failure": "bold red", "inconclusive": "bold yellow"}


def render_text(
    report: Report,
    *,
    width: int = 80,
    colour: bool = False,
    verbose: bool = False,
    quiet: bool = False,
    given: Given = NOTHING_GIVEN,
) -> str:
    """Return the report as text that ends with a newline.

    `width` is that of the terminal in cells, at least 80. `quiet` prints only the two
    opening lines; `verbose` lists everything, and not only what fits on a screen.
    `given` completes the commands for the person who asked.
    """
    first, second = opening(report)
    rows = [
        Row("", first, _OUTCOME.get(report.outcome, "bold green")),
        Row("", second),
    ]
    room = max(width, 80) - LABEL
    if not quiet:
        body = _body if verbose else text_brief.body
        rows += body(report, room, given)
    # the opening lines start at the left edge; all others are indented by the labels
    return paint(rows[:2], colour=colour) + paint(rows[2:], colour=colour, indent=LABEL)


def _body(report: Report, room: int, given: Given) -> list[Row]:
    """Return all rows below the opening lines, `room` cells wide beside the label."""
    prose = min(room, parts.PROSE)
    rows = labelled("asked", _wrapped(parts.asked(report), prose))
    suspects = [line for lines in parts.suspects(report, prose) for line in lines]
    if suspect_phrases.comes_first(report):
        rows += labelled("look at", suspects)
    for label, text in parts.clue(report):
        rows += labelled(label, wrap(text, prose))
    if report.verdict is not None:
        rows += _verdict(report.verdict, report, room, given)
    elif not recognised(report):
        rows += labelled("do", wrap(parts.GIVE, prose))
    if not suspect_phrases.comes_first(report):
        rows += labelled("suspect", suspects)
    told = [
        f"{'->' if s.part == 'spread' else '  '} {step(s)}"
        for s in parts.course(report)
    ]
    rows += labelled("then", _wrapped(told, prose, hang=3))
    in_chain = {(s.slug, s.text) for s in report.chain if s.part == "spread"}
    for role, label in (("root", "also"), ("echo", "echoes"), ("witness", "witness")):
        rows += _listed(
            label,
            [
                parts.told(f)
                for f in others(report)
                if f.role == role and (f.slug, f.headline) not in in_chain
            ],
            prose,
        )
    rows += _listed("others", [beside(other) for other in report.others], prose)
    ruled_out = grouped((r.slug, r.why) for r in report.ruled_out)
    rows += _listed("not", [f"{slugs}: {why}" for slugs, why in ruled_out], prose)
    if recognised(report):  # without any evidence it would list every class
        seen_by = (
            (n.slug, f"{n.missing}; next time: {n.next_time}")
            for n in report.not_checked
        )
        unknown = [f"{slugs}: {why}" for slugs, why in grouped(seen_by)]
        rows += _listed("unknown", unknown, prose)
    rows += labelled("job", wrap(job(report.job), prose))
    rows += _listed("notes", parts.notes(report), prose)
    return rows + labelled("next", parts.next_commands(report, given, prose))


def _verdict(verdict: Verdict, report: Report, room: int, given: Given) -> list[Row]:
    """Return the rows for why, call, when, evidence and what to do."""
    prose = min(room, parts.PROSE)
    rows = labelled("why", _wrapped(parts.why(report), prose, hang=0))
    if verdict.collective is not None:
        rows += labelled("call", wrap(call(verdict.collective), prose))
    if verdict.first_seen is not None and report.onset is None:
        rows.append(Row("when", f"first seen {verdict.first_seen[:23]}Z"))
    if report.onset is not None:
        rows += labelled("when", wrap(onset(report.onset), prose))
    rows += labelled("before", _wrapped(report.earlier, prose))
    if report.last_line is not None:
        rows += labelled("last", parts.quote(report.last_line, room, parts.MOST))
    cites = verdict.evidence[: parts.MOST]
    quoted = [line for c in cites for line in parts.quote(c, room, parts.MOST)]
    rows += labelled("evidence", quoted + _more(len(verdict.evidence) - len(cites)))
    do = [line for item in verdict.remedy for line in parts.remedy(item, prose, given)]
    rows += labelled("do", do)
    return rows + labelled("restart", wrap(restart(verdict), prose))


def _wrapped(told: Sequence[str], width: int, *, hang: int = 2) -> list[str]:
    return [line for text in told for line in wrap(text, width, hang=hang)]


def _listed(label: str, told: Sequence[str], width: int) -> list[Row]:
    """Return `told` wrapped, and the number of what is beyond the limit of any list."""
    lines = _wrapped(told[: parts.MOST], width)
    return labelled(label, lines + _more(len(told) - parts.MOST))


def _more(hidden: int) -> list[str]:
    return [f"… {hidden:,} more: -f json"] if hidden > 0 else []
