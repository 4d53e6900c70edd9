"""Renders the report in Jira's wiki markup, for Jira Cloud (REST version 2) and Server.

Text of the evidence is inside {noformat}, which it cannot close. All other text is
escaped, so that nothing in a log becomes a macro, an image, a mention or a link.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ncclforensics.model.folding import some
from ncclforensics.report import suspect_phrases
from ncclforensics.report.opening_lines import opening
from ncclforensics.report.phrases import (
    SPREAD,
    also,
    call,
    clue,
    job,
    last_words,
    others,
    perhaps,
    restart,
    sureness,
    who,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncclforensics.report.contract import Report
    from ncclforensics.report.details import Details

MOST = 30  # entries of any list
ROOM = 60  # characters of a set of ranks
# brackets anywhere; formatting marks where they begin or end a word
_SPECIAL = re.compile(
    r"([\\{}\[\]|!]|(?<!\w)[*_?+^~-](?=\S)|(?<=\S)[*_?+^~-](?!\w)|^[#*-](?=\s))",
    re.MULTILINE,
)


def render_wiki(report: Report, details: Details, *, quotes: bool = True) -> str:
    """Return the report as wiki text that ends with a newline."""
    verdict = report.verdict
    first, second = opening(report)
    if verdict is None:
        parts = [f"*{escape(first)}*", escape(second), *_suspects(report)]
        parts += [f"{label}: {escape(text)}" for label, text in clue(report)]
    else:
        named = who(verdict.culprits, 200) or "no rank accused"
        is_open = report.clue is not None and report.clue.text
        parts = [
            *([f"*{escape(first)}*", escape(second)] if is_open else ()),
            f"*{perhaps(verdict)}{escape(verdict.slug)}: {escape(named)}*"
            f" ({escape(sureness(verdict, report))})",
            escape(verdict.headline),
            *map(escape, also(report)),
            *(_suspects(report) if suspect_phrases.comes_first(report) else ()),
            *(f"{label}: {escape(text)}" for label, text in clue(report)),
            escape(verdict.explanation),
        ]
        if verdict.collective is not None:
            parts.append(f"call: {escape(call(verdict.collective))}")
        if verdict.first_seen is not None:
            parts.append(f"first seen: {escape(verdict.first_seen)}")
        parts += map(escape, report.earlier)
        if quotes and (last := last_words(report, details)):
            parts += ["*Its last line*", noformat(last)]
        if verdict.remedy:
            parts += ["*What to do*", noformat(verdict.remedy)]
        if again := restart(verdict):
            parts.append(f"Restart: {escape(again)}")
        if not suspect_phrases.comes_first(report):
            parts += _suspects(report)
    if details.calls:
        rows = [
            f"| {escape(c.name)} | {_ranks(c.waiting)} | {_ranks(c.absent)} |"
            for c in details.calls
        ]
        parts.append("\n".join(["|| call || waiting || not made by ||", *rows]))
        if details.more_calls:
            parts.append(f"{details.more_calls:,} more calls that hang")
        if any(c.is_spread for c in details.calls):
            parts.append(SPREAD)
    if verdict is not None and quotes and verdict.evidence:
        cites = [f"{c.place}  {c.text}" for c in verdict.evidence]
        parts += ["*Evidence*", noformat(cites[:MOST])]
        if len(cites) > MOST:
            parts.append(f"{len(cites) - MOST:,} more in the attached report")
    told = [
        f"* {f.role}: {perhaps(f)}{escape(f.slug)}: {escape(f.headline)}"
        for f in others(report)
    ]
    if told:
        parts += ["*Other findings*", "\n".join(told[:MOST])]
    ran = f"{job(report.job)} · {report.tool.name} {report.tool.version}"
    return "\n\n".join([*parts, escape(ran)]) + "\n"


def _suspects(report: Report) -> list[str]:
    """Return the heading and the list of suspects, in order."""
    listed = [
        f"# {escape(suspect_phrases.told(s))}" for s in suspect_phrases.suspects(report)
    ]
    return [f"*{suspect_phrases.title(report)}*", "\n".join(listed)] if listed else []


def _ranks(listed: str) -> str:
    """Return folded ranks for a table cell; an empty cell would end the row early."""
    return escape(some(listed, ROOM)) or " "


def escape(text: str) -> str:
    """Escape `text` so that Jira shows it literally; a plain URL may become a link."""
    return _SPECIAL.sub(r"\\\1", text)


def noformat(lines: Iterable[str]) -> str:
    """Return lines in a {noformat} block that none of them can close."""
    body = "\n".join(lines).replace("{noformat", "{ noformat")
    return f"{{noformat}}\n{body}\n{{noformat}}"
