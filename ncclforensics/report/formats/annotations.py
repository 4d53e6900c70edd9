"""Renders the report as GitHub Actions workflow commands, one annotation per line.

The verdict is an error, an inconclusive outcome a warning, everything else a notice;
GitHub shows ten of each. Suspects are listed in the text of the first. Values are
escaped as the runner unescapes them (%, line ends, and in properties `:` and `,`).
`##[`, the runner's older command syntax, is split, because the runner accepts it
anywhere in a line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.report import suspect_phrases
from ncclforensics.report.opening_lines import opening
from ncclforensics.report.phrases import clue, last_line, others, perhaps

if TYPE_CHECKING:
    from ncclforensics.report.contract import Evidence, Report

MOST_NOTICES = 10


def render_github(report: Report) -> str:
    """Return the annotations, one per line, each ending with a newline."""
    verdict = report.verdict
    first, second = opening(report)
    level = {"failure": "error", "inconclusive": "warning"}.get(
        report.outcome, "notice"
    )
    listed = [
        suspect_phrases.told(suspect) for suspect in suspect_phrases.suspects(report)
    ]
    suspects = [f"{suspect_phrases.title(report)}:", *listed] if listed else []
    known = [f"{label}: {text}" for label, text in clue(report)]
    if verdict is None:
        return command(level, first, "\n".join([second, *suspects, *known]))
    title = " ".join(first.split())
    last = [f"last line: {text}"] if (text := last_line(report)) else []
    told = [verdict.headline, verdict.explanation, *report.earlier, *last]
    told += verdict.remedy
    at = 1 if suspect_phrases.comes_first(report) else len(told)
    text = "\n".join([*told[:at], *suspects, *known, *told[at:]])
    lines = [command(level, title, text, verdict.evidence[:1])]
    rest = others(report)
    for finding in rest[:MOST_NOTICES]:
        title = f"{finding.role}: {perhaps(finding)}{finding.slug}"
        lines.append(command("notice", title, finding.headline, finding.evidence[:1]))
    if len(rest) > MOST_NOTICES:
        more = f"{len(rest) - MOST_NOTICES:,} more findings: use -f json"
        lines.append(command("notice", "ncclforensics", more))
    return "".join(lines)


def command(level: str, title: str, text: str, cites: tuple[Evidence, ...] = ()) -> str:
    """Return one workflow command; file and line are those of the first cite."""
    properties = {}
    for cite in cites[:1]:
        properties["file"] = cite.source
        if cite.line is not None and cite.counts == "line":
            properties["line"] = str(cite.line)
    properties["title"] = title
    told = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{level} {told}::{_data(text)}\n"


def _data(text: str) -> str:
    """Escape the text of a command."""
    text = text.replace("##[", "# #[")
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escape the value of a property."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
