"""Renders the report as one HTML file: no scripts, no requests, printable, light, dark.

jinja2 escapes everything that is not template markup, and the page's own policy forbids
scripts and requests, so any log line stays text. Lists are bounded, and each says how
many entries are left out.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from jinja2 import (
    Environment,
    PackageLoader,
    StrictUndefined,
    Template,
    select_autoescape,
)
from markupsafe import Markup, escape
from msgspec.structs import replace as with_

from ncclforensics.model.folding import some
from ncclforensics.report import phrases, suspect_phrases
from ncclforensics.report.class_docs import HEADINGS, ITEM, page
from ncclforensics.report.coverage import recognised, was_read
from ncclforensics.report.details import Details
from ncclforensics.report.formats import pictures
from ncclforensics.report.opening_lines import opening
from ncclforensics.report.phrases import (
    GIVE,
    SPREAD,
    also,
    around_last,
    call,
    clue,
    grouped,
    job,
    last_line,
    others,
    who,
)
from ncclforensics.report.text_layout import shorten

if TYPE_CHECKING:
    from ncclforensics.report.contract import Report, Step

QUOTED = 160  # characters of a line within a sentence
MOST_CITES, MOST_FILES, MOST_NOTES, MOST_OTHERS = 60, 1000, 300, 100
NO_DETAILS = Details()


def render_html(
    report: Report, details: Details = NO_DETAILS, doc: str | None = None
) -> str:
    """Return the page; `doc` is the documentation of the verdict's class, if any."""
    return _template().render(
        report=report,
        verdict=report.verdict,
        opening=opening(report),
        title=" ".join(opening(report)[0].split()),
        who=who,
        call=call,
        some=some,
        recognised=recognised(report),
        give=GIVE,
        spread=SPREAD,
        job=job(report.job),
        also=also(report),
        clue=clue(report),
        leads=report.clue is not None and bool(report.clue.text),
        sureness=phrases.sureness,
        perhaps=phrases.perhaps,
        suspicion=suspect_phrases,
        suspects=suspect_phrases.suspects(report),
        others=others(report),
        restart="" if report.verdict is None else phrases.restart(report.verdict),
        last=last_line(report),
        earlier=report.earlier,
        around=around_last(report, details),
        onset=None if report.onset is None else phrases.onset(report.onset),
        chain=[(s.part, _step(s)) for s in report.chain[:MOST_OTHERS]],
        ruled_out=grouped((r.slug, r.why) for r in report.ruled_out),
        unchecked=grouped(
            (n.slug, f"{n.missing}; next time: {n.next_time}")
            for n in report.not_checked
        ),
        details=details,
        pictures=pictures.pictures(report, details),
        explained=[] if doc is None else _explained(doc),
        was_read=was_read,
        most=(MOST_CITES, MOST_OTHERS, MOST_FILES, MOST_NOTES),
    )


def _step(step: Step) -> str:
    """Return a step of the chain; of lines, the words of the first and their meaning.

    Whoever reads the page finds the words in the logs, the name of a grammar nowhere.
    """
    if step.part != "seen":
        return phrases.step(step)
    name, _, meaning = step.text.partition(": ")
    words = step.evidence[0].text if step.evidence and name != "exit" else ""
    told = phrases.step(with_(step, text=shorten(words, QUOTED) or meaning))
    return f"{told}: {meaning}" if words else told


def _explained(doc: str) -> list[tuple[str, list[tuple[str, list[str]]]]]:
    """Split the documentation of a class into (heading, [(kind, lines)])."""
    split = page(doc)
    found = [("", [("text", [split.summary])])]
    return found + [
        (heading, [_block(part) for part in body.split("\n\n")])
        for heading in HEADINGS
        if (body := split.sections.get(heading))
    ]


def _block(text: str) -> tuple[str, list[str]]:
    """Return (kind, lines) of a block: "code" if indented, a list, or "text"."""
    lines = text.splitlines()
    if all(part.startswith(" ") for part in lines):
        return "code", lines
    if not ITEM.match(lines[0]):
        return "text", [" ".join(part.strip() for part in lines)]
    items: list[str] = []
    for part in lines:
        if ITEM.match(part) or not items:
            items.append(ITEM.sub("", part, count=1))
        else:
            items[-1] += f" {part.strip()}"
    return "list", items


def _ticks(text: str) -> Markup:
    """Mark up text between backticks as code."""
    parts = [escape(part) for part in text.split("`")]
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if i % 2 else part
        for i, part in enumerate(parts)
    )


def _ranks(folded: str) -> Markup:
    """Mark up folded ranks so that lines break at commas, not at hyphens."""
    parts = (
        Markup("<span>{}</span>").format(part) for part in folded.split(",") if part
    )
    return Markup(",<wbr>").join(parts)


@cache
def _template() -> Template:
    """Return the template of the page; an undefined name in it raises."""
    environment = Environment(
        loader=PackageLoader("ncclforensics.report.formats"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["ticks"] = _ticks
    environment.filters["ranks"] = _ranks
    environment.filters["thousands"] = "{:,}".format
    return environment.get_template("report.html")
